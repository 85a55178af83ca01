// Nodes are states of both placements, once per element type; edges are steps.
#include "sbp/boxing_search.h"

#include "core/base/check.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace sextant {
namespace {

// In units of WorkBudget: a state that is made and numbered, an edge that is bounded, a state that
// is looked at as an end of steps.
constexpr std::int64_t kStateWork = 64, kEdgeWork = 32, kScanWork = 8;

std::uint32_t bit(std::size_t axis) { return std::uint32_t{1} << axis; }

// What is split is given or wanted; of the other dims as many of one extent as there are axes,
// since they could be exchanged for each other.
std::vector<std::size_t> dims_to_split(const BoxingRequest& request, std::size_t num_axes) {
  const Shape& shape = request.type.shape;
  std::uint32_t dims = 0;
  for (const NdSbp* words : {&request.from, &request.to})
    for (const Sbp& word : *words)
      if (word.is_split()) dims |= bit(word.dim);
  std::vector<std::size_t> result;
  for (std::size_t dim = 0; dim < shape.rank(); ++dim) {
    std::size_t alike = 0;
    for (std::size_t other = 0; other < dim; ++other)
      if ((dims & bit(other)) == 0 && shape[other] == shape[dim]) ++alike;
    if ((dims & bit(dim)) != 0 || alike < num_axes) result.push_back(dim);
  }
  return result;
}

}  // namespace

DType reduction_type(const BoxingRequest& request) {
  const DType from = request.type.dtype, to = request.to_dtype.value_or(from);
  if (request.reduce_dtype) return *request.reduce_dtype;
  return holds_every_value(to, from) ? to : from;
}

BoxingSearch::BoxingSearch(const BoxingRequest& request)
    : request_(request),
      by_time_(request.objective == BoxingObjective::kTime && request.network != nullptr),
      has_device_times_(by_time_ && request.cost != nullptr),
      source_(*request.from_placement) {
  const Placement &from = *request.from_placement, &to = *request.to_placement;
  const std::vector<std::int64_t> extents = to.hierarchy();
  if (source_.extents != extents || (&from != &to && from.ranks != to.ranks)) target_.emplace(to);
  start_ = MeshState(request.from, source_.extents, request.type.shape);
  goal_ = MeshState(request.to, extents, request.type.shape);
  pending_ = start_.pending_reduction();
  wanted_ = goal_.pending_reduction();
  dims_ =
      dims_to_split(request, std::max(source_.axes.size(), mesh(BoxingWhere::kTarget).axes.size()));
  prices_.emplace(request, source_, mesh(BoxingWhere::kTarget), work_);
  add_layers();
  add_made_reductions();
  add_states();
}

void BoxingSearch::add_layers() {
  const auto layer_with = [&](DType dtype) {
    const auto found = std::find(layers_.begin(), layers_.end(), dtype);
    if (found == layers_.end()) layers_.push_back(dtype);
    return static_cast<std::size_t>(std::find(layers_.begin(), layers_.end(), dtype) -
                                    layers_.begin());
  };
  layer_with(request_.type.dtype);
  const DType reducing = reduction_type(request_);
  reducing_layer_ = kNoLayer;
  if ((pending_ || by_time_) && holds_every_value(reducing, request_.type.dtype))
    reducing_layer_ = layer_with(reducing);
  goal_layer_ = layer_with(request_.to_dtype.value_or(request_.type.dtype));
}

// By time, sums with zeros may bring values to their places in fewer hops than an exchange; by
// bytes, what is made partial and is not wanted would only be undone again.
void BoxingSearch::add_made_reductions() {
  if (wanted_) made_.push_back(*wanted_);
  if (!by_time_) return;
  if (pending_ && pending_ != wanted_) made_.push_back(*pending_);
  if (made_.empty()) made_.push_back(ReduceOp::kSum);
}

