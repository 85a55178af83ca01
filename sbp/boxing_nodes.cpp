// States of both placements, once per element type; steps by kind, where a state that several of
// them reach counts as reached by the first.
#include "sbp/boxing_nodes.h"

#include <algorithm>
#include <utility>

namespace sextant {
namespace {

// In units of WorkBudget: a state that is made and numbered, one that is looked at as an end of
// steps.
constexpr std::int64_t kStateWork = 64, kScanWork = 8;

std::uint32_t set_bit(std::size_t place) { return std::uint32_t{1} << place; }

// What is split is given or wanted; of the other dims as many of one extent as there are axes,
// since they could be exchanged for each other.
std::vector<std::size_t> dims_to_split(const BoxingRequest& request, std::size_t num_axes) {
  const Shape& shape = request.type.shape;
  std::uint32_t dims = 0;
  for (const NdSbp* words : {&request.from, &request.to})
    for (const Sbp& word : *words)
      if (word.is_split()) dims |= set_bit(word.dim);
  std::vector<std::size_t> result;
  for (std::size_t dim = 0; dim < shape.rank(); ++dim) {
    std::size_t alike = 0;
    for (std::size_t other = 0; other < dim; ++other)
      if ((dims & set_bit(other)) == 0 && shape[other] == shape[dim]) ++alike;
    if ((dims & set_bit(dim)) != 0 || alike < num_axes) result.push_back(dim);
  }
  return result;
}

std::optional<BoxingMesh> other_mesh(const BoxingMesh& source, const BoxingRequest& request) {
  const Placement &from = *request.from_placement, &to = *request.to_placement;
  if (source.extents == to.hierarchy() && (&from == &to || from.ranks == to.ranks))
    return std::nullopt;
  return std::optional<BoxingMesh>(std::in_place, to);
}

// By time, sums with zeros may bring values to their places in fewer hops than an exchange; by
// bytes, what is made partial and is not wanted would only be undone again.
std::vector<ReduceOp> made_reductions(const BoxingTask& task) {
  std::vector<ReduceOp> made;
  if (task.wanted) made.push_back(*task.wanted);
  if (!task.by_time) return made;
  if (task.pending && task.pending != task.wanted) made.push_back(*task.pending);
  if (made.empty()) made.push_back(ReduceOp::kSum);
  return made;
}

BoxingTask task_of(const BoxingRequest& request, const BoxingMesh& source,
                   const BoxingMesh& target) {
  BoxingTask task{request};
  task.by_time = request.objective == BoxingObjective::kTime && request.network != nullptr;
  task.has_device_times = task.by_time && request.cost != nullptr;
  task.start = MeshState(request.from, source.extents, request.type.shape);
  task.goal = MeshState(request.to, target.extents, request.type.shape);
  task.pending = task.start.pending_reduction();
  task.wanted = task.goal.pending_reduction();
  task.dims = dims_to_split(request, std::max(source.axes.size(), target.axes.size()));
  task.made = made_reductions(task);
  return task;
}

}  // namespace

DType reduction_type(const BoxingRequest& request) {
  const DType from = request.type.dtype, to = request.to_dtype.value_or(from);
  if (request.reduce_dtype) return *request.reduce_dtype;
  return holds_every_value(to, from) ? to : from;
}

BoxingNodes::BoxingNodes(const BoxingRequest& request, WorkBudget& work)
    : work_(work),
      source_(*request.from_placement),
      target_(other_mesh(source_, request)),
      task_(task_of(request, source_, mesh(BoxingWhere::kTarget))),
      prices_(request, source_, mesh(BoxingWhere::kTarget), work) {
  add_layers();
  add_states_of(source_, BoxingWhere::kSource);
  if (target_) add_states_of(*target_, BoxingWhere::kTarget);
  layer_size_ = source_.states.size() + (target_ ? target_->states.size() : 0);
  const BoxingWhere goal_side = target_ ? BoxingWhere::kTarget : BoxingWhere::kSource;
  start_node_ = at(0, {BoxingWhere::kSource, source_.states.find(task_.start)});
  goal_node_ = at(goal_layer_, {goal_side, mesh(goal_side).states.find(task_.goal)});
}

void BoxingNodes::add_layers() {
  const auto layer_with = [&](DType dtype) {
    const auto found = std::find(layers_.begin(), layers_.end(), dtype);
    if (found == layers_.end()) layers_.push_back(dtype);
    return static_cast<std::size_t>(std::find(layers_.begin(), layers_.end(), dtype) -
                                    layers_.begin());
  };
  layer_with(task_.request.type.dtype);
  const DType reducing = reduction_type(task_.request);
  if ((task_.pending || task_.by_time) && holds_every_value(reducing, task_.request.type.dtype))
    reducing_layer_ = layer_with(reducing);
  goal_layer_ = layer_with(task_.request.to_dtype.value_or(task_.request.type.dtype));
}

// All words of the axes, splits in every nesting order, without two different reductions.
void BoxingNodes::add_states_of(BoxingMesh& on, BoxingWhere side) {
  on.states.add(MeshState());
  for (std::uint32_t number = 0; number < on.states.size(); ++number)
    for (const std::size_t axis : on.axes) {
      const MeshState state = on.states[number];
      if (!state.is_broadcast(axis)) continue;
      work_.spend(kStateWork);
      for (const std::size_t dim : task_.dims) on.states.add(state.with_split(axis, dim));
      const std::optional<ReduceOp> other = state.pending_reduction();
      for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin})
        if (may_hold(side, axis, op) && (!other || *other == op))
          on.states.add(state.with_partial(axis, op));
    }
}

