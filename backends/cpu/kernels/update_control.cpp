// Norms of gradients, and what they say about the step: the coefficient of every gradient, whether
// to update, and the next loss scale.
#include "backends/cpu/kernels/shared/families.h"
#include "backends/cpu/kernels/shared/reference.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace sextant {
namespace {

// {sum of squares, count}: of the finite elements, and of the others. In double the squares of 2^60
// largest f32 numbers do not overflow; those of f64 gradients may, which then counts as not finite.
void gradient_stats(const KernelContext& context, Workspace& workspace) {
  const Values gradient = load_input(context, 0, workspace);
  double squares = 0.0, others = 0.0;
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    if (std::isfinite(gradient[i]))
      squares += gradient[i] * gradient[i];
    else
      others += 1.0;
  }
  const Output stats(context, 0);
  stats.put(0, squares);
  stats.put(1, others);
}

void add_stats(const KernelContext& context, Workspace& workspace) {
  const auto sum = make_output(context, 0, workspace);
  for (std::size_t i = 0; i < context.in.size(); ++i) {
    const Values stats = load_input(context, i, workspace);
    for (std::size_t j = 0; j < sum.size(); ++j) sum[j] += stats[j];
  }
  store_output(context, 0, sum);
}

bool is_finite(const Values& stats) { return stats[1] == 0.0 && std::isfinite(stats[0]); }

void update_control(const KernelContext& context, Workspace& workspace) {
  const Attributes& attributes = context.attributes();
  const double limit = attributes.real_or("max_norm", 0.0);
  const double tokens = load_input(context, 0, workspace)[0];
  double scale = attributes.real_or("loss_scale", 1.0);
  if (context.in.size() > 2) scale = load_input(context, 2, workspace)[0];
  bool updates = tokens > 0;
  double coefficient = updates ? 1.0 / (tokens * scale) : 0.0;
  if (context.in.size() > 1) {
    const Values stats = load_input(context, 1, workspace);
    double norm = std::numeric_limits<double>::infinity();
    if (is_finite(stats))
      norm = std::sqrt(stats[0]) * coefficient;
    else
      updates = false;
    if (limit > 0 && norm > limit) coefficient *= limit / norm;
    const auto output = make_output(context, 1, workspace);
    output[0] = norm;
    store_output(context, 1, output);
  }
  const auto control = make_output(context, 0, workspace);
  if (updates) control[0] = coefficient, control[1] = 1.0;
  store_output(context, 0, control);
  if (context.in.size() < 3) return;
  const auto used = make_output(context, 2, workspace);
  used[0] = scale;
  store_output(context, 2, used);
}

// Smaller after an overflow, larger after `interval` updates without one, unchanged by a step
// without tokens.
void loss_scale_update(const KernelContext& context, Workspace& workspace) {
  const Attributes& attributes = context.attributes();
  const Output state(context, 0);
  double scale = state.present(0);
  std::int64_t& updates = *reinterpret_cast<std::int64_t*>(context.out[1].data);
  if (load_input(context, 0, workspace)[1] != 0.0) {
    if (++updates < attributes.integer("interval")) return;
    const double larger = scale * attributes.real("growth");
    if (larger <= std::numeric_limits<float>::max()) scale = larger;
  } else if (!is_finite(load_input(context, 1, workspace))) {
    scale = std::max(scale * attributes.real("backoff"), attributes.real("minimum"));
  } else {
    return;
  }
  updates = 0;
  state.put(0, scale);
}

}  // namespace

void add_update_control_kernels(KernelTable& table) {
  table.add("gradient_stats", gradient_stats);
  table.add("add_stats", add_stats, nullptr, wide_outputs);
  table.add("update_control", update_control, nullptr, wide_outputs);
  table.add("loss_scale_update", loss_scale_update);
}

}  // namespace sextant