void BoxingSearch::add_states() {
  add_states_of(source_, BoxingWhere::kSource);
  if (target_) add_states_of(*target_, BoxingWhere::kTarget);
  layer_size_ = source_.states.size() + (target_ ? target_->states.size() : 0);
  const BoxingWhere goal_side = target_ ? BoxingWhere::kTarget : BoxingWhere::kSource;
  start_node_ = node_at(0, {BoxingWhere::kSource, source_.states.find(start_)});
  goal_node_ = node_at(goal_layer_, {goal_side, mesh(goal_side).states.find(goal_)});
  reached_.assign(layers_.size() * layer_size_, 0);
  rests_.assign(layers_.size() * layer_size_, -1);
  if (reducing_layer_ != kNoLayer)
    reducing_tensor_bytes_ = prices_->tensor_bytes(layers_[reducing_layer_]);
  num_wanted_shares_ = prices_->num_shares(ref_of(goal_node_));
  least_tensor_bytes_ = prices_->tensor_bytes(layers_.front());
  for (const DType dtype : layers_)
    least_tensor_bytes_ = std::min(least_tensor_bytes_, prices_->tensor_bytes(dtype));
}

// All words of the axes, splits in every nesting order, without two different reductions.
void BoxingSearch::add_states_of(BoxingMesh& on, BoxingWhere side) {
  on.states.add(MeshState());
  for (std::uint32_t number = 0; number < on.states.size(); ++number)
    for (const std::size_t axis : on.axes) {
      const MeshState state = on.states[number];
      if (!state.is_broadcast(axis)) continue;
      work_.spend(kStateWork);
      for (const std::size_t dim : dims_) on.states.add(state.with_split(axis, dim));
      const std::optional<ReduceOp> other = state.pending_reduction();
      for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin})
        if (may_hold(side, axis, op) && (!other || *other == op))
          on.states.add(state.with_partial(axis, op));
    }
}

// Partial words that may occur on the way: pending ones where they are or where they may arrive,
// and those that are made.
bool BoxingSearch::may_hold(BoxingWhere side, std::size_t axis, ReduceOp op) const {
  const bool arrives = target_ && side == BoxingWhere::kTarget;
  if (pending_ == op && (arrives || start_.is_partial(axis))) return true;
  return std::find(made_.begin(), made_.end(), op) != made_.end() && may_become_partial(side, axis);
}

// By bytes where it is wanted, or in front of a relabel.
bool BoxingSearch::may_become_partial(BoxingWhere side, std::size_t axis) const {
  if (by_time_) return true;
  if (!target_ || side == BoxingWhere::kTarget) return goal_.is_partial(axis);
  return prices_->has_equal_sets();
}

BoxingSearch::NodeNumber BoxingSearch::node_at(std::size_t layer, StateRef ref) const {
  const bool on_target = target_ && ref.side == BoxingWhere::kTarget;
  return static_cast<NodeNumber>(layer) * layer_size_ + ref.number +
         (on_target ? source_.states.size() : 0);
}

StateRef BoxingSearch::ref_of(NodeNumber node) const {
  const NodeNumber number = node % layer_size_;
  if (number < source_.states.size()) return {BoxingWhere::kSource, number};
  return {BoxingWhere::kTarget, number - source_.states.size()};
}

const MeshState& BoxingSearch::state_of(NodeNumber node) const {
  const StateRef ref = ref_of(node);
  return mesh(ref.side).states[ref.number];
}

BoxingSearch::NodeNumber BoxingSearch::beside(NodeNumber node, const MeshState& state) const {
  const StateRef ref = ref_of(node);
  return node - ref.number + mesh(ref.side).states.find(state);
}

bool BoxingSearch::mark_reached(NodeNumber node) {
  if (reached_[node] == round_) return false;
  reached_[node] = round_;
  return true;
}

template <typename Take>
void BoxingSearch::expand(NodeNumber node, const Take& take) {
  work_.spend(kScanWork * layer_size_);
  ++round_;
  mark_reached(node);
  casts(node, take);
  local_steps(node, take);
  gathers(node, take);
  if (layer_of(node) == reducing_layer_) reductions(node, take);
  exchanges(node, take);
  if (target_ && ref_of(node).side == BoxingWhere::kSource) crossings(node, take);
}

// To the type of reductions, and from there or directly to the one that is wanted.
template <typename Take>
void BoxingSearch::casts(NodeNumber node, const Take& take) {
  const std::size_t layer = layer_of(node);
  for (std::size_t other = 0; other < layers_.size(); ++other) {
    if (other == layer || (other != goal_layer_ && (other != reducing_layer_ || layer != 0)))
      continue;
    if (state_of(node).has_partial() && !holds_every_value(layers_[other], layers_[layer]))
      continue;
    take(Edge{BoxingKind::kCast, {}, 0, node, node_at(other, ref_of(node))});
  }
}

