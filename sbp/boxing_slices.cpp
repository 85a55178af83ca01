// Axes that both sides agree on are taken out of the request and put back into its plan.
#include "sbp/boxing_slices.h"

#include "sbp/group_costs.h"
#include "sbp/mesh_state.h"
#include "sbp/nesting.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace sextant {
namespace {

using Axes = std::vector<std::size_t>;

// Axes that split `dim`, outermost first.
Axes splits_of(const NdSbp& words, const Placement& placement, std::size_t dim) {
  Axes axes;
  for (std::size_t axis = 0; axis < words.size(); ++axis)
    if (words[axis].is_split() && words[axis].dim == dim && placement.axes[axis].extent > 1)
      axes.push_back(axis);
  std::stable_sort(axes.begin(), axes.end(), [&](std::size_t a, std::size_t b) {
    return words[a].nesting < words[b].nesting;
  });
  return axes;
}

bool has_equal_hierarchies(const BoxingRequest& request) {
  return request.from_placement->hierarchy() == request.to_placement->hierarchy();
}

// Axes of more than one part on which both sides say the same: B, one reduction, or splits that lie
// outside of all others of their dim.
Axes aligned_axes(const BoxingRequest& request) {
  const Placement& mesh = *request.from_placement;
  Axes aligned;
  for (std::size_t axis = 0; axis < mesh.axes.size(); ++axis)
    if (mesh.axes[axis].extent > 1 && request.from[axis] == request.to[axis] &&
        !request.from[axis].is_split())
      aligned.push_back(axis);
  for (std::size_t dim = 0; dim < request.type.shape.rank(); ++dim) {
    const Axes from = splits_of(request.from, mesh, dim), to = splits_of(request.to, mesh, dim);
    const auto end = std::mismatch(from.begin(), from.end(), to.begin(), to.end()).first;
    aligned.insert(aligned.end(), from.begin(), end);
  }
  return aligned;
}

// The devices at coordinate 0 of `axes`.
Placement slice_of(const Placement& placement, const Axes& axes) {
  Placement slice;
  slice.axes = placement.axes;
  for (const std::size_t axis : axes) slice.axes[axis].extent = 1;
  for (std::size_t device = 0; device < placement.ranks.size(); ++device) {
    const std::vector<std::int64_t> at = placement.coordinates_of(device);
    if (std::all_of(axes.begin(), axes.end(), [&](std::size_t axis) { return at[axis] == 0; }))
      slice.ranks.push_back(placement.ranks[device]);
  }
  return slice;
}

// The words of some axes, B on the others.
NdSbp only(const NdSbp& words, const Axes& axes) {
  const NdSbp all = numbered(words);
  NdSbp kept(words.size());
  for (const std::size_t axis : axes) kept[axis] = all[axis];
  return renumbered(kept);
}

NdSbp without(const NdSbp& words, const Axes& axes) {
  NdSbp kept = numbered(words);
  for (const std::size_t axis : axes) kept[axis] = Sbp::broadcast();
  return renumbered(kept);
}

class Slices {
 public:
  Slices(const BoxingRequest& request, Axes axes)
      : request_(request),
        axes_(std::move(axes)),
        from_(slice_of(*request.from_placement, axes_)),
        to_(slice_of(*request.to_placement, axes_)) {}

  std::int64_t size() const { return from_.size(); }

  std::vector<BoxingStep> steps() const {
    BoxingRequest one = request_;
    one.type.shape = shape();
    one.from_placement = &from_;
    one.to_placement = &to_;
    one.from = without(request_.from, axes_);
    one.to = without(request_.to, axes_);
    std::vector<BoxingStep> steps = plan_boxing(one).steps;
    for (BoxingStep& step : steps) {
      step.from = whole(step.from);
      step.to = whole(step.to);
    }
    if (!steps.empty()) {
      steps.front().from = request_.from;
      steps.back().to = request_.to;
    }
    return steps;
  }

 private:
  // Of the first slice, which no other exceeds.
  Shape shape() const {
    const std::vector<std::int64_t> extents = request_.from_placement->hierarchy();
    const std::vector<std::int64_t> first(extents.size(), 0);
    return shard_of(request_.type.shape, only(request_.from, axes_), extents, first).local_shape();
  }

  // Words of a slice with those of the axes taken out, whose splits lie outside.
  NdSbp whole(const NdSbp& slice) const {
    NdSbp words = numbered(slice);
    for (std::size_t axis = 0; axis < words.size(); ++axis) {
      if (request_.from_placement->axes[axis].extent == 1) words[axis] = Sbp::broadcast();
      if (words[axis].is_split())
        words[axis].nesting = static_cast<std::uint8_t>(words[axis].nesting + kMaxMeshAxes);
    }
    const NdSbp outer = numbered(request_.from);
    for (const std::size_t axis : axes_) words[axis] = outer[axis];
    return renumbered(words);
  }

