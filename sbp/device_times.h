// What steps without communication take: each is an operator that the compiler makes of it, and
// takes what the cost model says of that operator's work. Internal to sbp/.
#pragma once

#include "core/costs/cost_model.h"
#include "core/tensors/placement.h"
#include "core/tensors/shape.h"
#include "sbp/boxing.h"
#include "sbp/mesh_state.h"

#include <cstdint>
#include <span>
#include <vector>

namespace sextant {

// Elements of the largest part, which the first device holds.
std::int64_t largest_part(const Shape& global, std::span<const std::int64_t> extents,
                          const MeshState& state);

// Of the largest parts on the slowest device: a step is over when all are. Before and after are the
// elements of one device.
class DeviceTimes {
 public:
  // Both outlive it. Without a cost model nothing takes time.
  DeviceTimes(const CostModel* cost, const Placement& on);

  // `box_local`: slice, fill or copy.
  Duration local(std::int64_t before, std::int64_t after, DType dtype) const;
  Duration cast(std::int64_t elements, DType from, DType to) const;

 private:
  Duration slowest(const Work& work) const;

  const CostModel* cost_;
  std::vector<Rank> kinds_;  // one of each kind of device
};

}  // namespace sextant
