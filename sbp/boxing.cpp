// The cheapest sequence of steps: Dijkstra's search over the states of the source placement, and
// of the target placement where it is another one. README, "Planning".
#include "sbp/boxing.h"

#include "core/check.h"
#include "sbp/group_costs.h"
#include "sbp/mesh_state.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <queue>
#include <unordered_map>
#include <utility>

namespace sextant {
namespace {

constexpr std::uint64_t kTargetMark = std::uint64_t{1} << (8 * kMaxMeshAxes);
constexpr std::int64_t kUnknown = std::numeric_limits<std::int64_t>::max();

// Lexicographic: what is minimised first comes first. Every step raises one of the counts, so no
// path comes back at equal cost.
struct PathCost {
  std::int64_t objective = 0, bytes = 0, communications = 0, local_steps = 0;
  auto operator<=>(const PathCost&) const = default;
};

enum class Where : std::uint8_t { kSource, kTarget };

struct Node {
  Where where = Where::kSource;
  MeshState state;
  PathCost cost{kUnknown, 0, 0, 0};
  std::int64_t time = 0;  // of the path
  bool settled = false;
  // The step from the parent: kept small, written out for the path that is chosen.
  std::size_t parent = 0;
  BoxingKind kind = BoxingKind::kLocal;
  Primitive primitive = Primitive::kAllReduce;
  std::uint32_t axes = 0;  // bit set
};

// The extents of one placement and what the tensor looks like on it.
struct Mesh {
  const Placement* placement = nullptr;
  std::vector<std::int64_t> extents;
  std::vector<std::size_t> axes;  // those with more than one part

  explicit Mesh(const Placement& p) : placement(&p), extents(p.hierarchy()) {
    for (std::size_t axis = 0; axis < extents.size(); ++axis)
      if (extents[axis] > 1) axes.push_back(axis);
  }
};

std::int64_t checked_product(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  require(!__builtin_mul_overflow(a, b, &product), ErrorCode::kInfeasible,
          "a boxing of more than 2^63 bytes");
  return product;
}

class Planner {
 public:
  explicit Planner(const BoxingRequest& request)
      : request_(request),
        source_(*request.from_placement),
        target_(*request.to_placement),
        disjoint_(check_placements(request)),
        tensor_bytes_(size_of(request.type).value),
        goal_(request.to, target_.extents, request.type.shape) {
    const MeshState start(request.from, source_.extents, request.type.shape);
    for (std::size_t dim = 0; dim < request.type.shape.rank(); ++dim) dims_.push_back(dim);
    for (const std::size_t axis : target_.axes)
      if (goal_.is_partial(axis)) goal_reduction_ = goal_.reduction(axis);
    find_landings();
    nodes_.reserve(64);
    node_index(Where::kSource, start);
    nodes_[0].cost = {};
    queue_.push({nodes_[0].cost, 0});
  }

  BoxingPlan plan() {
    while (!queue_.empty()) {
      const auto [cost, index] = queue_.top();
      queue_.pop();
      if (nodes_[index].settled || nodes_[index].cost != cost) continue;
      nodes_[index].settled = true;
      if (is_goal(nodes_[index])) return path_to(index);
      expand(index);
    }
    fail(ErrorCode::kInfeasible, "no boxing from {}@{} to {}@{} of {}", to_string(request_.from),
         to_string(*request_.from_placement), to_string(request_.to),
         to_string(*request_.to_placement), to_string(request_.type.shape));
  }

 private:
  // True for disjoint placements, false for equal ones.
  static bool check_placements(const BoxingRequest& request) {
    const Placement &from = *request.from_placement, &to = *request.to_placement;
    if (from.ranks == to.ranks && from.hierarchy() == to.hierarchy()) return false;
    std::vector<Rank> a = from.ranks, b = to.ranks, common;
    std::sort(a.begin(), a.end());
    std::sort(b.begin(), b.end());
    std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(common));
    require(common.empty(), ErrorCode::kInfeasible,
            "boxing from {}@{} to {}@{}: the placements share {} devices but are not equal; equal "
            "or disjoint ones are supported",
            to_string(request.from), to_string(from), to_string(request.to), to_string(to),
            common.size());
    return true;
  }

  // Landings: states without partial words from which local steps reach the goal. Their partial
  // axes are replaced by splits or copies.
  void find_landings() {
    landings_ = {goal_};
    for (const std::size_t axis : target_.axes) {
      if (!goal_.is_partial(axis)) continue;
      std::vector<MeshState> next;
      for (const MeshState& state : landings_) {
        next.push_back(state.with_broadcast(axis));
        for (const std::size_t dim : dims_) next.push_back(state.with_split(axis, dim));
      }
      landings_ = std::move(next);
    }
  }

