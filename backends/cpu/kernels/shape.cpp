// Kernels that keep every element: reshape, transpose and roll. They move bytes, so every value of
// every element type arrives as it was.
#include "backends/cpu/kernels/shared/boxes.h"
#include "backends/cpu/kernels/shared/families.h"
#include "backends/cpu/kernels/shared/reference.h"
#include "core/base/check.h"
#include "core/graphs/views.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace sextant {
namespace {

// Makes all elements of output 0 through `fill(bytes)`, aside where the output accumulates.
template <typename Fill>
void fill_output(const KernelContext& context, Workspace& workspace, const Fill& fill) {
  const KernelOperand& y = context.out[0];
  require(context.in[0].local.dtype == y.local.dtype, ErrorCode::kInternal, "'{}' moves {} to {}",
          context.actor->name, to_string(context.in[0].local.dtype), to_string(y.local.dtype));
  if (!context.accumulate[0]) return fill(y.data);
  const auto size = static_cast<std::size_t>(size_of(y.local).value);
  std::byte* const aside = workspace.take<std::byte>(size).data();
  fill(aside);
  reduce_elements(ReduceOp::kSum, y.local.dtype, aside, y.data, y.local.shape.elements());
}

void reshape(const KernelContext& context, Workspace& workspace) {
  const TensorType &x = context.in[0].local, &reshaped = context.out[0].local;
  require(size_of(x) == size_of(reshaped), ErrorCode::kInternal,
          "'{}': a part of {} is no part of {}", context.actor->name, to_string(x.shape),
          to_string(reshaped.shape));
  if (is_view(*context.actor)) return;
  fill_output(context, workspace, [&](std::byte* y) {
    // Not memmove: an empty shard may have no address.
    std::copy_n(context.in[0].data, size_of(reshaped).value, y);
  });
}

std::vector<std::int64_t> strides_of(const Shape& shape) {
  std::vector<std::int64_t> strides(shape.rank(), 1);
  for (std::size_t dim = shape.rank(); dim-- > 1;) strides[dim - 1] = strides[dim] * shape[dim];
  return strides;
}

// Visits every index of `shape` in row-major order.
template <typename Visit>
void for_each_index(const Shape& shape, const Visit& visit) {
  if (shape.elements() == 0) return;
  std::vector<std::int64_t> index(shape.rank(), 0);
  for (std::int64_t flat = 0; flat < shape.elements(); ++flat) {
    visit(flat, index);
    for (std::size_t dim = shape.rank(); dim-- > 0;) {
      if (++index[dim] < shape[dim]) break;
      index[dim] = 0;
    }
  }
}

void transpose(const KernelContext& context, Workspace& workspace) {
  const auto& permutation = context.attributes().integers("permutation");
  const std::vector<std::int64_t> strides = strides_of(context.in[0].local.shape);
  const std::int64_t size = size_of(context.in[0].local.dtype).value;
  fill_output(context, workspace, [&](std::byte* y) {
    for_each_index(context.out[0].local.shape,
                   [&](std::int64_t flat, const std::vector<std::int64_t>& index) {
                     std::int64_t from = 0;
                     for (std::size_t dim = 0; dim < index.size(); ++dim)
                       from += index[dim] * strides[static_cast<std::size_t>(permutation[dim])];
                     std::memcpy(y + flat * size, context.in[0].data + from * size,
                                 static_cast<std::size_t>(size));
                   });
  });
}

// What lies before and behind dim `dim` keeps its place: per run of rows two pieces change places.
void roll(const KernelContext& context, Workspace& workspace) {
  const Shape& shape = context.in[0].local.shape;
  const auto dim = static_cast<std::size_t>(context.attributes().integer("dim"));
  std::int64_t runs = 1, row = size_of(context.in[0].local.dtype).value;
  for (std::size_t d = 0; d < dim; ++d) runs *= shape[d];
  for (std::size_t d = dim + 1; d < shape.rank(); ++d) row *= shape[d];
  // All the way round is not at all, of a part too.
  const std::int64_t extent = context.in[0].layout->global.shape[dim];
  const std::int64_t shift =
      context.attributes().integer("shift") % std::max<std::int64_t>(extent, 1);
  require(shift <= shape[dim], ErrorCode::kInternal, "'{}' rolls a part of {} by {}",
          context.actor->name, to_string(shape), shift);
  const std::int64_t run = shape[dim] * row, tail = shift * row;
  fill_output(context, workspace, [&](std::byte* y) {
    const std::byte* x = context.in[0].data;
    for (std::int64_t i = 0; i < runs; ++i, x += run, y += run) {
      std::copy_n(x, run - tail, y + tail);
      std::copy_n(x + run - tail, tail, y);
    }
  });
}

}  // namespace

void add_shape_kernels(KernelTable& table) {
  table.add("reshape", reshape, nullptr, output_aside);
  table.add("transpose", transpose, nullptr, output_aside);
  table.add("roll", roll, nullptr, output_aside);
}

}  // namespace sextant
