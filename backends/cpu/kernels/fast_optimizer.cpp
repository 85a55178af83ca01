// AdamW in f32: one pass over the four arrays.
#include "backends/cpu/kernels/families.h"
#include "backends/cpu/kernels/fast.h"

#include <cmath>

namespace sextant {
namespace {

void adamw(const KernelContext& context, Workspace&) {
  const Attributes& attributes = context.attributes();
  const double beta1 = attributes.real("beta1"), beta2 = attributes.real("beta2");
  const float tokens = input<float>(context, 1)[0];
  if (tokens == 0.0F) return;
  const auto step = static_cast<double>(++*output<std::int64_t>(context, 3));
  const auto rate = static_cast<float>(attributes.real("learning_rate"));
  const auto decay = static_cast<float>(attributes.real("weight_decay"));
  const auto epsilon = static_cast<float>(attributes.real("epsilon"));
  const auto factor1 = static_cast<float>(1.0 / (1.0 - std::pow(beta1, step)));
  const auto factor2 = static_cast<float>(1.0 / (1.0 - std::pow(beta2, step)));
  const auto keep1 = static_cast<float>(beta1), add1 = static_cast<float>(1.0 - beta1);
  const auto keep2 = static_cast<float>(beta2), add2 = static_cast<float>(1.0 - beta2);
  const float* gradient = input<float>(context, 0);
  float* p = output<float>(context, 0);
  float* m = output<float>(context, 1);
  float* v = output<float>(context, 2);
  const std::int64_t count = elements(context.out[0]);
  for (std::int64_t i = 0; i < count; ++i) {
    const float g = gradient[i] / tokens;
    m[i] = keep1 * m[i] + add1 * g;
    v[i] = keep2 * v[i] + add2 * g * g;
    const float direction = m[i] * factor1 / (std::sqrt(v[i] * factor2) + epsilon);
    p[i] -= rate * (direction + decay * p[i]);
  }
}

}  // namespace

void add_fast_optimizer_kernels(KernelTable& table) { table.add("adamw", adamw, is_f32); }

}  // namespace sextant
