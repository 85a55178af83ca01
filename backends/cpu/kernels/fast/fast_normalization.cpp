// Layer norm and RMS norm in f32: each row is read from cache after its first pass, sums in lanes.
#include "backends/cpu/kernels/fast/fast.h"
#include "backends/cpu/kernels/shared/families.h"
#include "backends/cpu/kernels/shared/reciprocal_root.h"
#include "backends/cpu/kernels/shared/reference.h"

namespace sextant {
namespace {

// Distances from the first element are added, so that the mean of a constant row is its constant.
float mean_of(const float* row, std::int64_t n) {
  if (n == 0) return 0.0F;
  const float first = row[0];
  return first +
         lane_sum(n, [&](std::int64_t i) { return row[i] - first; }) / static_cast<float>(n);
}

void layer_norm(const KernelContext& context, Workspace&) {
  const auto epsilon = static_cast<float>(context.attributes().real("epsilon"));
  const Rows rows = rows_of(context.in[0].local);
  const std::int64_t n = rows.length;
  const float* gamma = input<float>(context, 1);
  const float* beta = input<float>(context, 2);
  for (std::int64_t row = 0; row < rows.count; ++row) {
    const float* x = input<float>(context, 0) + row * n;
    float* y = output<float>(context, 0) + row * n;
    const float mean = mean_of(x, n);
    const float squares =
        lane_sum(n, [&](std::int64_t i) { return (x[i] - mean) * (x[i] - mean); });
    const float rstd = reciprocal_root(average(squares, n), epsilon);
    for (std::int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * rstd * gamma[i] + beta[i];
    output<float>(context, 1)[row] = mean;
    output<float>(context, 2)[row] = rstd;
  }
}

void layer_norm_grad_input(const KernelContext& context, Workspace&) {
  const Rows rows = rows_of(context.in[0].local);
  const std::int64_t n = rows.length;
  const float* gamma = input<float>(context, 1);
  for (std::int64_t row = 0; row < rows.count; ++row) {
    const float* x = input<float>(context, 0) + row * n;
    const float mean = input<float>(context, 2)[row];
    const float rstd = input<float>(context, 3)[row];
    const float* dy = input<float>(context, 4) + row * n;
    float* dx = output<float>(context, 0) + row * n;
    const float average_g =
        lane_sum(n, [&](std::int64_t i) { return dy[i] * gamma[i]; }) / static_cast<float>(n);
    const float average_gh =
        lane_sum(n, [&](std::int64_t i) { return dy[i] * gamma[i] * (x[i] - mean) * rstd; }) /
        static_cast<float>(n);
    for (std::int64_t i = 0; i < n; ++i)
      dx[i] = rstd * (dy[i] * gamma[i] - average_g - (x[i] - mean) * rstd * average_gh);
  }
}

void clear_unless_accumulating(const KernelContext& context, std::size_t index) {
  if (context.accumulate[index]) return;
  float* values = output<float>(context, index);
  std::fill(values, values + elements(context.out[index]), 0.0F);
}

void layer_norm_grad_weight(const KernelContext& context, Workspace&) {
  const Rows rows = rows_of(context.in[0].local);
  const std::int64_t n = rows.length;
  float* dgamma = output<float>(context, 0);
  float* dbeta = output<float>(context, 1);
  clear_unless_accumulating(context, 0);
  clear_unless_accumulating(context, 1);
  for (std::int64_t row = 0; row < rows.count; ++row) {
    const float* x = input<float>(context, 0) + row * n;
    const float mean = input<float>(context, 1)[row];
    const float rstd = input<float>(context, 2)[row];
    const float* dy = input<float>(context, 3) + row * n;
    for (std::int64_t i = 0; i < n; ++i) {
      dgamma[i] += dy[i] * (x[i] - mean) * rstd;
      dbeta[i] += dy[i];
    }
  }
}

void rms_norm(const KernelContext& context, Workspace&) {
  const auto epsilon = static_cast<float>(context.attributes().real("epsilon"));
  const Rows rows = rows_of(context.in[0].local);
  const std::int64_t n = rows.length;
  const float* gamma = input<float>(context, 1);
  for (std::int64_t row = 0; row < rows.count; ++row) {
    const float* x = input<float>(context, 0) + row * n;
    float* y = output<float>(context, 0) + row * n;
    const float squares = lane_sum(n, [&](std::int64_t i) { return x[i] * x[i]; });
    const float rstd = reciprocal_root(average(squares, n), epsilon);
    for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] * rstd * gamma[i];
    output<float>(context, 1)[row] = rstd;
  }
}

void rms_norm_grad_input(const KernelContext& context, Workspace&) {
  const Rows rows = rows_of(context.in[0].local);
  const std::int64_t n = rows.length;
  const float* gamma = input<float>(context, 1);
  for (std::int64_t row = 0; row < rows.count; ++row) {
    const float* x = input<float>(context, 0) + row * n;
    const float rstd = input<float>(context, 2)[row];
    const float* dy = input<float>(context, 3) + row * n;
    float* dx = output<float>(context, 0) + row * n;
    const float average_gh =
        lane_sum(n, [&](std::int64_t i) { return dy[i] * gamma[i] * x[i] * rstd; }) /
        static_cast<float>(n);
    for (std::int64_t i = 0; i < n; ++i)
      dx[i] = rstd * (dy[i] * gamma[i] - x[i] * rstd * average_gh);
  }
}

void rms_norm_grad_weight(const KernelContext& context, Workspace&) {
  const Rows rows = rows_of(context.in[0].local);
  const std::int64_t n = rows.length;
  float* dgamma = output<float>(context, 0);
  clear_unless_accumulating(context, 0);
  for (std::int64_t row = 0; row < rows.count; ++row) {
    const float* x = input<float>(context, 0) + row * n;
    const float rstd = input<float>(context, 1)[row];
    const float* dy = input<float>(context, 2) + row * n;
    for (std::int64_t i = 0; i < n; ++i) dgamma[i] += dy[i] * x[i] * rstd;
  }
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
