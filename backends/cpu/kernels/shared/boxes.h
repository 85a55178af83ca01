// Copies and reductions between boxes of one global tensor that lie in different local buffers.
#pragma once

#include "core/base/dtype.h"
#include "core/tensors/box_rows.h"
#include "core/tensors/sbp.h"

#include <cstddef>
#include <cstdint>

namespace sextant {

// A local buffer: the box of global indices it holds, row-major.
struct BoxBuffer {
  std::byte* data = nullptr;
  const Shard* box = nullptr;
};

// `to` = `from` on `part`.
void copy_box(const Shard& part, const BoxBuffer& from, const BoxBuffer& to, DType dtype);

// to = to (op) from, element-wise: f64 and integers in their own type (integers wrap around), the
// 16-bit formats in float with one rounding per operation. Of bool, sum and max are "or", min is
// "and". The maximum or minimum of NaN and anything is NaN.
void reduce_elements(ReduceOp op, DType dtype, const std::byte* from, std::byte* to,
                     std::int64_t count);
void reduce_box(ReduceOp op, const Shard& part, const BoxBuffer& from, const BoxBuffer& to,
                DType dtype);

// 0, the lowest or the highest value of the type, as the reduction needs it.
void fill_neutral(ReduceOp op, DType dtype, std::byte* to, std::int64_t count);

}  // namespace sextant
