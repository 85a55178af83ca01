// Rows are those of core; what is here are their bytes, and what a manifest may claim.
#include "io/checkpoints/boxes.h"

#include "core/base/check.h"
#include "core/tensors/box_rows.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace sextant {
namespace {

void require_box(std::size_t local, std::size_t global, const TensorType& type, const Shard& box) {
  const Bytes size = size_of(TensorType{box.local_shape(), type.dtype});
  require(lies_inside(box, type.shape) && local == static_cast<std::size_t>(size.value) &&
              global == static_cast<std::size_t>(size_of(type).value),
          ErrorCode::kInternal, "a box of {} bytes of {} in {} bytes", local, to_string(type.shape),
          global);
}

Shard whole(const Shape& shape) {
  Shard box;
  for (const std::int64_t extent : shape.extents()) box.dims.push_back({0, extent});
  return box;
}

// Calls visit(byte of the tensor, byte of the box, bytes) for every row of the box.
template <typename Visit>
void for_each_row_of_bytes(const TensorType& type, const Shard& box, const Visit& visit) {
  const std::int64_t size = size_of(type.dtype).value;
  for_each_row(box, whole(type.shape), box,
               [&](std::int64_t in_global, std::int64_t in_local, std::int64_t count) {
                 visit(static_cast<std::size_t>(in_global * size),
                       static_cast<std::size_t>(in_local * size),
                       static_cast<std::size_t>(count * size));
               });
}

bool overlap(const Shard& a, const Shard& b) { return !intersect(a, b).is_empty(); }

}  // namespace

std::vector<std::byte> cut_box(std::span<const std::byte> global, const TensorType& type,
                               const Shard& box) {
  const Bytes size = size_of(TensorType{box.local_shape(), type.dtype});
  std::vector<std::byte> local(static_cast<std::size_t>(size.value));
  require_box(local.size(), global.size(), type, box);
  for_each_row_of_bytes(type, box,
                        [&](std::size_t in_global, std::size_t in_local, std::size_t bytes) {
                          std::memcpy(local.data() + in_local, global.data() + in_global, bytes);
                        });
  return local;
}

void put_box(std::span<const std::byte> local, const TensorType& type, const Shard& box,
             std::span<std::byte> global) {
  require_box(local.size(), global.size(), type, box);
  for_each_row_of_bytes(type, box,
                        [&](std::size_t in_global, std::size_t in_local, std::size_t bytes) {
                          std::memcpy(global.data() + in_global, local.data() + in_local, bytes);
                        });
}

bool lies_inside(const Shard& box, const Shape& shape) {
  if (box.dims.size() != shape.rank()) return false;
  for (std::size_t dim = 0; dim < shape.rank(); ++dim) {
    const Interval& part = box.dims[dim];
    if (part.offset < 0 || part.extent < 0 || part.offset > shape[dim] ||
        part.extent > shape[dim] - part.offset)
      return false;
  }
  return true;
}

bool tile(std::span<const Shard> boxes, const Shape& shape) {
  std::int64_t missing = shape.elements();
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    if (!lies_inside(boxes[i], shape) || boxes[i].elements() > missing) return false;
    missing -= boxes[i].elements();
    for (std::size_t other = 0; other < i; ++other)
      if (overlap(boxes[i], boxes[other])) return false;
  }
  return missing == 0;
}

}  // namespace sextant
