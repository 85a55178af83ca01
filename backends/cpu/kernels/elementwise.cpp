// Reference kernels of activation functions, their slopes, and biases.
#include "backends/cpu/kernels/shared/families.h"
#include "backends/cpu/kernels/shared/maps.h"
#include "core/base/check.h"

#include <cmath>
#include <numbers>

namespace sextant {
namespace {

// sqrt(2 / pi) (x + 0.044715 x^3): the argument of the tanh form.
constexpr double kGeluScale = 0.79788456080286535588;
constexpr double kGeluCubic = 0.044715;

double gelu_tanh(double x) {
  return 0.5 * x * (1.0 + std::tanh(kGeluScale * (x + kGeluCubic * x * x * x)));
}

double gelu_tanh_derivative(double x) {
  const double t = std::tanh(kGeluScale * (x + kGeluCubic * x * x * x));
  return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * kGeluScale * (1.0 + 3.0 * kGeluCubic * x * x);
}

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }

double gelu_erf_derivative(double x) {
  const double density = std::exp(-0.5 * x * x) * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
  return normal_cdf(x) + x * density;
}

bool is_tanh_form(const KernelContext& context) {
  const std::string& form = context.attributes().text("approximate");
  require(form == "tanh" || form == "none", ErrorCode::kInternal,
          "gelu knows the forms tanh and none, found '{}'", form);
  return form == "tanh";
}

void gelu(const KernelContext& context, Workspace& workspace) {
  if (is_tanh_form(context))
    map_elements<1>(context, workspace, gelu_tanh);
  else
    map_elements<1>(context, workspace, [](double x) { return x * normal_cdf(x); });
}

void gelu_grad(const KernelContext& context, Workspace& workspace) {
  if (is_tanh_form(context))
    map_elements<2>(context, workspace,
                    [](double x, double dy) { return dy * gelu_tanh_derivative(x); });
  else
    map_elements<2>(context, workspace,
                    [](double x, double dy) { return dy * gelu_erf_derivative(x); });
}

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

double silu(double x) { return x * sigmoid(x); }

double silu_grad(double x, double dy) {
  const double s = sigmoid(x);
  return dy * s * (1.0 + x * (1.0 - s));
}

double tanh(double x) { return std::tanh(x); }
double tanh_grad(double y, double dy) { return dy * (1.0 - y * y); }
double sigmoid_grad(double y, double dy) { return dy * y * (1.0 - y); }

double relu(double x) { return x > 0 || std::isnan(x) ? x : 0.0; }
double relu_grad(double y, double dy) { return y > 0 ? dy : 0.0; }

void bias_add(const KernelContext& context, Workspace& workspace) {
  const Values x = load_input(context, 0, workspace);
  const Values bias = load_input(context, 1, workspace);
  const Output y(context, 0);
  for (std::size_t i = 0; i < y.size(); ++i) y.put(i, x[i] + bias[i % bias.size()]);
}

void reduce_to_bias(const KernelContext& context, Workspace& workspace) {
  const Values dy = load_input(context, 0, workspace);
  const auto bias = make_output(context, 0, workspace);
  for (std::size_t i = 0; i < dy.size(); ++i) bias[i % bias.size()] += dy[i];
  store_output(context, 0, bias);
}

}  // namespace

void add_elementwise_kernels(KernelTable& table) {
  table.add("gelu", gelu);
  table.add("gelu_grad", gelu_grad);
  table.add("silu", unary<silu>);
  table.add("silu_grad", binary<silu_grad>);
  table.add("tanh", unary<tanh>);
  table.add("tanh_grad", binary<tanh_grad>);
  table.add("sigmoid", unary<sigmoid>);
  table.add("sigmoid_grad", binary<sigmoid_grad>);
  table.add("relu", unary<relu>);
  table.add("relu_grad", binary<relu_grad>);
  table.add("bias_add", bias_add);
  table.add("reduce_to_bias", reduce_to_bias, nullptr, wide_outputs);
}

}  // namespace sextant