// Partial words that may occur on the way: pending ones where they are or where they may arrive,
// and those that are made.
bool BoxingNodes::may_hold(BoxingWhere side, std::size_t axis, ReduceOp op) const {
  const bool arrives = target_ && side == BoxingWhere::kTarget;
  if (task_.pending == op && (arrives || task_.start.is_partial(axis))) return true;
  return std::find(task_.made.begin(), task_.made.end(), op) != task_.made.end() &&
         may_become_partial(side, axis);
}

// By bytes where it is wanted, or in front of a relabel.
bool BoxingNodes::may_become_partial(BoxingWhere side, std::size_t axis) const {
  if (task_.by_time) return true;
  if (!target_ || side == BoxingWhere::kTarget) return task_.goal.is_partial(axis);
  return prices_.has_equal_sets();
}

NodeNumber BoxingNodes::at(std::size_t layer, StateRef ref) const {
  const bool on_target = target_ && ref.side == BoxingWhere::kTarget;
  return static_cast<NodeNumber>(layer) * layer_size_ + ref.number +
         (on_target ? source_.states.size() : 0);
}

StateRef BoxingNodes::ref_of(NodeNumber node) const {
  const NodeNumber number = node % layer_size_;
  if (number < source_.states.size()) return {BoxingWhere::kSource, number};
  return {BoxingWhere::kTarget, number - source_.states.size()};
}

const MeshState& BoxingNodes::state_of(NodeNumber node) const {
  const StateRef ref = ref_of(node);
  return mesh(ref.side).states[ref.number];
}

NodeNumber BoxingNodes::beside(NodeNumber node, const MeshState& state) const {
  const StateRef ref = ref_of(node);
  return node - ref.number + mesh(ref.side).states.find(state);
}

bool BoxingNodes::is_near_goal(const MeshState& state) const {
  for (const std::size_t axis : mesh(BoxingWhere::kTarget).axes) {
    if (task_.goal.is_partial(axis)
            ? !state.is_partial(axis) || state.reduction(axis) == *task_.wanted
            : state.is_broadcast(axis))
      continue;
    if (!task_.goal.is_split(axis) || !state.is_split(axis) ||
        state.dim(axis) != task_.goal.dim(axis))
      return false;
  }
  return true;
}

Change BoxingNodes::change_of(const BoxingEdge& edge) const {
  return {edge.kind,       edge.primitive,      edge.axes,        ref_of(edge.from),
          ref_of(edge.to), dtype_of(edge.from), dtype_of(edge.to)};
}

bool BoxingNodes::is_relabel(const BoxingEdge& edge) const {
  return edge.kind == BoxingKind::kLocal && ref_of(edge.from).side != ref_of(edge.to).side;
}

