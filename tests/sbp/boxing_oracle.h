// Runs boxing steps on small integer tensors, member by member and chunk by chunk as sbp/README.md
// defines them, and counts what every rank sends. Slow and obvious.
#pragma once

#include "core/tensors/placement.h"
#include "core/tensors/sbp.h"
#include "core/tensors/shape.h"
#include "sbp/boxing.h"

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace sextant::oracle {

// The integer that a type makes of one: to nearest, ties to even. Exact for integers and f64.
std::int64_t rounded(DType dtype, std::int64_t value);

// Values of one device by global flat index; an index outside its box is absent.
using Local = std::map<std::int64_t, std::int64_t>;
// By position in the placement.
using Held = std::vector<Local>;
using Sent = std::map<std::pair<Rank, Rank>, std::int64_t>;  // elements

// Flat indices of a box of `shape`, ascending.
std::vector<std::int64_t> indices_of(const Shard& box, const Shape& shape);

// A global tensor with random values, spread under `words`: partial values add up (or reduce) to
// it, broadcast axes hold copies.
struct Spread {
  std::vector<std::int64_t> global;
  Held held;
};
Spread spread(const Shape& shape, const NdSbp& words, const Placement& placement,
              std::mt19937_64& random, std::int64_t largest = 1000);

// Executes one step between the placements of the request, in the element type that it says; adds
// to `sent`.
Held execute(const BoxingStep& step, const Shape& shape, const Held& held, const Placement& from,
             const Placement& to, Sent& sent);

// Empty if `held` under `words` is `global`; else what is wrong.
std::string complaint(const std::vector<std::int64_t>& global, const Held& held, const Shape& shape,
                      const NdSbp& words, const Placement& placement);

}  // namespace sextant::oracle
