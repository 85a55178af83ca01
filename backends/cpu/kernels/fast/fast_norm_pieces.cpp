// Pieces of batch norm in f32: statistics and weights of one run of dims, sums in double. What has
// no mean, and norms whose weights lie along other dims than their statistics, is the reference's.
#include "backends/cpu/kernels/fast/clones.h"
#include "backends/cpu/kernels/fast/fast.h"
#include "backends/cpu/kernels/fast/middle.h"
#include "backends/cpu/kernels/fast/pieces.h"
#include "backends/cpu/kernels/fast/wide_sums.h"
#include "backends/cpu/kernels/shared/families.h"
#include "backends/cpu/kernels/shared/reference.h"

#include <cstddef>
#include <cstdint>

namespace sextant {
namespace {

// y = (x - mean) scale + shift
SEXTANT_CLONES void normalize_row(const float* x, float mean, float scale, float shift, float* y,
                                  std::int64_t count) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) y[i] = (x[i] - mean) * scale + shift;
}

// dx = scale dy - shift - (x - mean) slope
struct GradRow {
  float mean = 0, scale = 0, shift = 0, slope = 0;
};
SEXTANT_CLONES void grad_row(const float* x, const float* dy, GradRow row, float* dx,
                             std::int64_t count) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i)
    dx[i] = row.scale * dy[i] - row.shift - (x[i] - row.mean) * row.slope;
}

void reduce_squares(const KernelContext& context, Workspace& workspace) {
  const Middle middle = *middle_of(context);
  const float* const x = input<float>(context, 0);
  const float* const mean = input<float>(context, 1);
  float* const y = output<float>(context, 0);
  in_pieces(workspace, middle.kept, middle.outer * middle.inner,
            [&](std::int64_t first, std::int64_t length) {
              for (std::int64_t kept = first; kept < first + length; ++kept) {
                double sum = context.accumulate[0] ? static_cast<double>(y[kept]) : 0.0;
                for (std::int64_t row = 0; row < middle.outer; ++row)
                  sum += wide_squares(x + middle.at(row, kept), mean[kept], middle.inner);
                y[kept] = static_cast<float>(sum);
              }
            });
}

void normalize(const KernelContext& context, Workspace& workspace) {
  const Middle middle = *middle_of(context);
  const float* const x = input<float>(context, 0);
  const float* const mean = input<float>(context, 1);
  const float* const rstd = input<float>(context, 2);
  const float* const gamma = input<float>(context, 3);
  const float* const beta = input<float>(context, 4);
  float* const y = output<float>(context, 0);
  in_pieces(workspace, middle.outer * middle.kept, middle.inner,
            [&](std::int64_t first, std::int64_t length) {
              for (std::int64_t i = first; i < first + length; ++i) {
                const std::int64_t kept = i % middle.kept, at = i * middle.inner;
                normalize_row(x + at, mean[kept], rstd[kept] * gamma[kept], beta[kept], y + at,
                              middle.inner);
              }
            });
}

void normalize_grad_weight(const KernelContext& context, Workspace& workspace) {
  const Middle middle = *middle_of(context);
  const float* const x = input<float>(context, 0);
  const float* const mean = input<float>(context, 1);
  const float* const rstd = input<float>(context, 2);
  const float* const dy = input<float>(context, 3);
  const auto put = [&](std::size_t index, std::int64_t at, double value) {
    float* const to = output<float>(context, index) + at;
    *to = static_cast<float>(context.accumulate[index] ? static_cast<double>(*to) + value : value);
  };
  in_pieces(workspace, middle.kept, middle.outer * middle.inner,
            [&](std::int64_t first, std::int64_t length) {
              for (std::int64_t kept = first; kept < first + length; ++kept) {
                WideGradSums sums;
                for (std::int64_t row = 0; row < middle.outer; ++row) {
                  const std::int64_t at = middle.at(row, kept);
                  const auto [of_dy, of_products] =
                      wide_grad_sums(x + at, mean[kept], dy + at, middle.inner);
                  sums.dy += of_dy;
                  sums.dy_x += of_products;
                }
                put(0, kept, sums.dy_x * static_cast<double>(rstd[kept]));
                put(1, kept, sums.dy);
              }
            });
}