// Any number of axes in one step. Whatever follows a local step could have been done with it, but
// that a slice may be cheaper to fill up than the whole is to copy.
template <typename Take>
void BoxingSearch::local_steps(NodeNumber node, const Take& take) {
  const Edge& last = nodes_[node].last;
  const bool goes_on = last.kind == BoxingKind::kLocal && !is_relabel(last);
  if (goes_on && !(has_device_times_ &&
                   prices_->largest_part(ref_of(node)) < prices_->largest_part(ref_of(last.from))))
    return;
  const StateRef ref = ref_of(node);
  const BoxingMesh& on = mesh(ref.side);
  const MeshState state = state_of(node);
  for (std::uint32_t number = 0; number < on.states.size(); ++number) {
    if (number == ref.number || !is_local_change(state, on.states[number], on.extents)) continue;
    if (goes_on && prices_->largest_part({ref.side, number}) <= prices_->largest_part(ref))
      continue;
    const NodeNumber reached = node - ref.number + number;
    mark_reached(reached);
    take(Edge{BoxingKind::kLocal, {}, 0, node, reached});
  }
}

// all_gather over every set of axes whose splits come off one after the other.
template <typename Take>
void BoxingSearch::gathers(NodeNumber node, const Take& take) {
  const BoxingMesh& on = mesh(ref_of(node).side);
  const auto gather = [&](const auto& self, std::uint32_t axes, const MeshState& state) -> void {
    if (axes != 0) {
      const NodeNumber reached = beside(node, state);
      if (!mark_reached(reached)) return;  // the same set in another order
      take(Edge{BoxingKind::kCollective, Primitive::kAllGather, axes, node, reached});
    }
    for (const std::size_t axis : on.axes)
      if (state.is_split(axis) && state.is_innermost(axis))
        self(self, axes | bit(axis), state.with_broadcast(axis));
  };
  gather(gather, 0, state_of(node));
}

// all_reduce and reduce_scatter over every set of partial axes; the splits of a reduce_scatter may
// be of any dims, in any nesting order.
template <typename Take>
void BoxingSearch::reductions(NodeNumber node, const Take& take) {
  const BoxingMesh& on = mesh(ref_of(node).side);
  const auto reduce = [&](const auto& self, Primitive primitive, std::uint32_t axes,
                          const MeshState& state) -> void {
    if (axes != 0) {
      const NodeNumber reached = beside(node, state);
      if (!mark_reached(reached)) return;
      take(Edge{BoxingKind::kCollective, primitive, axes, node, reached});
    }
    for (const std::size_t axis : on.axes) {
      if (!state.is_partial(axis)) continue;
      if (primitive == Primitive::kAllReduce) {
        self(self, primitive, axes | bit(axis), state.with_broadcast(axis));
        continue;
      }
      for (const std::size_t dim : dims_)
        self(self, primitive, axes | bit(axis), state.with_split(axis, dim));
    }
  };
  reduce(reduce, Primitive::kAllReduce, 0, state_of(node));
  reduce(reduce, Primitive::kReduceScatter, 0, state_of(node));
}

// all_to_all over one axis, and over those that change where no other step makes the same change.
// By bytes such an exchange goes to where local steps end: whoever lacks something receives it in
// any case.
template <typename Take>
void BoxingSearch::exchanges(NodeNumber node, const Take& take) {
  const StateRef ref = ref_of(node);
  const BoxingMesh& on = mesh(ref.side);
  const MeshState state = state_of(node);
  for (const std::size_t axis : on.axes) {
    if (!state.is_split(axis) || !state.is_innermost(axis)) continue;
    for (const std::size_t dim : dims_) {
      if (dim == state.dim(axis)) continue;
      const NodeNumber reached = beside(node, state.with_broadcast(axis).with_split(axis, dim));
      if (mark_reached(reached))
        take(Edge{BoxingKind::kCollective, Primitive::kAllToAll, bit(axis), node, reached});
    }
  }
  const bool may_end = !target_ || ref.side == BoxingWhere::kTarget;
  if (!by_time_ && !may_end) return;  // crossing brings everything to its place
  for (std::uint32_t number = 0; number < on.states.size(); ++number) {
    const NodeNumber reached = node - ref.number + number;
    if (is_reached(reached) || !(by_time_ || is_near_goal(on.states[number]))) continue;
    const auto axes = exchanged_axes(state, on.states[number], on.extents);
    if (axes) take(Edge{BoxingKind::kCollective, Primitive::kAllToAll, *axes, node, reached});
  }
}

