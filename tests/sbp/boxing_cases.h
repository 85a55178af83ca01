// Meshes, words and the law that every plan must keep, for the tests of boxing.
#pragma once

#include "core/tensors/placement.h"
#include "core/tensors/sbp.h"
#include "core/tensors/shape.h"
#include "sbp/boxing.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sextant::oracle {

// Axes a0, a1, ...; devices `first`, `first` + 1, ...
Placement mesh(const std::vector<std::int64_t>& extents, int first = 0);
Placement mesh_on(const std::vector<std::int64_t>& extents, const std::vector<int>& devices);

// All words with `axes` letters from `alphabet`, splits of one dim in every nesting order, without
// two different reductions.
std::vector<NdSbp> all_words(std::size_t axes, const std::vector<Sbp>& alphabet);

// 0, 1, parts - 1, parts, parts + 1 and a prime.
std::vector<std::int64_t> interesting_extents(std::int64_t parts);

BoxingRequest request_by_bytes(const Shape& shape, const Placement& from_placement,
                               const NdSbp& from, const Placement& to_placement, const NdSbp& to);
BoxingPlan plan_by_bytes(const Shape& shape, const Placement& from_placement, const NdSbp& from,
                         const Placement& to_placement, const NdSbp& to);

std::int64_t bytes_of(const BoxingStep& step, const BoxingRequest& request);
std::string text_of(const BoxingRequest& request, const BoxingPlan& plan);

// Executes the plan on random values up to `largest`. Fails the test unless the value is unchanged,
// the bytes are those of the plan and of reference_volume, pair by pair, words, placements and
// element types follow each other, and reductions run in the type that was asked for.
void check_plan(const BoxingRequest& request, const BoxingPlan& plan, std::int64_t largest = 1000);
void check_boxing(const BoxingRequest& request, std::int64_t largest = 1000);
void check_boxing(const Shape& shape, const Placement& from_placement, const NdSbp& from,
                  const Placement& to_placement, const NdSbp& to);

}  // namespace sextant::oracle