BoxingStep BoxingNodes::step_of(const BoxingEdge& edge) const {
  const BoxingMesh &from = mesh(ref_of(edge.from).side), &to = mesh(ref_of(edge.to).side);
  BoxingStep step;
  step.kind = edge.kind;
  step.primitive = edge.primitive;
  step.from = state_of(edge.from).words(from.extents.size());
  step.to = state_of(edge.to).words(to.extents.size());
  step.where = &from != &to ? BoxingWhere::kBetween : ref_of(edge.from).side;
  step.dtype = dtype_of(edge.from);
  step.to_dtype = dtype_of(edge.to);
  for (const std::size_t axis : from.axes)
    if ((edge.axes >> axis & 1U) != 0) step.group_axes.push_back(axis);
  const std::optional<ReduceOp> reduction = state_of(edge.from).pending_reduction();
  if (reduction && is_communication(edge.kind) && edge.primitive != Primitive::kAllGather &&
      edge.primitive != Primitive::kAllToAll)
    step.reduce = *reduction;
  return step;
}

const std::vector<BoxingEdge>& BoxingSteps::from(NodeNumber node, const BoxingEdge& last) {
  nodes_.work().spend(kScanWork * nodes_.layer_size());
  found_.clear();
  ++round_;
  mark_reached(node);
  casts(node);
  local_steps(node, last);
  gathers(node);
  if (nodes_.is_reducing(nodes_.layer_of(node))) reductions(node);
  exchanges(node);
  if (nodes_.must_cross(node)) crossings(node);
  return found_;
}

bool BoxingSteps::mark_reached(NodeNumber node) {
  if (reached_[node] == round_) return false;
  reached_[node] = round_;
  return true;
}

// To the type of reductions, and from there or directly to the one that is wanted.
void BoxingSteps::casts(NodeNumber node) {
  const std::size_t layer = nodes_.layer_of(node);
  for (std::size_t other = 0; other < nodes_.layers().size(); ++other) {
    if (other == layer ||
        (!nodes_.is_goal_layer(other) && (!nodes_.is_reducing(other) || layer != 0)))
      continue;
    if (nodes_.state_of(node).has_partial() &&
        !holds_every_value(nodes_.layers()[other], nodes_.layers()[layer]))
      continue;
    found_.push_back(
        BoxingEdge{BoxingKind::kCast, {}, 0, node, nodes_.at(other, nodes_.ref_of(node))});
  }
}

// Any number of axes in one step. Whatever follows a local step could have been done with it, but
// that a slice may be cheaper to fill up than the whole is to copy.
void BoxingSteps::local_steps(NodeNumber node, const BoxingEdge& last) {
  const BoxingTask& task = nodes_.task();
  BoxingPrices& prices = nodes_.prices();
  const bool goes_on = last.kind == BoxingKind::kLocal && !nodes_.is_relabel(last);
  if (goes_on && !(task.has_device_times && prices.largest_part(nodes_.ref_of(node)) <
                                                prices.largest_part(nodes_.ref_of(last.from))))
    return;
  const StateRef ref = nodes_.ref_of(node);
  const BoxingMesh& on = nodes_.mesh(ref.side);
  const MeshState state = nodes_.state_of(node);
  for (std::uint32_t number = 0; number < on.states.size(); ++number) {
    if (number == ref.number || !is_local_change(state, on.states[number], on.extents)) continue;
    if (goes_on && prices.largest_part({ref.side, number}) <= prices.largest_part(ref)) continue;
    const NodeNumber reached = node - ref.number + number;
    mark_reached(reached);
    found_.push_back(BoxingEdge{BoxingKind::kLocal, {}, 0, node, reached});
  }
}

// all_gather over every set of axes whose splits come off one after the other.
void BoxingSteps::gathers(NodeNumber node) {
  const BoxingMesh& on = nodes_.mesh(nodes_.ref_of(node).side);
  const auto gather = [&](const auto& self, std::uint32_t axes, const MeshState& state) -> void {
    if (axes != 0) {
      const NodeNumber reached = nodes_.beside(node, state);
      if (!mark_reached(reached)) return;  // the same set in another order
      found_.push_back(
          BoxingEdge{BoxingKind::kCollective, Primitive::kAllGather, axes, node, reached});
    }
    for (const std::size_t axis : on.axes)
      if (state.is_split(axis) && state.is_innermost(axis))
        self(self, axes | set_bit(axis), state.with_broadcast(axis));
  };
  gather(gather, 0, nodes_.state_of(node));
}

