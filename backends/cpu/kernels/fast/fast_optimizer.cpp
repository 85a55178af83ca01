// AdamW in one pass over four arrays, and the squares of gradients in lanes of doubles. Gradients
// are f32 or 16 bits wide, states f32.
#include "backends/cpu/kernels/fast/fast.h"
#include "backends/cpu/kernels/shared/families.h"
#include "core/base/elements.h"
#include "core/operators/training/learning_rate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

namespace sextant {
namespace {

double element(const KernelOperand& operand, std::size_t index) {
  std::array<double, 2> values{};
  load_as_double(operand.local.dtype, operand.data,
                 std::span(values).first(static_cast<std::size_t>(elements(operand))));
  return values[index];
}

// What one element of a gradient does to its parameter and moments.
struct AdamStep {
  AdamStep(const Attributes& attributes, double scale, std::int64_t update)
      : coefficient(static_cast<float>(scale)),
        rate(static_cast<float>(learning_rate_at(attributes, update))),
        decay(static_cast<float>(attributes.real("weight_decay"))),
        epsilon(static_cast<float>(attributes.real("epsilon"))) {
    const double beta1 = attributes.real("beta1"), beta2 = attributes.real("beta2");
    const auto count = static_cast<double>(update);
    factor1 = static_cast<float>(1.0 / (1.0 - std::pow(beta1, count)));
    factor2 = static_cast<float>(1.0 / (1.0 - std::pow(beta2, count)));
    keep1 = static_cast<float>(beta1), add1 = static_cast<float>(1.0 - beta1);
    keep2 = static_cast<float>(beta2), add2 = static_cast<float>(1.0 - beta2);
  }

  void operator()(float gradient, float& p, float& m, float& v) const {
    const float g = gradient * coefficient;
    m = keep1 * m + add1 * g;
    v = keep2 * v + add2 * g * g;
    const float direction = m * factor1 / (std::sqrt(v * factor2) + epsilon);
    p -= rate * (direction + decay * p);
  }

  float coefficient, rate, decay, epsilon;
  float factor1 = 1, factor2 = 1, keep1 = 0, add1 = 1, keep2 = 0, add2 = 1;
};

template <typename Gradient>
void update_all(const KernelContext& context, const AdamStep& step) {
  const Gradient* gradient = input<Gradient>(context, 0);
  float* p = output<float>(context, 0);
  float* m = output<float>(context, 1);
  float* v = output<float>(context, 2);
  const std::int64_t count = elements(context.out[0]);
  for (std::int64_t i = 0; i < count; ++i) step(widen(gradient[i]), p[i], m[i], v[i]);
}

void adamw(const KernelContext& context, Workspace&) {
  if (element(context.in[1], 1) == 0.0) return;
  const std::int64_t update = ++*output<std::int64_t>(context, 3);
  const AdamStep step(context.attributes(), element(context.in[1], 0), update);
  switch (context.in[0].local.dtype) {
    case DType::kBF16:
      return update_all<BFloat16>(context, step);
    case DType::kF16:
      return update_all<Float16>(context, step);
    case DType::kF32:
    case DType::kF64:
    case DType::kI64:
    case DType::kI32:
    case DType::kBool:
      return update_all<float>(context, step);
  }
}

// Not finite times zero is not zero: such an element shows in `rest`, and only then they are
// counted.
template <typename Gradient>
std::array<double, 2> stats_of(const Gradient* gradient, std::int64_t count) {
  std::array<double, kLanes> squares{}, rest{};
  std::int64_t i = 0;
  const auto add = [&](std::int64_t at, std::size_t lane) {
    const auto g = static_cast<double>(widen(gradient[at]));
    squares[lane] += g * g;
    rest[lane] += g * 0.0;
  };
  for (; i + static_cast<std::int64_t>(kLanes) <= count; i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      add(i + static_cast<std::int64_t>(lane), lane);
  for (std::size_t lane = 0; i < count; ++i, ++lane) add(i, lane);
  std::array<double, 2> stats{};
  double left = 0;
  for (std::size_t lane = 0; lane < kLanes; ++lane) stats[0] += squares[lane], left += rest[lane];
  if (left == 0.0) return stats;
  stats = {};
  for (i = 0; i < count; ++i) {
    const auto g = static_cast<double>(widen(gradient[i]));
    if (std::isfinite(g))
      stats[0] += g * g;
    else
      stats[1] += 1.0;
  }
  return stats;
}

void gradient_stats(const KernelContext& context, Workspace&) {
  std::array<double, 2> stats{};
  visit_storage(context.in[0].local.dtype, [&](auto zero) {
    stats = stats_of(input<decltype(zero)>(context, 0), elements(context.in[0]));
  });
  std::copy(stats.begin(), stats.end(), output<double>(context, 0));
}

bool updates_f32(const KernelContext& context) {
  return context.out[0].local.dtype == DType::kF32 && accumulates_none(context);
}

}  // namespace

void add_fast_optimizer_kernels(KernelTable& table) {
  table.add("adamw", adamw, updates_f32);
  table.add("gradient_stats", gradient_stats, accumulates_none);
}

}  // namespace sextant