  bool is_goal(const Node& node) const {
    return node.state == goal_ && (node.where == Where::kTarget || !disjoint_);
  }

  static std::uint64_t key_of(Where where, const MeshState& state) {
    return state.code() ^ (where == Where::kTarget ? kTargetMark : 0);
  }

  std::size_t node_index(Where where, const MeshState& state) {
    const auto [at, added] = index_.try_emplace(key_of(where, state), nodes_.size());
    if (added) {
      nodes_.emplace_back();
      nodes_.back().where = where;
      nodes_.back().state = state;
    }
    return at->second;
  }

  const Mesh& mesh(Where where) const { return where == Where::kSource ? source_ : target_; }

  void expand(std::size_t index) {
    const Where where = nodes_[index].where;
    const MeshState state = nodes_[index].state;
    reached_.clear();
    local_steps(index, where, state);
    gathers(index, where, state);
    reductions(index, where, state);
    exchanges(index, where, state);
    if (state.has_partial()) return;
    if (where == Where::kTarget || !disjoint_)
      general_exchanges(index, where, state);
    else
      transfers(index, state);
  }

  void local_steps(std::size_t index, Where where, const MeshState& state) {
    // Only the goal is partial: to make a value partial on the way there would be undone again.
    const bool may_end = where == Where::kTarget || !disjoint_;
    for (const std::size_t axis : mesh(where).axes) {
      if (state.is_broadcast(axis))
        for (const std::size_t dim : dims_) relax_local(index, where, state.with_split(axis, dim));
      if (!may_end || !goal_.is_partial(axis) || state.is_partial(axis)) continue;
      if (has_other_reduction(state)) continue;
      if (state.is_broadcast(axis) || state.is_innermost(axis))
        relax_local(index, where, state.with_partial(axis, *goal_reduction_));
    }
  }

  bool has_other_reduction(const MeshState& state) const {
    return std::any_of(target_.axes.begin(), target_.axes.end(), [&](std::size_t axis) {
      return state.is_partial(axis) && state.reduction(axis) != *goal_reduction_;
    });
  }

  // all_gather over every set of axes whose splits come off one after the other.
  void gathers(std::size_t index, Where where, const MeshState& state) {
    const auto gather = [&](const auto& self, std::uint32_t axes,
                            const MeshState& reached) -> void {
      if (axes != 0) {
        if (is_reached(reached)) return;  // the same set in another order
        relax_collective(index, where, Primitive::kAllGather, axes, reached);
      }
      for (const std::size_t axis : mesh(where).axes)
        if (reached.is_split(axis) && reached.is_innermost(axis))
          self(self, axes | bit(axis), reached.with_broadcast(axis));
    };
    gather(gather, 0, state);
  }

  // all_reduce and reduce_scatter over every set of partial axes; the splits of a reduce_scatter
  // may be of any dims, in any nesting order.
  void reductions(std::size_t index, Where where, const MeshState& state) {
    const auto reduce = [&](const auto& self, std::uint32_t axes,
                            const MeshState& reached) -> void {
      if (axes != 0) {
        if (is_reached(reached)) return;
        relax_collective(index, where, Primitive::kAllReduce, axes, reached);
      }
      for (const std::size_t axis : mesh(where).axes)
        if (reached.is_partial(axis)) self(self, axes | bit(axis), reached.with_broadcast(axis));
    };
    const auto scatter = [&](const auto& self, std::uint32_t axes,
                             const MeshState& reached) -> void {
      if (axes != 0) {
        if (is_reached(reached)) return;
        relax_collective(index, where, Primitive::kReduceScatter, axes, reached);
      }
      for (const std::size_t axis : mesh(where).axes)
        if (reached.is_partial(axis))
          for (const std::size_t dim : dims_)
            self(self, axes | bit(axis), reached.with_split(axis, dim));
    };
    reduce(reduce, 0, state);
    scatter(scatter, 0, state);
  }

  void exchanges(std::size_t index, Where where, const MeshState& state) {
    for (const std::size_t axis : mesh(where).axes) {
      if (!state.is_split(axis) || !state.is_innermost(axis)) continue;
      for (const std::size_t dim : dims_)
        if (dim != state.dim(axis))
          relax_collective(index, where, Primitive::kAllToAll, bit(axis),
                           state.with_broadcast(axis).with_split(axis, dim));
    }
  }

  // all_to_all over all axes, where no step above makes the same change.
  void general_exchanges(std::size_t index, Where where, const MeshState& state) {
    std::uint32_t all = 0;
    for (const std::size_t axis : mesh(where).axes) all |= bit(axis);
    for (const MeshState& landing : landings_)
      if (landing != state && !is_reached(landing))
        relax_collective(index, where, Primitive::kAllToAll, all, landing);
  }