// From the source to the target. A transfer of several shares may reduce.
template <typename Take>
void BoxingSearch::crossings(NodeNumber node, const Take& take) {
  const StateRef ref = ref_of(node);
  const std::optional<ReduceOp> pending = state_of(node).pending_reduction();
  const bool may_transfer = !pending || layer_of(node) == reducing_layer_;
  for (std::uint32_t number = 0; number < target_->states.size(); ++number) {
    const StateRef to{BoxingWhere::kTarget, number};
    const MeshState& state = target_->states[number];
    const std::optional<ReduceOp> arriving = state.pending_reduction();
    const NodeNumber reached = node_at(layer_of(node), to);
    if (pending == arriving && prices_->hold_the_same(ref, to))
      take(Edge{BoxingKind::kLocal, {}, 0, node, reached});
    if (!may_transfer || (pending && arriving && pending != arriving)) continue;
    if (!pending && arriving && arriving != wanted_ && !by_time_) continue;
    if (by_time_ || pending || is_near_goal(state))
      take(Edge{BoxingKind::kTransfer, Primitive::kTransfer, 0, node, reached});
  }
}

BoxingSearch::PathCost BoxingSearch::with_rest(PathCost cost, NodeNumber node) {
  if (rests_[node] < 0) rests_[node] = least_rest(node);
  cost.objective += rests_[node];
  return cost;
}

Change BoxingSearch::change_of(const Edge& edge) const {
  return {edge.kind,       edge.primitive,      edge.axes,        ref_of(edge.from),
          ref_of(edge.to), dtype_of(edge.from), dtype_of(edge.to)};
}

bool BoxingSearch::is_relabel(const Edge& edge) const {
  return edge.kind == BoxingKind::kLocal && ref_of(edge.from).side != ref_of(edge.to).side;
}

BoxingSearch::PathCost BoxingSearch::free_cost(PathCost cost, const Edge& edge) const {
  switch (edge.kind) {
    case BoxingKind::kCollective:
      ++cost.communications;
      break;
    case BoxingKind::kTransfer:  // the receivers reduce what they get: a step more
      cost.communications += prices_->num_shares(ref_of(edge.from)) > 1 ? 2 : 1;
      break;
    case BoxingKind::kLocal:
      ++cost.local_steps;
      break;
    case BoxingKind::kCast:
      ++cost.local_steps;
      cost.cast_elements += prices_->held_elements(ref_of(edge.from));
      break;
  }
  return cost;
}

BoxingSearch::PathCost BoxingSearch::least_cost(const PathCost& cost, const Edge& edge) {
  PathCost least = free_cost(cost, edge);
  const Change change = change_of(edge);
  const std::int64_t bytes = prices_->least_bytes(change);
  least.bytes += bytes;
  least.objective += by_time_ ? prices_->least_time(change) : bytes;
  return least;
}

BoxingSearch::PathCost BoxingSearch::exact_cost(const PathCost& cost, const Edge& edge) {
  PathCost exact = free_cost(cost, edge);
  const Change change = change_of(edge);
  const std::int64_t bytes = is_communication(edge.kind) ? prices_->bytes(change) : 0;
  exact.bytes += bytes;
  exact.objective += by_time_ ? prices_->time(change) : bytes;
  return exact;
}

// False when a path through `node` at this cost can be neither the best to it nor to the goal.
bool BoxingSearch::may_improve(NodeNumber node, const PathCost& cost) {
  if (nodes_[node].is_known && nodes_[node].cost < cost) return false;
  if (extent_ == Extent::kFreeSteps || !nodes_[goal_node_].is_known) return true;
  return with_rest(cost, node) <= nodes_[goal_node_].cost;
}

