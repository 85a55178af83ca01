// Boxing: the sequence of primitives that turns one layout of a tensor into another, cheapest path
// over words (02-sbp-and-boxing). Values in, values out; costs are passed in.
#pragma once

#include "core/costs/communication_volume.h"
#include "core/costs/cost_model.h"
#include "core/tensors/placement.h"
#include "core/tensors/sbp.h"
#include "core/tensors/shape.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sextant {

enum class BoxingKind : std::uint8_t {
  // Slice, fill or copy on each device, no communication. Between two placements (BoxingWhere): the
  // same contents on each device, under the words of the other mesh.
  kLocal,
  kCollective,  // one primitive inside groups of one placement
  // From placement to placement, pairwise; a device in both keeps what it holds. Partial values are
  // reduced where they arrive.
  kTransfer,
  kCast,  // another element type, on each device; the words stay
};

// Whether bytes go from device to device.
constexpr bool is_communication(BoxingKind kind) {
  return kind == BoxingKind::kCollective || kind == BoxingKind::kTransfer;
}

// The placements that a step reads and writes.
enum class BoxingWhere : std::uint8_t { kSource, kTarget, kBetween };

struct BoxingStep {
  BoxingKind kind = BoxingKind::kLocal;
  Primitive primitive = Primitive::kAllReduce;  // of collectives and transfers
  ReduceOp reduce = ReduceOp::kSum;
  NdSbp from, to;
  // Mesh axes that vary inside a group, of a collective: its groups are the devices that agree on
  // all other axes. Empty for all other steps.
  std::vector<std::size_t> group_axes;
  BoxingWhere where = BoxingWhere::kSource;
  DType dtype = DType::kF32;     // read; communications move and reduce in it
  DType to_dtype = DType::kF32;  // written: another one for casts only
  bool operator==(const BoxingStep&) const = default;
};

enum class BoxingObjective : std::uint8_t { kTime, kBytes };

struct BoxingPlan {
  std::vector<BoxingStep> steps;  // empty: nothing to do
  Bytes total_bytes;              // over all devices, reference volumes
  Duration time;                  // modelled; zero without a network
};

struct BoxingRequest {
  TensorType type;
  const Placement* from_placement = nullptr;
  const Placement* to_placement = nullptr;  // any devices, any mesh
  NdSbp from, to;
  std::optional<DType> to_dtype = {};  // nothing: that of `type`
  // In which reductions run. Nothing: the wider of both sides, so that a cast up comes before the
  // reduction and a cast down after it.
  std::optional<DType> reduce_dtype = {};
  BoxingObjective objective = BoxingObjective::kTime;
  const NetworkModel* network = nullptr;  // needed for kTime; without it bytes decide
  // Times what each device does alone: slices, fills and casts. Without it they are free.
  const CostModel* cost = nullptr;
};

// Deterministic; ties by bytes, number of steps, elements cast, text. Throws Error(kInfeasible)
// naming both sides in text form when no sequence of steps exists (two different reductions, a
// reduction in a type that does not hold the values), Error(kUsage) for words that do not fit.
BoxingPlan plan_boxing(const BoxingRequest& request);

// The best plan, then up to `limit` others in order of cost: for every other first communication
// the cheapest plan that begins with it. For people who ask why not.
std::vector<BoxingPlan> plan_alternatives(const BoxingRequest& request, std::size_t limit);

// The placements here are those of the request; a step inside one of them uses the one that `where`
// names. `type` says the shape, and in its dtype the element type that moves (that of the step).

// Reference volume of one step per (source, destination): ring in group order for all_gather,
// reduce_scatter and all_reduce, pairwise for all_to_all and transfers. Zero entries left out,
// sorted by source, then destination.
std::vector<PairBytes> reference_volume(const BoxingStep& step, const TensorType& type,
                                        const Placement& from_placement,
                                        const Placement& to_placement);

// The groups of a step, in a fixed order: for collectives by the coordinates of the other axes; for
// transfers the connected components of (sender, receiver) pairs with bytes to move, each with the
// devices of the source first, in its order, then those that only the target has. Every rank of the
// placements is in exactly one group, alone if it moves nothing. None for local steps and casts.
std::vector<std::vector<Rank>> groups_of(const BoxingStep& step, const TensorType& type,
                                         const Placement& from_placement,
                                         const Placement& to_placement);

// Of a step without communication, on the device that takes longest; nothing for relabels, which
// nobody executes, and for communications.
Duration device_time(const BoxingStep& step, const TensorType& type,
                     const Placement& from_placement, const Placement& to_placement,
                     const CostModel& cost);

std::string to_string(const BoxingStep& step);  // "all_reduce over axis 1: (B, P(sum)) -> (B, B)"
std::string to_string(const BoxingStep& step, const Placement& placement);  // "... over tp: ..."

}  // namespace sextant
