// Reference kernels of arithmetic, comparison, logic and choice on operands that stretch.
#include "backends/cpu/kernels/shared/families.h"
#include "backends/cpu/kernels/shared/maps.h"

#include <cmath>

namespace sextant {
namespace {

double add(double a, double b) { return a + b; }
double sub(double a, double b) { return a - b; }
double mul(double a, double b) { return a * b; }
double div(double a, double b) { return a / b; }

// NaN in either operand gives NaN; of two zeros of unlike sign, a.
double maximum(double a, double b) { return std::isnan(b) || b > a ? b : a; }
double minimum(double a, double b) { return std::isnan(b) || b < a ? b : a; }

// Equal operands share the gradient.
double maximum_grad(double a, double b, double dy) { return a > b ? dy : a == b ? dy / 2 : 0.0; }
double minimum_grad(double a, double b, double dy) { return a < b ? dy : a == b ? dy / 2 : 0.0; }

double truth(bool value) { return value ? 1.0 : 0.0; }

double equal(double a, double b) { return truth(a == b); }
double not_equal(double a, double b) { return truth(a != b); }
double less(double a, double b) { return truth(a < b); }
double less_equal(double a, double b) { return truth(a <= b); }
double greater(double a, double b) { return truth(a > b); }
double greater_equal(double a, double b) { return truth(a >= b); }

double logical_not(double a) { return truth(a == 0.0); }
double logical_and(double a, double b) { return truth(a != 0.0 && b != 0.0); }
double logical_or(double a, double b) { return truth(a != 0.0 || b != 0.0); }

double where(double condition, double a, double b) { return condition != 0.0 ? a : b; }

}  // namespace

void add_binary_kernels(KernelTable& table) {
  table.add("add", binary<add>);
  table.add("sub", binary<sub>);
  table.add("mul", binary<mul>);
  table.add("div", binary<div>);
  table.add("maximum", binary<maximum>);
  table.add("minimum", binary<minimum>);
  table.add("maximum_grad", ternary<maximum_grad>);
  table.add("minimum_grad", ternary<minimum_grad>);
  table.add("equal", binary<equal>);
  table.add("not_equal", binary<not_equal>);
  table.add("less", binary<less>);
  table.add("less_equal", binary<less_equal>);
  table.add("greater", binary<greater>);
  table.add("greater_equal", binary<greater_equal>);
  table.add("logical_not", unary<logical_not>);
  table.add("logical_and", binary<logical_and>);
  table.add("logical_or", binary<logical_or>);
  table.add("where", ternary<where>);
}

}  // namespace sextant
