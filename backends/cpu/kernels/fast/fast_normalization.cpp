// Layer norm and RMS norm in f32: each row is read from cache after its first pass, sums in lanes.
#include "backends/cpu/kernels/fast/clones.h"
#include "backends/cpu/kernels/fast/fast.h"
#include "backends/cpu/kernels/fast/pieces.h"
#include "backends/cpu/kernels/shared/families.h"
#include "backends/cpu/kernels/shared/reciprocal_root.h"
#include "backends/cpu/kernels/shared/reference.h"

#include <algorithm>
#include <cstdint>

namespace sextant {
namespace {

// Distances from the first element are added, so that the mean of a constant row is its constant.
SEXTANT_INLINE float mean_of(const float* row, std::int64_t n) {
  if (n == 0) return 0.0F;
  const float first = row[0];
  return first +
         lane_sum(n, [&](std::int64_t i) { return row[i] - first; }) / static_cast<float>(n);
}

struct RowStatistics {
  float mean = 0, rstd = 0;
};

SEXTANT_CLONES RowStatistics layer_norm_row(const float* x, const float* gamma, const float* beta,
                                            float epsilon, float* y, std::int64_t n) {
  const float mean = mean_of(x, n);
  const float squares = lane_sum(n, [&](std::int64_t i) { return (x[i] - mean) * (x[i] - mean); });
  const float rstd = reciprocal_root(average(squares, n), epsilon);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * rstd * gamma[i] + beta[i];
  return {.mean = mean, .rstd = rstd};
}

void layer_norm(const KernelContext& context, Workspace& workspace) {
  const auto epsilon = static_cast<float>(context.attributes().real("epsilon"));
  const Rows rows = rows_of(context.in[0].local);
  for_each_row_of(rows, workspace, [&](std::int64_t row) {
    const std::int64_t at = row * rows.length;
    const auto [mean, rstd] = layer_norm_row(input<float>(context, 0) + at,
                                             input<float>(context, 1), input<float>(context, 2),
                                             epsilon, output<float>(context, 0) + at, rows.length);
    output<float>(context, 1)[row] = mean;
    output<float>(context, 2)[row] = rstd;
  });
}

SEXTANT_CLONES void layer_norm_grad_row(const float* x, const float* gamma, RowStatistics of,
                                        const float* dy, float* dx, std::int64_t n) {
  const float mean = of.mean, rstd = of.rstd;
  const float average_g =
      lane_sum(n, [&](std::int64_t i) { return dy[i] * gamma[i]; }) / static_cast<float>(n);
  const float average_gh =
      lane_sum(n, [&](std::int64_t i) { return dy[i] * gamma[i] * (x[i] - mean) * rstd; }) /
      static_cast<float>(n);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i)
    dx[i] = rstd * (dy[i] * gamma[i] - average_g - (x[i] - mean) * rstd * average_gh);
}

void layer_norm_grad_input(const KernelContext& context, Workspace& workspace) {
  const Rows rows = rows_of(context.in[0].local);
  for_each_row_of(rows, workspace, [&](std::int64_t row) {
    const std::int64_t at = row * rows.length;
    layer_norm_grad_row(input<float>(context, 0) + at, input<float>(context, 1),
                        {input<float>(context, 2)[row], input<float>(context, 3)[row]},
                        input<float>(context, 4) + at, output<float>(context, 0) + at, rows.length);
  });
}

// work(first, length) for parts of the columns, over which sums of rows go.
template <typename Work>
void for_each_column_part(const Rows& rows, Workspace& workspace, const Work& work) {
  constexpr std::int64_t kPart = 256;
  workspace.run((rows.length + kPart - 1) / kPart, [&](std::int64_t part, std::int64_t) {
    work(part * kPart, std::min(kPart, rows.length - part * kPart));
  });
}

void clear_unless_accumulating(const KernelContext& context, std::size_t index, std::int64_t first,
                               std::int64_t length) {
  if (!context.accumulate[index]) std::fill_n(output<float>(context, index) + first, length, 0.0F);
}

SEXTANT_CLONES void add_layer_norm_weights(const float* x, RowStatistics of, const float* dy,
                                           float* dgamma, float* dbeta, std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    dgamma[i] += dy[i] * (x[i] - of.mean) * of.rstd;
    dbeta[i] += dy[i];
  }
}

