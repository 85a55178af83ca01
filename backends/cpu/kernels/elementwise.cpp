// Reference element-wise kernels and biases.
#include "backends/cpu/kernels/families.h"
#include "backends/cpu/kernels/reference.h"
#include "core/check.h"

#include <cmath>
#include <numbers>

namespace sextant {
namespace {

template <typename Function>
void map_unary(const KernelContext& context, Workspace& workspace, const Function& function) {
  const Values x = load_input(context, 0, workspace);
  const auto y = make_output(context, 0, workspace);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = function(x[i]);
  store_output(context, 0, y, workspace);
}

template <typename Function>
void map_binary(const KernelContext& context, Workspace& workspace, const Function& function) {
  const Values a = load_input(context, 0, workspace);
  const Values b = load_input(context, 1, workspace);
  const auto y = make_output(context, 0, workspace);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = function(a[i], b[i]);
  store_output(context, 0, y, workspace);
}

void add(const KernelContext& context, Workspace& workspace) {
  map_binary(context, workspace, [](double a, double b) { return a + b; });
}

void mul(const KernelContext& context, Workspace& workspace) {
  map_binary(context, workspace, [](double a, double b) { return a * b; });
}

void scale(const KernelContext& context, Workspace& workspace) {
  const double factor = context.attributes().real("factor");
  map_unary(context, workspace, [factor](double x) { return factor * x; });
}

void cast(const KernelContext& context, Workspace& workspace) {
  map_unary(context, workspace, [](double x) { return x; });
}

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
    map_unary(context, workspace, gelu_tanh);
  else
    map_unary(context, workspace, [](double x) { return x * normal_cdf(x); });
}

void gelu_grad(const KernelContext& context, Workspace& workspace) {
  if (is_tanh_form(context))
    map_binary(context, workspace,
               [](double x, double dy) { return dy * gelu_tanh_derivative(x); });
  else
    map_binary(context, workspace, [](double x, double dy) { return dy * gelu_erf_derivative(x); });
}

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

void silu(const KernelContext& context, Workspace& workspace) {
  map_unary(context, workspace, [](double x) { return x * sigmoid(x); });
}

void silu_grad(const KernelContext& context, Workspace& workspace) {
  map_binary(context, workspace, [](double x, double dy) {
    const double s = sigmoid(x);
    return dy * s * (1.0 + x * (1.0 - s));
  });
}

void bias_add(const KernelContext& context, Workspace& workspace) {
  const Values x = load_input(context, 0, workspace);
  const Values bias = load_input(context, 1, workspace);
  const auto y = make_output(context, 0, workspace);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = x[i] + bias[i % bias.size()];
  store_output(context, 0, y, workspace);
}

void reduce_to_bias(const KernelContext& context, Workspace& workspace) {
  const Values dy = load_input(context, 0, workspace);
  const auto bias = make_output(context, 0, workspace);
  for (std::size_t i = 0; i < dy.size(); ++i) bias[i % bias.size()] += dy[i];
  store_output(context, 0, bias, workspace);
}

}  // namespace

void add_elementwise_kernels(KernelTable& table) {
  table.add("add", add);
  table.add("mul", mul);
  table.add("scale", scale);
  table.add("cast", cast);
  table.add("gelu", gelu);
  table.add("gelu_grad", gelu_grad);
  table.add("silu", silu);
  table.add("silu_grad", silu_grad);
  table.add("bias_add", bias_add);
  table.add("reduce_to_bias", reduce_to_bias);
}

}  // namespace sextant
