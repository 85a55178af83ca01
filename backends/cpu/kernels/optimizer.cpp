// Reference updates on state registers: the parameter and what belongs to it, in place. Where the
// control says no, nothing is touched: not a moment, not the count of updates.
#include "backends/cpu/kernels/shared/families.h"
#include "backends/cpu/kernels/shared/reference.h"
#include "core/operators/training/learning_rate.h"

#include <cmath>
#include <cstdint>
#include <vector>

namespace sextant {
namespace {

struct Control {
  double coefficient = 0;
  bool updates = false;
};

Control load_control(const KernelContext& context, std::size_t input, Workspace& workspace) {
  const Values values = load_input(context, input, workspace);
  return {values[0], values[1] != 0.0};
}

// One more update in output `index`; returns which it is.
std::int64_t count_update(const KernelContext& context, std::size_t index) {
  return ++*reinterpret_cast<std::int64_t*>(context.out[index].data);
}

void sgd(const KernelContext& context, Workspace& workspace) {
  const Attributes& attributes = context.attributes();
  const Control control = load_control(context, 1, workspace);
  if (!control.updates) return;
  const double decay = attributes.real("weight_decay");
  const double rate = learning_rate_at(attributes, count_update(context, 1));
  const Values gradient = load_input(context, 0, workspace);
  const Output p(context, 0);
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double weight = p.present(i);
    p.put(i, weight - rate * (control.coefficient * gradient[i] + decay * weight));
  }
}

void momentum(const KernelContext& context, Workspace& workspace) {
  const Attributes& attributes = context.attributes();
  const Control control = load_control(context, 1, workspace);
  if (!control.updates) return;
  const double keep = attributes.real("momentum");
  const double decay = attributes.real("weight_decay");
  const bool is_nesterov = attributes.boolean_or("nesterov", false);
  const double rate = learning_rate_at(attributes, count_update(context, 2));
  const Values gradient = load_input(context, 0, workspace);
  const Output p(context, 0), m(context, 1);
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double weight = p.present(i);
    const double g = control.coefficient * gradient[i] + decay * weight;
    const double moment = keep * m.present(i) + g;
    m.put(i, moment);
    p.put(i, weight - rate * (is_nesterov ? g + keep * moment : moment));
  }
}

// What AdamW and LAMB share: the moments, and the direction they give after this many updates.
class Adam {
 public:
  explicit Adam(const Attributes& attributes, std::int64_t update)
      : beta1_(attributes.real("beta1")),
        beta2_(attributes.real("beta2")),
        epsilon_(attributes.real("epsilon")),
        correction1_(1.0 - std::pow(beta1_, static_cast<double>(update))),
        correction2_(1.0 - std::pow(beta2_, static_cast<double>(update))) {}

  // Of element `i`, whose moments move.
  double direction(double g, const Output& moments, const Output& squares, std::size_t i) const {
    const double m = beta1_ * moments.present(i) + (1.0 - beta1_) * g;
    const double v = beta2_ * squares.present(i) + (1.0 - beta2_) * g * g;
    moments.put(i, m);
    squares.put(i, v);
    return m / correction1_ / (std::sqrt(v / correction2_) + epsilon_);
  }

 private:
  double beta1_, beta2_, epsilon_, correction1_, correction2_;
};

void adamw(const KernelContext& context, Workspace& workspace) {
  const Attributes& attributes = context.attributes();
  const Control control = load_control(context, 1, workspace);
  if (!control.updates) return;
  const std::int64_t update = count_update(context, 3);
  const Adam adam(attributes, update);
  const double rate = learning_rate_at(attributes, update);
  const double decay = attributes.real("weight_decay");
  const Values gradient = load_input(context, 0, workspace);
  const Output p(context, 0), m(context, 1), v(context, 2);
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double weight = p.present(i);
    const double direction = adam.direction(control.coefficient * gradient[i], m, v, i);
    p.put(i, weight - rate * (direction + decay * weight));
  }
}

// Outputs: direction, m, v, step, rate. The direction of a step that is skipped is zero.
void lamb_direction(const KernelContext& context, Workspace& workspace) {
  const Attributes& attributes = context.attributes();
  const Control control = load_control(context, 2, workspace);
  const Output direction(context, 0), rate(context, 4);
  if (!control.updates) {
    for (std::size_t i = 0; i < direction.size(); ++i) direction.put(i, 0.0);
    return rate.put(0, 0.0);
  }
  const std::int64_t update = count_update(context, 3);
  const Adam adam(attributes, update);
  const double decay = attributes.real("weight_decay");
  const Values gradient = load_input(context, 0, workspace);
  const Values p = load_input(context, 1, workspace);
  const Output m(context, 1), v(context, 2);
  for (std::size_t i = 0; i < direction.size(); ++i)
    direction.put(i, adam.direction(control.coefficient * gradient[i], m, v, i) + decay * p[i]);
  rate.put(0, learning_rate_at(attributes, update));
}

double sum_of_squares(const Values& values) {
  double sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) sum += values[i] * values[i];
  return sum;
}

void lamb_norms(const KernelContext& context, Workspace& workspace) {
  const Output norms(context, 0);
  for (std::size_t i = 0; i < 2; ++i)
    norms.put(i, sum_of_squares(load_input(context, i, workspace)));
}

// The ratio of the norms of weight and direction scales the rate; a tensor of zeros, or one that
// takes no part in it, moves at the rate itself.
void lamb_apply(const KernelContext& context, Workspace& workspace) {
  if (!load_control(context, 3, workspace).updates) return;
  const Values direction = load_input(context, 0, workspace);
  const Values norms = load_input(context, 1, workspace);
  const bool adapts = context.attributes().boolean_or("adapts", true);
  double rate = load_input(context, 2, workspace)[0];
  if (adapts && norms[0] > 0 && norms[1] > 0) rate *= std::sqrt(norms[0]) / std::sqrt(norms[1]);
  const Output p(context, 0);
  for (std::size_t i = 0; i < p.size(); ++i) p.put(i, p.present(i) - rate * direction[i]);
}

}  // namespace

void add_optimizer_kernels(KernelTable& table) {
  table.add("sgd", sgd);
  table.add("momentum", momentum);
  table.add("adamw", adamw);
  table.add("lamb_direction", lamb_direction);
  table.add("lamb_norms", lamb_norms);
  table.add("lamb_apply", lamb_apply);
  add_update_control_kernels(table);
}

}  // namespace sextant