  // A transfer lands where local steps reach the goal, or keeps its words so that the target
  // gathers: every device then receives a part only.
  void transfers(std::size_t index, const MeshState& state) {
    for (const MeshState& landing : landings_) relax_transfer(index, landing);
    if (source_.extents != target_.extents) return;
    if (std::find(landings_.begin(), landings_.end(), state) == landings_.end())
      relax_transfer(index, state);
  }

  static std::uint32_t bit(std::size_t axis) { return std::uint32_t{1} << axis; }

  bool is_reached(const MeshState& state) const {
    return std::find(reached_.begin(), reached_.end(), state) != reached_.end();
  }

  void relax_local(std::size_t index, Where where, const MeshState& to) {
    reached_.push_back(to);
    Node step;
    step.where = where;
    step.state = to;
    step.cost = nodes_[index].cost;
    ++step.cost.local_steps;
    step.time = nodes_[index].time;
    step.parent = index;
    relax(step);
  }

  void relax_collective(std::size_t index, Where where, Primitive primitive, std::uint32_t axes,
                        const MeshState& to) {
    reached_.push_back(to);
    Node step;
    step.where = where;
    step.state = to;
    step.parent = index;
    step.kind = BoxingKind::kCollective;
    step.primitive = primitive;
    step.axes = axes;
    relax_communication(step);
  }

  void relax_transfer(std::size_t index, const MeshState& to) {
    Node step;
    step.where = Where::kTarget;
    step.state = to;
    step.parent = index;
    step.kind = BoxingKind::kTransfer;
    step.primitive = Primitive::kTransfer;
    relax_communication(step);
  }

  void relax_communication(Node& step) {
    const Node& parent = nodes_[step.parent];
    step.cost = parent.cost;
    ++step.cost.communications;
    if (!may_improve(step)) return;
    const std::int64_t bytes = bytes_of(step);
    step.cost.bytes += bytes;
    const bool by_time =
        request_.objective == BoxingObjective::kTime && request_.network != nullptr;
    if (!by_time) step.cost.objective += bytes;
    step.time = parent.time;
    if (request_.network != nullptr && may_improve(step)) {
      const std::optional<std::int64_t> time = time_unless_useless(step, by_time);
      if (!time) return;
      if (by_time) step.cost.objective += *time;
      step.time += *time;
    }
    relax(step);
  }

  // Nothing when a bound from below says already that the step cannot help: a network does not
  // get slower when less is sent.
  std::optional<std::int64_t> time_unless_useless(const Node& node, bool by_time) const {
    const BoxingStep step = step_to(node);
    const Where from = nodes_[node.parent].where;
    if (by_time && lists_boxes(step)) {
      Node hoped = node;
      hoped.cost.objective += time_of(step, from, node.where, Volumes::kReceived).value;
      if (!may_improve(hoped)) return std::nullopt;
    }
    return time_of(step, from, node.where, Volumes::kExact).value;
  }

  // False when a path through `step` can be neither the best to its node nor to the goal.
  bool may_improve(const Node& step) const {
    if (step.cost > goal_cost_) return false;
    const auto known = index_.find(key_of(step.where, step.state));
    if (known == index_.end()) return true;
    return !nodes_[known->second].settled && step.cost <= nodes_[known->second].cost;
  }

  void relax(const Node& step) {
    if (!may_improve(step)) return;
    const std::size_t reached = node_index(step.where, step.state);
    if (step.cost == nodes_[reached].cost && !is_earlier_text(step, reached)) return;
    nodes_[reached] = step;
    if (is_goal(step)) goal_cost_ = step.cost;
    queue_.push({step.cost, reached});
  }

  bool is_earlier_text(const Node& step, std::size_t known) const {
    std::vector<std::string> candidate = texts_to(step.parent);
    candidate.push_back(to_string(step_to(step)));
    return candidate < texts_to(known);
  }

  std::vector<std::string> texts_to(std::size_t index) const {
    std::vector<std::string> texts;
    for (; index != 0; index = nodes_[index].parent)
      texts.push_back(to_string(step_to(nodes_[index])));
    std::reverse(texts.begin(), texts.end());
    return texts;
  }

