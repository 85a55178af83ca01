// AdamW in one pass over four arrays, and the squares of gradients in lanes of doubles. Gradients
// are f32 or 16 bits wide, states f32.
#include "backends/cpu/kernels/fast/clones.h"
#include "backends/cpu/kernels/fast/fast.h"
#include "backends/cpu/kernels/fast/pieces.h"
#include "backends/cpu/kernels/fast/wide_sums.h"
#include "backends/cpu/kernels/shared/families.h"
#include "core/base/elements.h"
#include "core/operators/training/learning_rate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <type_traits>

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

  SEXTANT_INLINE void operator()(float gradient, float& p, float& m, float& v) const {
    const float g = gradient * coefficient;
    m = keep1 * m + add1 * g;
    v = keep2 * v + add2 * g * g;
    const float direction = m * factor1 / (std::sqrt(v * factor2) + epsilon);
    p -= rate * (direction + decay * p);
  }

  float coefficient, rate, decay, epsilon;
  float factor1 = 1, factor2 = 1, keep1 = 0, add1 = 1, keep2 = 0, add2 = 1;
};

SEXTANT_CLONES void adam_loop(const float* gradient, const AdamStep& step, float* p, float* m,
                              float* v, std::int64_t count) {
  const AdamStep own = step;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) own(gradient[i], p[i], m[i], v[i]);
}

// 16-bit gradients are widened one by one.
template <typename Gradient>
void adam_loop(const Gradient* gradient, const AdamStep& step, float* p, float* m, float* v,
               std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) step(widen(gradient[i]), p[i], m[i], v[i]);
}

template <typename Gradient>
void update_all(const KernelContext& context, const AdamStep& step, Workspace& workspace) {
  in_pieces(workspace, elements(context.out[0]), [&](std::int64_t first, std::int64_t length) {
    adam_loop(input<Gradient>(context, 0) + first, step, output<float>(context, 0) + first,
              output<float>(context, 1) + first, output<float>(context, 2) + first, length);
  });
}

void adamw(const KernelContext& context, Workspace& workspace) {
  if (element(context.in[1], 1) == 0.0) return;
  const std::int64_t update = ++*output<std::int64_t>(context, 3);
  const AdamStep step(context.attributes(), element(context.in[1], 0), update);
  switch (context.in[0].local.dtype) {
    case DType::kBF16:
      return update_all<BFloat16>(context, step, workspace);
    case DType::kF16:
      return update_all<Float16>(context, step, workspace);
    case DType::kF32:
    case DType::kF64:
    case DType::kI64:
    case DType::kI32:
    case DType::kBool:
    case DType::kE4M3:
    case DType::kE5M2:
    case DType::kU8:
      return update_all<float>(context, step, workspace);
  }
}

// SGD is momentum that keeps nothing, and has no moment.
struct MomentumStep {
  float coefficient = 1, rate = 0, decay = 0, keep = 0;
  bool is_nesterov = false;
};

SEXTANT_CLONES void momentum_loop(const float* gradient, const MomentumStep& step, float* p,
                                  float* m, std::int64_t count) {
  const MomentumStep own = step;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) {
    const float g = own.coefficient * gradient[i] + own.decay * p[i];
    m[i] = own.keep * m[i] + g;
    p[i] -= own.rate * (own.is_nesterov ? g + own.keep * m[i] : m[i]);
  }
}

SEXTANT_CLONES void sgd_loop(const float* gradient, const MomentumStep& step, float* p,
                             std::int64_t count) {
  const MomentumStep own = step;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i)
    p[i] -= own.rate * (own.coefficient * gradient[i] + own.decay * p[i]);
}

MomentumStep momentum_step(const KernelContext& context, std::int64_t update) {
  const Attributes& attributes = context.attributes();
  return {.coefficient = static_cast<float>(element(context.in[1], 0)),
          .rate = static_cast<float>(learning_rate_at(attributes, update)),
          .decay = static_cast<float>(attributes.real("weight_decay")),
          .keep = static_cast<float>(attributes.real_or("momentum", 0.0)),
          .is_nesterov = attributes.boolean_or("nesterov", false)};
}

