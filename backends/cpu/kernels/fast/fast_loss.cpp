// The pieces of softmax cross-entropy that read every logit, in f32.
#include "backends/cpu/kernels/fast/clones.h"
#include "backends/cpu/kernels/fast/fast.h"
#include "backends/cpu/kernels/fast/pieces.h"
#include "backends/cpu/kernels/shared/families.h"
#include "backends/cpu/kernels/shared/id_check.h"
#include "backends/cpu/kernels/shared/label_shares.h"
#include "backends/cpu/kernels/shared/reference.h"

#include <algorithm>
#include <cstdint>

namespace sextant {
namespace {

// First local class in the global numbering.
std::int64_t first_class(const KernelContext& context) {
  return offset_of(context.in[0], context.in[0].box.dims.size() - 1);
}

SEXTANT_CLONES float largest_of(const float* x, std::int64_t count) { return lane_max(x, count); }

SEXTANT_CLONES float sum_exp(const float* x, float max, std::int64_t count) {
  return lane_sum(count, [&](std::int64_t i) { return fast_exp(x[i] - max); });
}

// dx = factor e^(x - max) - each
SEXTANT_CLONES void scaled_exp(const float* x, float max, float factor, float each, float* dx,
                               std::int64_t count) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) dx[i] = factor * fast_exp(x[i] - max) - each;
}

void row_max(const KernelContext& context, Workspace& workspace) {
  const Rows rows = rows_of(context.in[0].local);
  for_each_row_of(rows, workspace, [&](std::int64_t row) {
    output<float>(context, 0)[row] =
        largest_of(input<float>(context, 0) + row * rows.length, rows.length);
  });
}

void row_sum_exp(const KernelContext& context, Workspace& workspace) {
  const Rows rows = rows_of(context.in[0].local);
  for_each_row_of(rows, workspace, [&](std::int64_t row) {
    output<float>(context, 0)[row] = sum_exp(input<float>(context, 0) + row * rows.length,
                                             input<float>(context, 1)[row], rows.length);
  });
}

bool overwrites_f32_with_i32_labels(const KernelContext& context) {
  const std::size_t labels = context.actor->kind == "pick" ? 1 : 3;
  return overwrites_f32(context) && context.in[labels].local.dtype == DType::kI32;
}

void pick(const KernelContext& context, Workspace&) {
  const Rows rows = rows_of(context.in[0].local);
  const std::int32_t* labels = input<std::int32_t>(context, 1);
  for (std::int64_t row = 0; row < rows.count; ++row) {
    const std::int64_t column = labels[row] - first_class(context);
    const bool is_here =
        labels[row] != ignored_label(context) && column >= 0 && column < rows.length;
    output<float>(context, 0)[row] =
        is_here ? input<float>(context, 0)[row * rows.length + column] : 0.0F;
  }
}

void cross_entropy_grad(const KernelContext& context, Workspace& workspace) {
  const Rows rows = rows_of(context.in[0].local);
  const std::int32_t* labels = input<std::int32_t>(context, 3);
  const float d_loss = input<float>(context, 4)[0];
  const LabelShares shares = label_shares(context);
  const float of_label = d_loss * static_cast<float>(shares.label);
  const float of_each = d_loss * static_cast<float>(shares.each);
  for_each_row_of(rows, workspace, [&](std::int64_t row) {
    float* const dx = output<float>(context, 0) + row * rows.length;
    require_label(context, labels[row]);
    if (labels[row] == ignored_label(context)) {
      std::fill_n(dx, rows.length, 0.0F);
      return;
    }
    scaled_exp(input<float>(context, 0) + row * rows.length, input<float>(context, 1)[row],
               d_loss / input<float>(context, 2)[row], of_each, dx, rows.length);
    const std::int64_t column = labels[row] - first_class(context);
    if (column >= 0 && column < rows.length) dx[column] -= of_label;
  });
}

}  // namespace

void add_fast_loss_kernels(KernelTable& table) {
  table.add("row_max", row_max, overwrites_f32);
  table.add("row_sum_exp", row_sum_exp, overwrites_f32);
  table.add("pick", pick, overwrites_f32_with_i32_labels);
  table.add("cross_entropy_grad", cross_entropy_grad, overwrites_f32_with_i32_labels);
}

}  // namespace sextant
