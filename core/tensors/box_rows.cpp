// The innermost dims that both boxes hold whole are one row.
#include "core/tensors/box_rows.h"

#include "core/base/check.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace sextant {
namespace {

bool contains(const Shard& outer, const Shard& inner) {
  if (outer.dims.size() != inner.dims.size()) return false;
  for (std::size_t dim = 0; dim < inner.dims.size(); ++dim) {
    if (inner.dims[dim].offset < outer.dims[dim].offset ||
        inner.dims[dim].end() > outer.dims[dim].end())
      return false;
  }
  return true;
}

// Dims [first_row_dim, rank) of `part` are contiguous in `box`: all but the first of them whole.
std::size_t first_row_dim(const Shard& part, const Shard& box) {
  std::size_t dim = part.dims.size();
  while (dim > 0) {
    --dim;
    if (part.dims[dim].extent != box.dims[dim].extent) break;
  }
  return dim;
}

// Element offset of the global index `at` in a box.
std::int64_t offset_in(const Shard& box, const std::vector<std::int64_t>& at) {
  std::int64_t offset = 0;
  for (std::size_t dim = 0; dim < at.size(); ++dim)
    offset = offset * box.dims[dim].extent + at[dim] - box.dims[dim].offset;
  return offset;
}

}  // namespace

void for_each_row(const Shard& part, const Shard& a, const Shard& b,
                  const std::function<void(std::int64_t, std::int64_t, std::int64_t)>& visit) {
  if (part.is_empty()) return;
  require(contains(a, part) && contains(b, part), ErrorCode::kInternal,
          "a part to be copied lies outside one of its buffers");
  const std::size_t row_dim = std::max(first_row_dim(part, a), first_row_dim(part, b));
  std::int64_t row = 1;
  for (std::size_t dim = row_dim; dim < part.dims.size(); ++dim) row *= part.dims[dim].extent;
  std::vector<std::int64_t> at;
  for (const Interval& interval : part.dims) at.push_back(interval.offset);
  while (true) {
    visit(offset_in(a, at), offset_in(b, at), row);
    std::size_t dim = row_dim;
    while (dim > 0 && ++at[dim - 1] == part.dims[dim - 1].end()) {
      at[dim - 1] = part.dims[dim - 1].offset;
      --dim;
    }
    if (dim == 0) return;
  }
}

}  // namespace sextant
