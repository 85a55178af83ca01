// Boxing of pieces by the steps that the planner returns.
#pragma once

#include "core/tensors/placement.h"
#include "tests/conformance/operators/sharding.h"

#include <vector>

namespace sextant {

// Plans the boxing from one layout on the placement to another and executes its steps on the oracle
// of tests/sbp. The oracle computes on integers: numbers of floating type pass as multiples of
// 2^-40.
std::vector<Piece> box_by_plan(const std::vector<Piece>& pieces, const NdSbp& from, const NdSbp& to,
                               const Placement& placement);

}  // namespace sextant
