// Max-plus maps of a few inputs and outputs: out[r] = max over i of (in[i] + delay[i][r]).
#pragma once

#include "simulator/costs/vector_width.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace sextant {

// Far below all that a sum of times can reach: an output that does not depend on the input.
inline constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::min() / 4;

// Many maps, one after the other in memory. Outputs are padded to whole vectors.
class MaxPlusMaps {
 public:
  struct Map {
    std::size_t first_delay = 0;  // by input, then by output, padded
    std::int32_t num_inputs = 0, num_outputs = 0;
  };
  // `rows`: by output, then by input.
  Map add(std::span<const std::int64_t> rows, std::int32_t num_inputs, std::int32_t num_outputs);
  // `out` has room for padded_to_lanes(num_outputs).
  void apply(const Map& map, const std::int64_t* in, std::int64_t* out) const;

 private:
  std::vector<std::int64_t> delays_;
};

}  // namespace sextant
