// Reference kernels of functions of one tensor. NaN gives NaN in all of them.
#include "backends/cpu/kernels/shared/families.h"
#include "backends/cpu/kernels/shared/maps.h"

#include <cmath>
#include <limits>

namespace sextant {
namespace {

double neg(double x) { return -x; }
double abs(double x) { return std::fabs(x); }
double exp(double x) { return std::exp(x); }
double log(double x) { return std::log(x); }
double sqrt(double x) { return std::sqrt(x); }
double rsqrt(double x) { return 1.0 / std::sqrt(x); }
double square(double x) { return x * x; }
double reciprocal(double x) { return 1.0 / x; }
double floor(double x) { return std::floor(x); }
double round(double x) { return std::nearbyint(x); }  // ties to even
double sign(double x) { return x > 0 ? 1.0 : x < 0 ? -1.0 : x; }

void scale(const KernelContext& context, Workspace& workspace) {
  const double factor = context.attributes().real("factor");
  map_elements<1>(context, workspace, [factor](double x) { return factor * x; });
}

void add_scalar(const KernelContext& context, Workspace& workspace) {
  const double value = context.attributes().real("value");
  map_elements<1>(context, workspace, [value](double x) { return x + value; });
}

void pow(const KernelContext& context, Workspace& workspace) {
  const double exponent = context.attributes().real("exponent");
  map_elements<1>(context, workspace, [exponent](double x) { return std::pow(x, exponent); });
}

struct Bounds {
  explicit Bounds(const Attributes& attributes)
      : min(attributes.real_or("min", -std::numeric_limits<double>::infinity())),
        max(attributes.real_or("max", std::numeric_limits<double>::infinity())) {}
  double min, max;
};

void clamp(const KernelContext& context, Workspace& workspace) {
  const Bounds bounds(context.attributes());
  map_elements<1>(context, workspace, [bounds](double x) {
    return x < bounds.min ? bounds.min : x > bounds.max ? bounds.max : x;
  });
}

void clamp_grad(const KernelContext& context, Workspace& workspace) {
  const Bounds bounds(context.attributes());
  map_elements<2>(context, workspace, [bounds](double x, double dy) {
    return x < bounds.min || x > bounds.max ? 0.0 : dy;
  });
}

// A byte that is not zero is true, whichever it is.
void cast(const KernelContext& context, Workspace& workspace) {
  if (context.in[0].local.dtype == DType::kBool)
    map_elements<1>(context, workspace, [](double x) { return x != 0.0 ? 1.0 : 0.0; });
  else
    map_elements<1>(context, workspace, [](double x) { return x; });
}

}  // namespace

void add_unary_kernels(KernelTable& table) {
  table.add("neg", unary<neg>);
  table.add("abs", unary<abs>);
  table.add("exp", unary<exp>);
  table.add("log", unary<log>);
  table.add("sqrt", unary<sqrt>);
  table.add("rsqrt", unary<rsqrt>);
  table.add("square", unary<square>);
  table.add("reciprocal", unary<reciprocal>);
  table.add("floor", unary<floor>);
  table.add("round", unary<round>);
  table.add("sign", unary<sign>);
  table.add("scale", scale);
  table.add("add_scalar", add_scalar);
  table.add("pow", pow);
  table.add("clamp", clamp);
  table.add("clamp_grad", clamp_grad);
  table.add("cast", cast);
}

}  // namespace sextant
