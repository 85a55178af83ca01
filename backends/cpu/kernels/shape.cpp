// Kernels that only move elements: reshape, transpose, slice, pad.
#include "backends/cpu/kernels/families.h"
#include "backends/cpu/kernels/reference.h"

#include <algorithm>
#include <vector>

namespace sextant {
namespace {

void reshape(const KernelContext& context, Workspace& workspace) {
  const Values x = load_input(context, 0, workspace);
  const auto y = make_output(context, 0, workspace);
  std::copy(x.begin(), x.end(), y.begin());
  store_output(context, 0, y, workspace);
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
    visit(static_cast<std::size_t>(flat), index);
    for (std::size_t dim = shape.rank(); dim-- > 0;) {
      if (++index[dim] < shape[dim]) break;
      index[dim] = 0;
    }
  }
}

void transpose(const KernelContext& context, Workspace& workspace) {
  const auto& permutation = context.attributes().integers("permutation");
  const std::vector<std::int64_t> strides = strides_of(context.in[0].local.shape);
  const Values x = load_input(context, 0, workspace);
  const auto y = make_output(context, 0, workspace);
  for_each_index(context.out[0].local.shape,
                 [&](std::size_t flat, const std::vector<std::int64_t>& index) {
                   std::int64_t from = 0;
                   for (std::size_t dim = 0; dim < index.size(); ++dim)
                     from += index[dim] * strides[static_cast<std::size_t>(permutation[dim])];
                   y[flat] = x[static_cast<std::size_t>(from)];
                 });
  store_output(context, 0, y, workspace);
}

// `visit(flat index in the part, flat index in the whole)`: the part begins at `start` along `dim`
// and is whole in all other dims.
template <typename Visit>
void for_each_of_part(const Shape& part, const Shape& whole, std::size_t dim, std::int64_t start,
                      const Visit& visit) {
  const std::vector<std::int64_t> strides = strides_of(whole);
  for_each_index(part, [&](std::size_t flat, const std::vector<std::int64_t>& index) {
    std::int64_t at = start * strides[dim];
    for (std::size_t d = 0; d < index.size(); ++d) at += index[d] * strides[d];
    visit(flat, static_cast<std::size_t>(at));
  });
}

void slice(const KernelContext& context, Workspace& workspace) {
  const auto dim = static_cast<std::size_t>(context.attributes().integer("dim"));
  const Values x = load_input(context, 0, workspace);
  const auto y = make_output(context, 0, workspace);
  for_each_of_part(context.out[0].local.shape, context.in[0].local.shape, dim,
                   context.attributes().integer("start"),
                   [&](std::size_t part, std::size_t whole) { y[part] = x[whole]; });
  store_output(context, 0, y, workspace);
}

void pad(const KernelContext& context, Workspace& workspace) {
  const auto dim = static_cast<std::size_t>(context.attributes().integer("dim"));
  const Values x = load_input(context, 0, workspace);
  const auto y = make_output(context, 0, workspace);
  for_each_of_part(context.in[0].local.shape, context.out[0].local.shape, dim,
                   context.attributes().integer("before"),
                   [&](std::size_t part, std::size_t whole) { y[whole] = x[part]; });
  store_output(context, 0, y, workspace);
}

}  // namespace

void add_shape_kernels(KernelTable& table) {
  table.add("reshape", reshape);
  table.add("transpose", transpose);
  table.add("slice", slice);
  table.add("pad", pad);
}

}  // namespace sextant