void BoxingSearch::relax(const Edge& edge) {
  work_.spend(kEdgeWork);
  const PathCost& cost = nodes_[edge.from].cost;
  const PathCost free = free_cost(cost, edge);
  if (!may_improve(edge.to, free)) return;
  if (!is_communication(edge.kind)) return relax_priced(edge);
  const PathCost least = least_cost(cost, edge);
  if (!may_improve(edge.to, least)) return;
  const bool is_exact =
      edge.kind == BoxingKind::kCollective && edge.primitive != Primitive::kAllToAll;
  if (is_exact) return reach(edge, least);
  if (edge.to == goal_node_) return relax_priced(edge);
  const Entry entry{with_rest(least, edge.to), false, edge};
  // Bounds are often exact: when the best of all edges to a node has its price, few others are
  // left.
  Waiting& waiting = waiting_[edge.to];
  if (waiting.is_queued && waiting.queued <= entry.estimate) {
    waiting.entries.push_back(entry);
    return;
  }
  waiting.is_queued = true;
  waiting.queued = entry.estimate;
  push(entry);
}

// After an edge to the node has got its price, the next best takes its place in the queue.
void BoxingSearch::queue_next(NodeNumber node) {
  Waiting& waiting = waiting_[node];
  waiting.is_queued = false;
  std::erase_if(waiting.entries, [&](const Entry& entry) { return !may_still_improve(entry); });
  if (waiting.entries.empty()) return;
  // The heap's order: the cheapest is the greatest.
  const auto next = std::max_element(waiting.entries.begin(), waiting.entries.end());
  waiting.is_queued = true;
  waiting.queued = next->estimate;
  push(*next);
  *next = waiting.entries.back();
  waiting.entries.pop_back();
}

// Since the entry was made, better paths may have been found.
bool BoxingSearch::may_still_improve(const Entry& entry) {
  const Node &known = nodes_[entry.edge.to], &goal = nodes_[goal_node_];
  if (known.is_known && with_rest(known.cost, entry.edge.to) < entry.estimate) return false;
  return !goal.is_known || entry.estimate <= goal.cost;
}

void BoxingSearch::relax_priced(const Edge& edge) {
  const PathCost cost = exact_cost(nodes_[edge.from].cost, edge);
  if (may_improve(edge.to, cost)) reach(edge, cost);
}

void BoxingSearch::reach(const Edge& edge, const PathCost& cost) {
  Node& node = nodes_[edge.to];
  if (node.is_known && cost == node.cost && !is_earlier_text(edge)) return;
  node.cost = cost;
  node.last = edge;
  node.is_known = true;
  node.is_settled = false;  // bounds are rounded: it may have seemed the best a little too early
  push({with_rest(cost, edge.to), true, edge});
}

void BoxingSearch::push(const Entry& entry) {
  queue_.push_back(entry);
  std::push_heap(queue_.begin(), queue_.end());
}

void BoxingSearch::search(NodeNumber start, const PathCost& cost, Extent extent) {
  extent_ = extent;
  work_.spend(static_cast<std::int64_t>(layers_.size()) * layer_size_);
  nodes_.assign(layers_.size() * layer_size_, Node{});
  queue_.clear();
  waiting_.assign(nodes_.size(), Waiting{});
  const Edge none{BoxingKind::kCast, {}, 0, start, start};
  nodes_[start] = {.cost = cost, .last = none, .is_known = true};
  push({with_rest(cost, start), true, none});
  while (!queue_.empty()) {
    std::pop_heap(queue_.begin(), queue_.end());
    const Entry entry = queue_.back();
    queue_.pop_back();
    if (!entry.is_node) {
      if (may_still_improve(entry)) relax_priced(entry.edge);
      queue_next(entry.edge.to);
      continue;
    }
    Node& node = nodes_[entry.edge.to];
    if (node.is_settled) continue;
    node.is_settled = true;
    if (entry.edge.to == goal_node_ && extent == Extent::kToGoal) return;
    expand(entry.edge.to, [&](const Edge& edge) {
      if (extent == Extent::kToGoal || !is_communication(edge.kind)) relax(edge);
    });
  }
}

std::vector<BoxingSearch::Edge> BoxingSearch::communications_from(NodeNumber node) {
  std::vector<Edge> edges;
  expand(node, [&](const Edge& edge) {
    if (is_communication(edge.kind)) edges.push_back(edge);
  });
  return edges;
}

}  // namespace sextant