  const BoxingRequest& request_;
  Axes axes_;
  Placement from_, to_;
};

// The closed forms of README, "Steps".
Bytes volume_of(Primitive primitive, const GroupCost& group) {
  const auto others = static_cast<std::int64_t>(group.members.size()) - 1;
  switch (primitive) {
    case Primitive::kAllReduce:
      return group.global_bytes * (2 * others);
    case Primitive::kAllGather:
    case Primitive::kReduceScatter:
    case Primitive::kBroadcast:
      return group.global_bytes * others;
    case Primitive::kAllToAll:
    case Primitive::kShift:
    case Primitive::kTransfer:
      return group.global_bytes;
  }
  return group.global_bytes;
}

// The same price as the search gives, for steps that it did not see as a whole.
BoxingPlan priced(const BoxingRequest& request, std::vector<BoxingStep> steps) {
  BoxingPlan plan;
  for (const BoxingStep& step : steps) {
    const TensorType type{request.type.shape, step.dtype};
    if (!is_communication(step.kind)) {
      if (request.network != nullptr && request.cost != nullptr)
        plan.time +=
            device_time(step, type, *request.from_placement, *request.to_placement, *request.cost);
      continue;
    }
    if (request.network == nullptr && step.kind == BoxingKind::kTransfer)
      if (const std::optional<Bytes> bytes =
              bytes_across(step, type, *request.from_placement, *request.to_placement)) {
        plan.total_bytes += *bytes;
        continue;
      }
    Communication communication;
    communication.primitive = step.primitive;
    communication.reduce = step.reduce;
    communication.dtype = step.dtype;
    Duration slowest;
    for (const GroupCost& group :
         group_costs(step, type, *request.from_placement, *request.to_placement)) {
      plan.total_bytes += volume_of(step.primitive, group);
      if (group.members.size() > 1 && request.network != nullptr)
        slowest =
            std::max(slowest, request.network->duration({.communication = &communication,
                                                         .members = group.members,
                                                         .global_bytes = group.global_bytes,
                                                         .largest_volume = group.largest_volume}));
    }
    plan.time += slowest;
  }
  plan.steps = std::move(steps);
  return plan;
}

// Steps inside one placement leave the words that the crossing brings along.
std::vector<BoxingStep> steps_on(const BoxingRequest& request, BoxingWhere side) {
  BoxingRequest one = request;
  const bool before = side == BoxingWhere::kSource;
  one.from_placement = one.to_placement = before ? request.from_placement : request.to_placement;
  std::vector<BoxingStep> steps = plan_boxing(one).steps;
  for (BoxingStep& step : steps) step.where = side;
  return steps;
}

std::vector<BoxingStep> crossing(const BoxingRequest& request, const NdSbp& words) {
  BoxingRequest one = request;
  one.from = one.to = words;
  return Slices(one, aligned_axes(one)).steps();
}

// The words change on one side, all of them; a type changes with them.
BoxingPlan change_and_cross(const BoxingRequest& request, BoxingWhere side) {
  const DType to_dtype = request.to_dtype.value_or(request.type.dtype);
  const bool before = side == BoxingWhere::kSource;
  BoxingRequest moved = request;
  moved.to_dtype.reset();
  if (before) moved.type.dtype = to_dtype;
  std::vector<BoxingStep> first = before ? steps_on(request, side) : crossing(moved, request.from);
  const std::vector<BoxingStep> second =
      before ? crossing(moved, request.to) : steps_on(request, side);
  first.insert(first.end(), second.begin(), second.end());
  return priced(request, std::move(first));
}

// One transfer, where it needs no other type and no reduction but the one that is pending.
std::optional<BoxingPlan> direct(const BoxingRequest& request) {
  if (request.to_dtype.value_or(request.type.dtype) != request.type.dtype ||
      request.reduce_dtype.value_or(request.type.dtype) != request.type.dtype)
    return std::nullopt;
  BoxingStep step;
  step.kind = BoxingKind::kTransfer;
  step.primitive = Primitive::kTransfer;
  step.from = request.from;
  step.to = request.to;
  step.where = BoxingWhere::kBetween;
  step.dtype = step.to_dtype = request.type.dtype;
  std::optional<ReduceOp> pending, wanted;
  const Placement& mesh = *request.from_placement;
  for (std::size_t axis = 0; axis < mesh.axes.size(); ++axis) {
    if (mesh.axes[axis].extent == 1) continue;
    if (step.from[axis].is_partial()) pending = step.from[axis].reduce;
    if (step.to[axis].is_partial()) wanted = step.to[axis].reduce;
  }
  if (pending && wanted && pending != wanted) return std::nullopt;
  step.reduce = pending ? *pending : wanted.value_or(ReduceOp::kSum);
  return priced(request, {step});
}

bool is_cheaper(const BoxingPlan& a, const BoxingPlan& b) {
  if (a.time != b.time) return a.time < b.time;
  if (a.total_bytes != b.total_bytes) return a.total_bytes < b.total_bytes;
  return a.steps.size() < b.steps.size();
}

}  // namespace

BoxingPlan plan_large_boxing(const BoxingRequest& request, std::int64_t largest) {
  const bool is_large =
      request.from_placement->size() > largest && request.to_placement->size() > largest;
  if (!is_large || *request.from_placement == *request.to_placement ||
      !has_equal_hierarchies(request))
    return plan_boxing(request);
  const Slices slices(request, aligned_axes(request));
  if (slices.size() <= largest) return priced(request, slices.steps());
  BoxingPlan best = change_and_cross(request, BoxingWhere::kSource);
  BoxingPlan after = change_and_cross(request, BoxingWhere::kTarget);
  if (is_cheaper(after, best)) best = std::move(after);
  std::optional<BoxingPlan> at_once = direct(request);
  return at_once && is_cheaper(*at_once, best) ? *std::move(at_once) : best;
}

}  // namespace sextant