void layer_norm_grad_weight(const KernelContext& context, Workspace& workspace) {
  const Rows rows = rows_of(context.in[0].local);
  for_each_column_part(rows, workspace, [&](std::int64_t first, std::int64_t length) {
    clear_unless_accumulating(context, 0, first, length);
    clear_unless_accumulating(context, 1, first, length);
    for (std::int64_t row = 0; row < rows.count; ++row) {
      const std::int64_t at = row * rows.length + first;
      add_layer_norm_weights(input<float>(context, 0) + at,
                             {input<float>(context, 1)[row], input<float>(context, 2)[row]},
                             input<float>(context, 3) + at, output<float>(context, 0) + first,
                             output<float>(context, 1) + first, length);
    }
  });
}

SEXTANT_CLONES float rms_norm_row(const float* x, const float* gamma, float epsilon, float* y,
                                  std::int64_t n) {
  const float squares = lane_sum(n, [&](std::int64_t i) { return x[i] * x[i]; });
  const float rstd = reciprocal_root(average(squares, n), epsilon);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] * rstd * gamma[i];
  return rstd;
}

void rms_norm(const KernelContext& context, Workspace& workspace) {
  const auto epsilon = static_cast<float>(context.attributes().real("epsilon"));
  const Rows rows = rows_of(context.in[0].local);
  for_each_row_of(rows, workspace, [&](std::int64_t row) {
    const std::int64_t at = row * rows.length;
    output<float>(context, 1)[row] =
        rms_norm_row(input<float>(context, 0) + at, input<float>(context, 1), epsilon,
                     output<float>(context, 0) + at, rows.length);
  });
}

SEXTANT_CLONES void rms_norm_grad_row(const float* x, const float* gamma, float rstd,
                                      const float* dy, float* dx, std::int64_t n) {
  const float average_gh =
      lane_sum(n, [&](std::int64_t i) { return dy[i] * gamma[i] * x[i] * rstd; }) /
      static_cast<float>(n);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) dx[i] = rstd * (dy[i] * gamma[i] - x[i] * rstd * average_gh);
}

void rms_norm_grad_input(const KernelContext& context, Workspace& workspace) {
  const Rows rows = rows_of(context.in[0].local);
  for_each_row_of(rows, workspace, [&](std::int64_t row) {
    const std::int64_t at = row * rows.length;
    rms_norm_grad_row(input<float>(context, 0) + at, input<float>(context, 1),
                      input<float>(context, 2)[row], input<float>(context, 3) + at,
                      output<float>(context, 0) + at, rows.length);
  });
}

SEXTANT_CLONES void add_rms_norm_weights(const float* x, float rstd, const float* dy, float* dgamma,
                                         std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) dgamma[i] += dy[i] * x[i] * rstd;
}

void rms_norm_grad_weight(const KernelContext& context, Workspace& workspace) {
  const Rows rows = rows_of(context.in[0].local);
  for_each_column_part(rows, workspace, [&](std::int64_t first, std::int64_t length) {
    clear_unless_accumulating(context, 0, first, length);
    for (std::int64_t row = 0; row < rows.count; ++row) {
      const std::int64_t at = row * rows.length + first;
      add_rms_norm_weights(input<float>(context, 0) + at, input<float>(context, 1)[row],
                           input<float>(context, 2) + at, output<float>(context, 0) + first,
                           length);
    }
  });
}

}  // namespace

void add_fast_normalization_kernels(KernelTable& table) {
  table.add("layer_norm", layer_norm, overwrites_f32);
  table.add("layer_norm_grad_input", layer_norm_grad_input, overwrites_f32);
  table.add("layer_norm_grad_weight", layer_norm_grad_weight, is_f32);
  table.add("rms_norm", rms_norm, overwrites_f32);
  table.add("rms_norm_grad_input", rms_norm_grad_input, overwrites_f32);
  table.add("rms_norm_grad_weight", rms_norm_grad_weight, is_f32);
}

}  // namespace sextant
