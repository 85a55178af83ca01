// Reference updates on state registers: the parameter and what belongs to it, in place.
#include "backends/cpu/kernels/families.h"
#include "backends/cpu/kernels/reference.h"

#include <cmath>

namespace sextant {
namespace {

enum Output : std::size_t { kParameter, kFirstMoment, kSecondMoment, kStep };

void adamw(const KernelContext& context, Workspace& workspace) {
  const Attributes& attributes = context.attributes();
  const double beta1 = attributes.real("beta1");
  const double beta2 = attributes.real("beta2");
  const double epsilon = attributes.real("epsilon");
  const double rate = attributes.real("learning_rate");
  const double decay = attributes.real("weight_decay");
  const Values gradient = load_input(context, 0, workspace);
  const double tokens = load_input(context, 1, workspace)[0];
  if (tokens == 0.0) return;
  const auto p = load_output(context, kParameter, workspace);
  const auto m = load_output(context, kFirstMoment, workspace);
  const auto v = load_output(context, kSecondMoment, workspace);
  const auto step = load_output(context, kStep, workspace);
  step[0] += 1.0;
  const double correction1 = 1.0 - std::pow(beta1, step[0]);
  const double correction2 = 1.0 - std::pow(beta2, step[0]);
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double g = gradient[i] / tokens;
    m[i] = beta1 * m[i] + (1.0 - beta1) * g;
    v[i] = beta2 * v[i] + (1.0 - beta2) * g * g;
    const double direction = m[i] / correction1 / (std::sqrt(v[i] / correction2) + epsilon);
    p[i] -= rate * (direction + decay * p[i]);
  }
  store_output(context, kParameter, p, workspace);
  store_output(context, kFirstMoment, m, workspace);
  store_output(context, kSecondMoment, v, workspace);
  store_output(context, kStep, step, workspace);
}

void sgd(const KernelContext& context, Workspace& workspace) {
  const Attributes& attributes = context.attributes();
  const double rate = attributes.real("learning_rate");
  const double momentum = attributes.real("momentum");
  const double decay = attributes.real("weight_decay");
  const bool is_nesterov = attributes.boolean_or("nesterov", false);
  const Values gradient = load_input(context, 0, workspace);
  const double tokens = load_input(context, 1, workspace)[0];
  if (tokens == 0.0) return;
  const auto p = load_output(context, 0, workspace);
  const auto m = load_output(context, 1, workspace);
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double g = gradient[i] / tokens + decay * p[i];
    m[i] = momentum * m[i] + g;
    p[i] -= rate * (is_nesterov ? g + momentum * m[i] : m[i]);
  }
  store_output(context, 0, p, workspace);
  store_output(context, 1, m, workspace);
}

}  // namespace

void add_optimizer_kernels(KernelTable& table) {
  table.add("adamw", adamw);
  table.add("sgd", sgd);
}

}  // namespace sextant