void momentum(const KernelContext& context, Workspace& workspace) {
  if (element(context.in[1], 1) == 0.0) return;
  const MomentumStep step = momentum_step(context, ++*output<std::int64_t>(context, 2));
  in_pieces(workspace, elements(context.out[0]), [&](std::int64_t first, std::int64_t length) {
    momentum_loop(input<float>(context, 0) + first, step, output<float>(context, 0) + first,
                  output<float>(context, 1) + first, length);
  });
}

void sgd(const KernelContext& context, Workspace& workspace) {
  if (element(context.in[1], 1) == 0.0) return;
  const MomentumStep step = momentum_step(context, ++*output<std::int64_t>(context, 1));
  in_pieces(workspace, elements(context.out[0]), [&](std::int64_t first, std::int64_t length) {
    sgd_loop(input<float>(context, 0) + first, step, output<float>(context, 0) + first, length);
  });
}

// The sum of squares of what is finite, and how many are not, one by one.
template <typename Gradient>
std::array<double, 2> counted_stats(const Gradient* gradient, std::int64_t count) {
  std::array<double, 2> stats{};
  for (std::int64_t i = 0; i < count; ++i) {
    const auto g = static_cast<double>(widen(gradient[i]));
    if (std::isfinite(g))
      stats[0] += g * g;
    else
      stats[1] += 1.0;
  }
  return stats;
}

double lane_squares(const float* gradient, std::int64_t count) {
  return wide_squares(gradient, 0.0F, count);
}

// 16-bit gradients are widened a block at a time.
template <typename Gradient>
double lane_squares(const Gradient* gradient, std::int64_t count) {
  std::array<float, 512> block;
  double sum = 0;
  for (std::int64_t first = 0; first < count; first += std::ssize(block)) {
    const std::int64_t length = std::min<std::int64_t>(std::ssize(block), count - first);
    std::transform(gradient + first, gradient + first + length, block.begin(),
                   [](Gradient g) { return widen(g); });
    sum += wide_squares(block.data(), 0.0F, length);
  }
  return sum;
}

// A square of an f32 or of 16 bits is finite in double, so only where a sum is not finite somebody
// has to count.
template <typename Gradient>
std::array<double, 2> stats_of(const Gradient* gradient, std::int64_t count) {
  if constexpr (std::is_same_v<decltype(widen(Gradient{})), float>) {
    const double squares = lane_squares(gradient, count);
    if (std::isfinite(squares)) return {squares, 0.0};
  }
  return counted_stats(gradient, count);
}

// Elements whose sums are one term of the sum of all.
constexpr std::int64_t kStatsPiece = std::int64_t{1} << 16;

std::size_t stats_pieces(const KernelContext& context) {
  return static_cast<std::size_t>((elements(context.in[0]) + kStatsPiece - 1) / kStatsPiece);
}

void gradient_stats(const KernelContext& context, Workspace& workspace) {
  const std::int64_t count = elements(context.in[0]);
  const auto parts = workspace.take<std::array<double, 2>>(stats_pieces(context));
  visit_storage(context.in[0].local.dtype, [&](auto zero) {
    workspace.run(static_cast<std::int64_t>(parts.size()), [&](std::int64_t piece, std::int64_t) {
      const std::int64_t first = piece * kStatsPiece;
      parts[static_cast<std::size_t>(piece)] =
          stats_of(input<decltype(zero)>(context, 0) + first, std::min(kStatsPiece, count - first));
    });
  });
  std::array<double, 2> stats{};
  for (const auto& [squares, infinite] : parts) stats[0] += squares, stats[1] += infinite;
  std::copy(stats.begin(), stats.end(), output<double>(context, 0));
}

std::int64_t stats_bound(const KernelContext& context) {
  return Workspace::bytes_of<std::array<double, 2>>(stats_pieces(context));
}

bool updates_f32(const KernelContext& context) {
  return context.out[0].local.dtype == DType::kF32 && accumulates_none(context);
}

bool updates_all_f32(const KernelContext& context) {
  return context.in[0].local.dtype == DType::kF32 && updates_f32(context);
}

}  // namespace

void add_fast_optimizer_kernels(KernelTable& table) {
  table.add("adamw", adamw, updates_f32);
  table.add("momentum", momentum, updates_all_f32);
  table.add("sgd", sgd, updates_all_f32);
  table.add("gradient_stats", gradient_stats, accumulates_none, stats_bound);
}

}  // namespace sextant