// Sums of weights lack the factor gamma, and that of (x - mean) has a factor rstd.
GradRow grad_row_of(const KernelContext& context, std::int64_t kept, double count) {
  const auto value = [&](std::size_t index) {
    return static_cast<double>(input<float>(context, index)[kept]);
  };
  const double rstd = value(2), scale = rstd * value(3);
  const double sum_g = value(4) / count, sum_gx = value(5) / count;
  const bool of_weights =
      context.attributes().contains("sums") && context.attributes().text("sums") == "of_weights";
  return {.mean = input<float>(context, 1)[kept],
          .scale = static_cast<float>(scale),
          .shift = static_cast<float>(of_weights ? scale * sum_g : rstd * sum_g),
          .slope =
              static_cast<float>(of_weights ? scale * rstd * sum_gx : rstd * rstd * rstd * sum_gx)};
}

void normalize_grad_input(const KernelContext& context, Workspace& workspace) {
  const Middle middle = *middle_of(context);
  const Shape& global = context.in[0].layout->global.shape;
  const ReducedDims dims(context.actor->kind, context.attributes(), global.rank());
  const auto count = static_cast<double>(dims.count(global));
  const float* const x = input<float>(context, 0);
  const float* const dy = input<float>(context, 6);
  float* const dx = output<float>(context, 0);
  const auto rows = workspace.take<GradRow>(static_cast<std::size_t>(middle.kept));
  for (std::int64_t kept = 0; kept < middle.kept; ++kept)
    rows[static_cast<std::size_t>(kept)] = grad_row_of(context, kept, count);
  in_pieces(workspace, middle.outer * middle.kept, middle.inner,
            [&](std::int64_t first, std::int64_t length) {
              for (std::int64_t i = first; i < first + length; ++i) {
                const std::int64_t at = i * middle.inner;
                grad_row(x + at, dy + at, rows[static_cast<std::size_t>(i % middle.kept)], dx + at,
                         middle.inner);
              }
            });
}

std::int64_t grad_rows_bound(const KernelContext& context) {
  return Workspace::bytes_of<GradRow>(static_cast<std::size_t>(middle_of(context)->kept));
}

// The other dims than `weight_dims` are those of the statistics.
bool has_weights_of_statistics(const KernelContext& context) {
  const std::size_t rank = context.in[0].local.shape.rank();
  const auto& weights = context.attributes().integers("weight_dims");
  return ReducedDims::all_but(context.actor->kind, weights, rank).reduced() ==
         ReducedDims(context.actor->kind, context.attributes(), rank).reduced();
}

// Rows of one element each are no rows.
bool has_rows(const KernelContext& context) {
  const auto middle = middle_of(context);
  return middle && middle->inner > 1;
}

template <std::size_t kInputs>
bool covers(const KernelContext& context) {
  return context.in.size() == kInputs && is_f32(context) && has_rows(context) &&
         has_weights_of_statistics(context);
}

template <std::size_t kInputs>
bool covers_map(const KernelContext& context) {
  return covers<kInputs>(context) && accumulates_none(context);
}

bool covers_squares(const KernelContext& context) {
  return context.in.size() == 2 && context.in[0].local.dtype == DType::kF32 && is_f32(context) &&
         has_rows(context);
}

}  // namespace

void add_fast_norm_piece_kernels(KernelTable& table) {
  table.add("reduce_squares", reduce_squares, covers_squares);
  table.add("normalize", normalize, covers_map<5>);
  table.add("normalize_grad_weight", normalize_grad_weight, covers<4>);
  table.add("normalize_grad_input", normalize_grad_input, covers_map<7>, grad_rows_bound);
}

}  // namespace sextant
