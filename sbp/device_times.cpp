// The work of `box_local` and `cast`, timed on one device of each kind.
#include "sbp/device_times.h"

#include "core/graphs/operator.h"

#include <algorithm>
#include <array>
#include <string>

namespace sextant {
namespace {

TensorType row_of(std::int64_t elements, DType dtype) { return {Shape{elements}, dtype}; }

Work work_of(const OperatorDef& def, const TensorType& before, const TensorType& after,
             const Attributes& attributes) {
  return def.work({&before, 1}, {&after, 1}, attributes);
}

}  // namespace

std::int64_t largest_part(const Shape& global, std::span<const std::int64_t> extents,
                          const MeshState& state) {
  std::int64_t elements = 1;
  for (std::size_t dim = 0; dim < global.rank(); ++dim) {
    std::int64_t parts = 1;
    for (std::size_t axis = 0; axis < extents.size(); ++axis)
      if (state.is_split(axis) && state.dim(axis) == dim) parts *= extents[axis];
    elements *= (global[dim] + parts - 1) / parts;
  }
  return elements;
}

DeviceTimes::DeviceTimes(const CostModel* cost, const Placement& on) : cost_(cost) {
  if (cost == nullptr) return;
  std::vector<std::int32_t> colours;
  for (const Rank rank : on.ranks) {
    const std::int32_t colour = cost->colour_of(rank);
    if (std::find(colours.begin(), colours.end(), colour) != colours.end()) continue;
    colours.push_back(colour);
    kinds_.push_back(rank);
  }
}

Duration DeviceTimes::slowest(const Work& work) const {
  Duration slowest;
  for (const Rank rank : kinds_) slowest = std::max(slowest, cost_->duration_on(rank, work));
  return slowest;
}

Duration DeviceTimes::local(std::int64_t before, std::int64_t after, DType dtype) const {
  static const OperatorDef& def = builtin_operators().get("box_local");
  if (cost_ == nullptr) return {};
  return slowest(work_of(def, row_of(before, dtype), row_of(after, dtype), {}));
}

Duration DeviceTimes::cast(std::int64_t elements, DType from, DType to) const {
  static const OperatorDef& def = builtin_operators().get("cast");
  if (cost_ == nullptr) return {};
  Attributes attributes;
  attributes.set("dtype", std::string(to_string(to)));
  return slowest(work_of(def, row_of(elements, from), row_of(elements, to), attributes));
}

}  // namespace sextant
