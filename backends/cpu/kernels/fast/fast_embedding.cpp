// Table look-up in f32: touches the looked-up rows only.
#include "backends/cpu/kernels/fast/clones.h"
#include "backends/cpu/kernels/fast/fast.h"
#include "backends/cpu/kernels/fast/pieces.h"
#include "backends/cpu/kernels/shared/families.h"
#include "backends/cpu/kernels/shared/id_check.h"
#include "backends/cpu/kernels/shared/reference.h"

#include <algorithm>
#include <cstdint>

namespace sextant {
namespace {

SEXTANT_CLONES void add_gradient(const float* x, float* sum, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) sum[i] += x[i];
}

bool is_f32_with_i32_ids(const KernelContext& context) {
  return is_f32(context) && context.in[0].local.dtype == DType::kI32;
}

bool looks_up_f32(const KernelContext& context) {
  return is_f32_with_i32_ids(context) && accumulates_none(context);
}

void embedding(const KernelContext& context, Workspace&) {
  const KernelOperand& table = context.in[1];
  const std::int64_t rows = table.local.shape[0], width = table.local.shape[1];
  const std::int64_t first = offset_of(table, 0), all_rows = global_extent(table, 0);
  const std::int32_t* ids = input<std::int32_t>(context, 0);
  for (std::int64_t i = 0; i < elements(context.in[0]); ++i) {
    require_row(ids[i], all_rows);
    const std::int64_t row = ids[i] - first;
    float* y = output<float>(context, 0) + i * width;
    if (row < 0 || row >= rows)
      std::fill_n(y, width, 0.0F);
    else
      std::copy_n(input<float>(context, 1) + row * width, width, y);
  }
}

void embedding_grad(const KernelContext& context, Workspace& workspace) {
  const KernelOperand& table = context.out[0];
  const std::int64_t rows = table.local.shape[0], width = table.local.shape[1];
  const std::int64_t first = offset_of(table, 0), all_rows = global_extent(table, 0);
  const std::int32_t* ids = input<std::int32_t>(context, 0);
  if (!context.accumulate[0])
    in_pieces(workspace, elements(table), [&](std::int64_t at, std::int64_t length) {
      std::fill_n(output<float>(context, 0) + at, length, 0.0F);
    });
  for (std::int64_t i = 0; i < elements(context.in[0]); ++i) {
    require_row(ids[i], all_rows);
    const std::int64_t row = ids[i] - first;
    if (row < 0 || row >= rows) continue;
    const float* dy = input<float>(context, 1) + i * width;
    float* gradient = output<float>(context, 0) + row * width;
    add_gradient(dy, gradient, width);
  }
}

}  // namespace

void add_fast_embedding_kernels(KernelTable& table) {
  table.add("embedding", embedding, looks_up_f32);
  table.add("embedding_grad", embedding_grad, is_f32_with_i32_ids);
}

}  // namespace sextant