// all_reduce and reduce_scatter over every set of partial axes; the splits of a reduce_scatter may
// be of any dims, in any nesting order.
void BoxingSteps::reductions(NodeNumber node) {
  const BoxingTask& task = nodes_.task();
  const BoxingMesh& on = nodes_.mesh(nodes_.ref_of(node).side);
  const auto reduce = [&](const auto& self, Primitive primitive, std::uint32_t axes,
                          const MeshState& state) -> void {
    if (axes != 0) {
      const NodeNumber reached = nodes_.beside(node, state);
      if (!mark_reached(reached)) return;
      found_.push_back(BoxingEdge{BoxingKind::kCollective, primitive, axes, node, reached});
    }
    for (const std::size_t axis : on.axes) {
      if (!state.is_partial(axis)) continue;
      if (primitive == Primitive::kAllReduce) {
        self(self, primitive, axes | set_bit(axis), state.with_broadcast(axis));
        continue;
      }
      for (const std::size_t dim : task.dims)
        self(self, primitive, axes | set_bit(axis), state.with_split(axis, dim));
    }
  };
  reduce(reduce, Primitive::kAllReduce, 0, nodes_.state_of(node));
  reduce(reduce, Primitive::kReduceScatter, 0, nodes_.state_of(node));
}

// all_to_all over one axis, and over those that change where no other step makes the same change.
// By bytes such an exchange goes to where local steps end: whoever lacks something receives it in
// any case.
void BoxingSteps::exchanges(NodeNumber node) {
  const BoxingTask& task = nodes_.task();
  const StateRef ref = nodes_.ref_of(node);
  const BoxingMesh& on = nodes_.mesh(ref.side);
  const MeshState state = nodes_.state_of(node);
  for (const std::size_t axis : on.axes) {
    if (!state.is_split(axis) || !state.is_innermost(axis)) continue;
    for (const std::size_t dim : task.dims) {
      if (dim == state.dim(axis)) continue;
      const NodeNumber reached =
          nodes_.beside(node, state.with_broadcast(axis).with_split(axis, dim));
      if (mark_reached(reached))
        found_.push_back(BoxingEdge{BoxingKind::kCollective, Primitive::kAllToAll, set_bit(axis),
                                    node, reached});
    }
  }
  const bool may_end = !nodes_.has_target() || ref.side == BoxingWhere::kTarget;
  if (!task.by_time && !may_end) return;  // crossing brings everything to its place
  for (std::uint32_t number = 0; number < on.states.size(); ++number) {
    const NodeNumber reached = node - ref.number + number;
    if (is_reached(reached) || !(task.by_time || nodes_.is_near_goal(on.states[number]))) continue;
    const auto axes = exchanged_axes(state, on.states[number], on.extents);
    if (axes)
      found_.push_back(
          BoxingEdge{BoxingKind::kCollective, Primitive::kAllToAll, *axes, node, reached});
  }
}

// From the source to the target. A transfer of several shares may reduce.
void BoxingSteps::crossings(NodeNumber node) {
  const BoxingTask& task = nodes_.task();
  BoxingPrices& prices = nodes_.prices();
  const BoxingMesh& target = nodes_.mesh(BoxingWhere::kTarget);
  const StateRef ref = nodes_.ref_of(node);
  const std::optional<ReduceOp> pending = nodes_.state_of(node).pending_reduction();
  const bool may_transfer = !pending || nodes_.is_reducing(nodes_.layer_of(node));
  for (std::uint32_t number = 0; number < target.states.size(); ++number) {
    const StateRef to{BoxingWhere::kTarget, number};
    const MeshState& state = target.states[number];
    const std::optional<ReduceOp> arriving = state.pending_reduction();
    const NodeNumber reached = nodes_.at(nodes_.layer_of(node), to);
    if (pending == arriving && prices.hold_the_same(ref, to))
      found_.push_back(BoxingEdge{BoxingKind::kLocal, {}, 0, node, reached});
    if (!may_transfer || (pending && arriving && pending != arriving)) continue;
    if (!pending && arriving && arriving != task.wanted && !task.by_time) continue;
    if (task.by_time || pending || nodes_.is_near_goal(state))
      found_.push_back(BoxingEdge{BoxingKind::kTransfer, Primitive::kTransfer, 0, node, reached});
  }
}

}  // namespace sextant
