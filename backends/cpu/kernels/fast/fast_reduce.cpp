// Sums and means of f32 over dims around those that are kept, and the repetition that undoes them.
// Sums are kept in double, as the reference keeps them: the mean of a constant is that constant.
#include "backends/cpu/kernels/fast/clones.h"
#include "backends/cpu/kernels/fast/fast.h"
#include "backends/cpu/kernels/fast/middle.h"
#include "backends/cpu/kernels/fast/pieces.h"
#include "backends/cpu/kernels/fast/wide_sums.h"
#include "backends/cpu/kernels/shared/families.h"
#include "backends/cpu/kernels/shared/reference.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace sextant {
namespace {

// Columns that are summed together: their sums stay in the nearest cache.
constexpr std::int64_t kColumns = 512;

SEXTANT_CLONES void add_row(const float* x, std::int64_t count, double* sums) {
  for (std::int64_t i = 0; i < count; ++i) sums[i] += static_cast<double>(x[i]);
}

// y = factor x the sums, added to what is there or not.
void reduce(const KernelContext& context, Workspace& workspace, double factor) {
  const Middle middle = *middle_of(context);
  const float* const x = input<float>(context, 0);
  float* const y = output<float>(context, 0);
  const bool adds = context.accumulate[0];
  const auto put = [&](std::int64_t at, double sum) {
    const double value = sum * factor;
    y[at] = static_cast<float>(adds ? static_cast<double>(y[at]) + value : value);
  };
  if (middle.inner > 1) {
    in_pieces(workspace, middle.kept, middle.outer * middle.inner,
              [&](std::int64_t first, std::int64_t length) {
                for (std::int64_t kept = first; kept < first + length; ++kept) {
                  double sum = 0;
                  for (std::int64_t row = 0; row < middle.outer; ++row)
                    sum += wide_sum(x + middle.at(row, kept), middle.inner);
                  put(kept, sum);
                }
              });
    return;
  }
  const std::int64_t parts = (middle.kept + kColumns - 1) / kColumns;
  workspace.run(parts, [&](std::int64_t part, std::int64_t) {
    std::array<double, kColumns> sums{};
    const std::int64_t first = part * kColumns, length = std::min(kColumns, middle.kept - first);
    for (std::int64_t row = 0; row < middle.outer; ++row)
      add_row(x + middle.at(row, first), length, sums.data());
    for (std::int64_t i = 0; i < length; ++i) put(first + i, sums[static_cast<std::size_t>(i)]);
  });
}

void reduce_sum(const KernelContext& context, Workspace& workspace) {
  reduce(context, workspace, 1.0);
}

// A shard gives its share of the mean: its sum over the global count.
void reduce_mean(const KernelContext& context, Workspace& workspace) {
  const Shape& global = context.in[0].layout->global.shape;
  const ReducedDims dims(context.actor->kind, context.attributes(), global.rank());
  reduce(context, workspace, 1.0 / static_cast<double>(dims.count(global)));
}

std::optional<Middle> expanded_middle(const KernelContext& context) {
  const Shape& shape = context.out[0].local.shape;
  return middle_of(shape, ReducedDims(context.actor->kind, context.attributes(), shape.rank()));
}

void expand(const KernelContext& context, Workspace& workspace) {
  const Middle middle = *expanded_middle(context);
  const float* const x = input<float>(context, 0);
  float* const y = output<float>(context, 0);
  if (middle.kept == 1) {
    in_pieces(workspace, middle.inner, [&](std::int64_t first, std::int64_t length) {
      std::fill_n(y + first, length, x[0]);
    });
    return;
  }
  if (middle.inner == 1) {
    in_pieces(workspace, middle.outer, middle.kept, [&](std::int64_t first, std::int64_t length) {
      for (std::int64_t row = first; row < first + length; ++row)
        std::copy_n(x, middle.kept, y + middle.at(row, 0));
    });
    return;
  }
  in_pieces(workspace, middle.outer * middle.kept, middle.inner,
            [&](std::int64_t first, std::int64_t length) {
              for (std::int64_t i = first; i < first + length; ++i)
                std::fill_n(y + i * middle.inner, middle.inner, x[i % middle.kept]);
            });
}

bool covers_reduction(const KernelContext& context) {
  return context.in[0].local.dtype == DType::kF32 && is_f32(context) &&
         middle_of(context).has_value();
}

bool covers_expansion(const KernelContext& context) {
  return context.in[0].local.dtype == DType::kF32 && overwrites_f32(context) &&
         expanded_middle(context).has_value();
}

}  // namespace

void add_fast_reduce_kernels(KernelTable& table) {
  table.add("reduce_sum", reduce_sum, covers_reduction);
  table.add("reduce_mean", reduce_mean, covers_reduction);
  table.add("expand", expand, covers_expansion);
}

}  // namespace sextant
