// A box of a row-major tensor, cut out of its bytes and put into them.
#pragma once

#include "core/tensors/sbp.h"
#include "core/tensors/shape.h"

#include <cstddef>
#include <span>
#include <vector>

namespace sextant {

// The bytes of the box, row-major. `global` has the bytes of a tensor of this type, and the box
// lies inside it.
std::vector<std::byte> cut_box(std::span<const std::byte> global, const TensorType& type,
                               const Shard& box);

// The reverse: the box gets these bytes, the rest stays.
void put_box(std::span<const std::byte> local, const TensorType& type, const Shard& box,
             std::span<std::byte> global);

// Every index of the tensor is in exactly one of the boxes. They lie inside it and none is empty.
bool tile(std::span<const Shard> boxes, const Shape& shape);

// One interval per dim, none of it outside.
bool lies_inside(const Shard& box, const Shape& shape);

}  // namespace sextant
