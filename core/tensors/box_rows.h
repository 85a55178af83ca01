// Two boxes of one global tensor, row-major each, walked together.
#pragma once

#include "core/tensors/sbp.h"

#include <cstdint>
#include <functional>

namespace sextant {

// Calls `visit(first element in a, first element in b, count)` for each row of `part` that is
// contiguous in both boxes. `part` lies inside both.
void for_each_row(const Shard& part, const Shard& a, const Shard& b,
                  const std::function<void(std::int64_t, std::int64_t, std::int64_t)>& visit);

}  // namespace sextant