  BoxingStep step_to(const Node& node) const {
    const Node& parent = nodes_[node.parent];
    BoxingStep step;
    step.kind = node.kind;
    step.primitive = node.primitive;
    step.where = node.kind == BoxingKind::kTransfer ? BoxingWhere::kBetween
                 : disjoint_ && node.where == Where::kTarget ? BoxingWhere::kTarget
                                                            : BoxingWhere::kSource;
    step.dtype = step.to_dtype = request_.type.dtype;
    step.from = parent.state.words(mesh(parent.where).extents.size());
    step.to = node.state.words(mesh(node.where).extents.size());
    for (const std::size_t axis : mesh(node.where).axes)
      if ((node.axes & bit(axis)) != 0) step.group_axes.push_back(axis);
    if (node.primitive == Primitive::kAllReduce || node.primitive == Primitive::kReduceScatter)
      if (!step.group_axes.empty()) step.reduce = parent.state.reduction(step.group_axes.front());
    return step;
  }

  // Bytes over all devices: the closed forms of README, "Steps".
  std::int64_t bytes_of(const Node& step) const {
    const Mesh& on = mesh(step.where);
    if (step.kind == BoxingKind::kTransfer)
      return checked_product(tensor_bytes_, copies(on, step.state, 0));
    std::int64_t members = 1;
    for (const std::size_t axis : on.axes)
      if ((step.axes & bit(axis)) != 0) members *= on.extents[axis];
    switch (step.primitive) {
      case Primitive::kAllReduce:
        members = 2 * (members - 1);
        break;
      case Primitive::kAllGather:
      case Primitive::kReduceScatter:
        members = members - 1;
        break;
      case Primitive::kAllToAll:
        return checked_product(tensor_bytes_, copies(on, step.state, 0)) -
               elements_in_place(request_.type.shape, on.extents, nodes_[step.parent].state,
                                 step.state) *
                   size_of(request_.type.dtype).value;
      case Primitive::kBroadcast:
      case Primitive::kTransfer:
        break;
    }
    return checked_product(checked_product(tensor_bytes_, copies(on, step.state, step.axes)),
                           members);
  }

  // How often the axes other than `without` repeat each element.
  static std::int64_t copies(const Mesh& mesh, const MeshState& state, std::uint32_t without) {
    std::int64_t copies = 1;
    for (const std::size_t axis : mesh.axes)
      if (!state.is_split(axis) && (without & bit(axis)) == 0) copies *= mesh.extents[axis];
    return copies;
  }

  // The groups run beside each other: the slowest counts.
  Duration time_of(const BoxingStep& step, Where from, Where to, Volumes volumes) const {
    const Placement &source = *mesh(from).placement, &target = *mesh(to).placement;
    Communication communication;
    communication.primitive = step.primitive;
    communication.reduce = step.reduce;
    communication.dtype = request_.type.dtype;
    Duration slowest;
    for (const GroupCost& group : group_costs(step, request_.type, source, target, volumes)) {
      if (group.members.size() < 2) continue;
      const CollectiveCost cost{.communication = &communication,
                                .members = group.members,
                                .global_bytes = group.global_bytes,
                                .largest_volume = group.largest_volume};
      slowest = std::max(slowest, request_.network->duration(cost));
    }
    return slowest;
  }

  BoxingPlan path_to(std::size_t index) const {
    BoxingPlan plan;
    plan.total_bytes = Bytes(nodes_[index].cost.bytes);
    plan.time = Duration(nodes_[index].time);
    for (; index != 0; index = nodes_[index].parent) plan.steps.push_back(step_to(nodes_[index]));
    std::reverse(plan.steps.begin(), plan.steps.end());
    merge_local_steps(plan.steps);
    if (!plan.steps.empty()) {
      plan.steps.front().from = request_.from;
      plan.steps.back().to = request_.to;
    }
    return plan;
  }

  static void merge_local_steps(std::vector<BoxingStep>& steps) {
    std::vector<BoxingStep> merged;
    for (BoxingStep& step : steps) {
      const bool extends = !merged.empty() && step.kind == BoxingKind::kLocal &&
                           merged.back().kind == BoxingKind::kLocal;
      if (extends)
        merged.back().to = std::move(step.to);
      else
        merged.push_back(std::move(step));
    }
    steps = std::move(merged);
  }

  const BoxingRequest& request_;
  const Mesh source_, target_;
  const bool disjoint_;
  const std::int64_t tensor_bytes_;
  const MeshState goal_;
  std::optional<ReduceOp> goal_reduction_;
  std::vector<std::size_t> dims_;
  std::vector<MeshState> landings_;

  std::vector<Node> nodes_;
  std::unordered_map<std::uint64_t, std::size_t> index_;  // only looked up, never walked
  using Entry = std::pair<PathCost, std::size_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
  PathCost goal_cost_{kUnknown, 0, 0, 0};  // of the best path known
  std::vector<MeshState> reached_;         // in one step from the node being expanded
};

}  // namespace

BoxingPlan plan_boxing(const BoxingRequest& request) {
  validate(*request.from_placement);
  validate(*request.to_placement);
  return Planner(request).plan();
}

}  // namespace sextant
