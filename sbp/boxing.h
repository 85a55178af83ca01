// Boxing: the sequence of primitives that turns one layout of a tensor into another, cheapest path
// over words (02-sbp-and-boxing). Values in, values out; costs are passed in.
#pragma once

#include "core/cost_model.h"
#include "core/placement.h"
#include "core/sbp.h"
#include "core/shape.h"

#include <cstdint>
#include <string>
#include <vector>

namespace sextant {

enum class BoxingKind : std::uint8_t {
  kLocal,       // slice, zero or copy on each device: no communication
  kCollective,  // one primitive inside groups of one placement
  kTransfer,    // between disjoint placements
};

struct BoxingStep {
  BoxingKind kind = BoxingKind::kLocal;
  Primitive primitive = Primitive::kAllReduce;  // of collectives and transfers
  ReduceOp reduce = ReduceOp::kSum;
  NdSbp from, to;
  // Mesh axes that vary inside a group, of a collective: its groups are the devices that agree on
  // all other axes. Empty for local steps and transfers.
  std::vector<std::size_t> group_axes;
  bool operator==(const BoxingStep&) const = default;
};

enum class BoxingObjective : std::uint8_t { kTime, kBytes };

// Bytes that go from device to device, by position in `ranks` of the source and the destination.
struct PairBytes {
  Rank source, destination;
  Bytes bytes;
};

struct BoxingPlan {
  std::vector<BoxingStep> steps;  // empty: nothing to do
  Bytes total_bytes;              // over all devices, reference volumes
  Duration time;                  // modelled; zero without a network
};

struct BoxingRequest {
  TensorType type;
  const Placement* from_placement = nullptr;
  const Placement* to_placement = nullptr;  // the same devices, or disjoint ones
  NdSbp from, to;
  BoxingObjective objective = BoxingObjective::kTime;
  const NetworkModel* network = nullptr;  // needed for kTime; without it bytes decide
};

// Deterministic; ties by bytes, number of steps, text. Throws Error(kInfeasible) naming both sides
// in text form when no primitive sequence exists, Error(kUsage) for words that do not fit.
BoxingPlan plan_boxing(const BoxingRequest& request);

// Reference volume of one step per (source, destination): ring in group order for all_gather,
// reduce_scatter and all_reduce, pairwise for all_to_all and transfers. Zero entries left out,
// sorted by source, then destination.
std::vector<PairBytes> reference_volume(const BoxingStep& step, const TensorType& type,
                                        const Placement& from_placement,
                                        const Placement& to_placement);

// The groups of a step, in a fixed order: for collectives by the coordinates of the other axes; for
// transfers the connected components of (sender, receiver) pairs with bytes to move, senders first
// in each. Every rank of the placements is in exactly one group, alone if it moves nothing.
std::vector<std::vector<Rank>> groups_of(const BoxingStep& step, const TensorType& type,
                                         const Placement& from_placement,
                                         const Placement& to_placement);

std::string to_string(const BoxingStep& step);  // "all_reduce over axis 1: (B, P(sum)) -> (B, B)"
std::string to_string(const BoxingStep& step, const Placement& placement);  // "... over tp: ..."

}  // namespace sextant
