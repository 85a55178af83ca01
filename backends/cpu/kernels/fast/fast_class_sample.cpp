// Rows of sampled classes in f32: touches the rows that are taken, and clears the table of
// gradients.
#include "backends/cpu/kernels/fast/fast.h"
#include "backends/cpu/kernels/fast/pieces.h"
#include "backends/cpu/kernels/shared/families.h"
#include "backends/cpu/kernels/shared/id_check.h"

#include <algorithm>
#include <cstdint>

namespace sextant {
namespace {

// First element of the row of the table that the `i`-th id means.
std::int64_t row_begin(const KernelContext& context, std::int64_t i, std::int32_t id,
                       std::int64_t width) {
  const std::int64_t bucket = context.attributes().integer("bucket");
  require_row(id, bucket);
  return (i / context.attributes().integer("taken") * bucket + id) * width;
}

bool is_f32_of(const KernelContext& context, std::size_t ids) {
  return is_f32(context) && context.in[ids].local.dtype == DType::kI32;
}

bool takes_f32(const KernelContext& context) {
  return is_f32_of(context, 1) && accumulates_none(context);
}

bool adds_f32(const KernelContext& context) { return is_f32_of(context, 0); }

void bucket_rows(const KernelContext& context, Workspace&) {
  const std::int64_t width = context.in[0].local.shape[1];
  const std::int32_t* ids = input<std::int32_t>(context, 1);
  for (std::int64_t i = 0; i < elements(context.in[1]); ++i)
    std::copy_n(input<float>(context, 0) + row_begin(context, i, ids[i], width), width,
                output<float>(context, 0) + i * width);
}

void bucket_rows_grad(const KernelContext& context, Workspace& workspace) {
  const KernelOperand& table = context.out[0];
  const std::int64_t width = table.local.shape[1];
  const std::int32_t* ids = input<std::int32_t>(context, 0);
  if (!context.accumulate[0])
    in_pieces(workspace, elements(table), [&](std::int64_t at, std::int64_t length) {
      std::fill_n(output<float>(context, 0) + at, length, 0.0F);
    });
  for (std::int64_t i = 0; i < elements(context.in[0]); ++i) {
    const float* row = input<float>(context, 1) + i * width;
    float* gradient = output<float>(context, 0) + row_begin(context, i, ids[i], width);
    std::transform(row, row + width, gradient, gradient, [](float a, float b) { return a + b; });
  }
}

}  // namespace

void add_fast_class_sample_kernels(KernelTable& table) {
  table.add("bucket_rows", bucket_rows, takes_f32);
  table.add("bucket_rows_grad", bucket_rows_grad, adds_f32);
}

}  // namespace sextant
