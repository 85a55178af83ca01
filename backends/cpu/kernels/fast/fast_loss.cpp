// The pieces of softmax cross-entropy that read every logit, in f32.
#include "backends/cpu/kernels/fast/fast.h"
#include "backends/cpu/kernels/shared/families.h"
#include "backends/cpu/kernels/shared/id_check.h"
#include "backends/cpu/kernels/shared/label_shares.h"
#include "backends/cpu/kernels/shared/reference.h"

#include <limits>

namespace sextant {
namespace {

// First local class in the global numbering.
std::int64_t first_class(const KernelContext& context) {
  return offset_of(context.in[0], context.in[0].box.dims.size() - 1);
}

void row_max(const KernelContext& context, Workspace&) {
  const Rows rows = rows_of(context.in[0].local);
  for (std::int64_t row = 0; row < rows.count; ++row) {
    const float* x = input<float>(context, 0) + row * rows.length;
    float largest = -std::numeric_limits<float>::infinity();
    for (std::int64_t i = 0; i < rows.length; ++i) largest = std::max(largest, x[i]);
    output<float>(context, 0)[row] = largest;
  }
}

void row_sum_exp(const KernelContext& context, Workspace&) {
  const Rows rows = rows_of(context.in[0].local);
  for (std::int64_t row = 0; row < rows.count; ++row) {
    const float* x = input<float>(context, 0) + row * rows.length;
    const float max = input<float>(context, 1)[row];
    output<float>(context, 0)[row] =
        lane_sum(rows.length, [&](std::int64_t i) { return fast_exp(x[i] - max); });
  }
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

void cross_entropy_grad(const KernelContext& context, Workspace&) {
  const Rows rows = rows_of(context.in[0].local);
  const std::int32_t* labels = input<std::int32_t>(context, 3);
  const float d_loss = input<float>(context, 4)[0];
  const LabelShares shares = label_shares(context);
  const float of_label = d_loss * static_cast<float>(shares.label);
  const float of_each = d_loss * static_cast<float>(shares.each);
  for (std::int64_t row = 0; row < rows.count; ++row) {
    const float* x = input<float>(context, 0) + row * rows.length;
    float* dx = output<float>(context, 0) + row * rows.length;
    require_label(context, labels[row]);
    if (labels[row] == ignored_label(context)) {
      std::fill_n(dx, rows.length, 0.0F);
      continue;
    }
    const float max = input<float>(context, 1)[row];
    const float factor = d_loss / input<float>(context, 2)[row];
    for (std::int64_t i = 0; i < rows.length; ++i) dx[i] = factor * fast_exp(x[i] - max) - of_each;
    const std::int64_t column = labels[row] - first_class(context);
    if (column >= 0 && column < rows.length) dx[column] -= of_label;
  }
}

}  // namespace

void add_fast_loss_kernels(KernelTable& table) {
  table.add("row_max", row_max, overwrites_f32);
  table.add("row_sum_exp", row_sum_exp, overwrites_f32);
  table.add("pick", pick, overwrites_f32_with_i32_labels);
  table.add("cross_entropy_grad", cross_entropy_grad, overwrites_f32_with_i32_labels);
}

}  // namespace sextant
