// The graph that a boxing is searched in: its nodes, the steps from a node, and a bound on what is
// left of a path. Internal to sbp/.
#pragma once

#include "sbp/boxing.h"
#include "sbp/boxing_prices.h"
#include "sbp/mesh_state.h"
#include "sbp/work_budget.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace sextant {

// In which reductions run: the given type, or that of both sides which holds every value of the
// other, or the source's.
DType reduction_type(const BoxingRequest& request);

// What a request asks for, as states.
struct BoxingTask {
  const BoxingRequest& request;
  bool by_time = false, has_device_times = false;
  MeshState start = {}, goal = {};
  std::optional<ReduceOp> pending = {}, wanted = {};  // reductions of source and target
  std::vector<std::size_t> dims = {};                 // those that may be split on the way
  std::vector<ReduceOp> made = {};  // reductions that local steps may make pending
};

using NodeNumber = std::uint32_t;

struct BoxingEdge {
  BoxingKind kind = BoxingKind::kLocal;
  Primitive primitive = Primitive::kAllReduce;
  std::uint32_t axes = 0;
  NodeNumber from = 0, to = 0;
};

// Nodes are the states of both placements in the layers of element types, those of the source
// first.
class BoxingNodes {
 public:
  // Borrows both. The request's words and placements are known to be good.
  BoxingNodes(const BoxingRequest& request, WorkBudget& work);
  BoxingNodes(const BoxingNodes&) = delete;
  BoxingNodes& operator=(const BoxingNodes&) = delete;

  const BoxingTask& task() const { return task_; }
  BoxingPrices& prices() { return prices_; }
  const BoxingPrices& prices() const { return prices_; }
  WorkBudget& work() { return work_; }

  std::size_t size() const { return layers_.size() * layer_size_; }
  std::uint32_t layer_size() const { return layer_size_; }
  const std::vector<DType>& layers() const { return layers_; }
  bool is_reducing(std::size_t layer) const { return layer == reducing_layer_; }
  bool has_reducing_layer() const { return reducing_layer_ != kNoLayer; }
  DType reducing_type() const { return layers_[reducing_layer_]; }
  bool is_goal_layer(std::size_t layer) const { return layer == goal_layer_; }
  NodeNumber start() const { return start_node_; }
  NodeNumber goal() const { return goal_node_; }

  NodeNumber at(std::size_t layer, StateRef ref) const;
  StateRef ref_of(NodeNumber node) const;
  std::size_t layer_of(NodeNumber node) const { return node / layer_size_; }
  DType dtype_of(NodeNumber node) const { return layers_[layer_of(node)]; }
  // Where source and target are one placement, that.
  const BoxingMesh& mesh(BoxingWhere side) const {
    return side == BoxingWhere::kTarget && target_ ? *target_ : source_;
  }
  const MeshState& state_of(NodeNumber node) const;
  bool has_target() const { return target_.has_value(); }
  bool must_cross(NodeNumber node) const {
    return target_ && ref_of(node).side == BoxingWhere::kSource;
  }
  // The node of a state beside `node`, reached by one step.
  NodeNumber beside(NodeNumber node, const MeshState& state) const;
  // Not false where local steps lead to the goal: every axis says what is wanted, or B, or becomes
  // partial.
  bool is_near_goal(const MeshState& state) const;

  Change change_of(const BoxingEdge& edge) const;
  bool is_relabel(const BoxingEdge& edge) const;
  BoxingStep step_of(const BoxingEdge& edge) const;

 private:
  void add_layers();
  void add_states_of(BoxingMesh& on, BoxingWhere side);
  bool may_hold(BoxingWhere side, std::size_t axis, ReduceOp op) const;
  bool may_become_partial(BoxingWhere side, std::size_t axis) const;

  static constexpr std::size_t kNoLayer = ~std::size_t{0};

  WorkBudget& work_;  // shared with the prices
  BoxingMesh source_;
  std::optional<BoxingMesh> target_;  // nothing where it equals the source
  BoxingTask task_;
  BoxingPrices prices_;
  std::vector<DType> layers_;
  std::size_t reducing_layer_ = kNoLayer, goal_layer_ = 0;
  std::uint32_t layer_size_ = 0;
  NodeNumber start_node_ = 0, goal_node_ = 0;
};

// All steps from a node.
class BoxingSteps {
 public:
  explicit BoxingSteps(BoxingNodes& nodes) : nodes_(nodes), reached_(nodes.size(), 0) {}

  // `last` is the step that led to the node. Valid until the next call.
  const std::vector<BoxingEdge>& from(NodeNumber node, const BoxingEdge& last);

 private:
  void casts(NodeNumber node);
  void local_steps(NodeNumber node, const BoxingEdge& last);
  void gathers(NodeNumber node);
  void reductions(NodeNumber node);
  void exchanges(NodeNumber node);
  void crossings(NodeNumber node);
  bool is_reached(NodeNumber node) const { return reached_[node] == round_; }
  bool mark_reached(NodeNumber node);

  BoxingNodes& nodes_;
  std::vector<BoxingEdge> found_;
  std::vector<std::uint32_t> reached_;  // by node: in which round
  std::uint32_t round_ = 0;
};

// What is left of every path from a node to the goal, in what is minimised, at least.
class BoxingRest {
 public:
  explicit BoxingRest(BoxingNodes& nodes);
  std::int64_t least(NodeNumber node);

 private:
  std::int64_t compute(NodeNumber node);
  bool bounds_local_times() const;
  std::int64_t least_fill();
  std::int64_t least_end(bool fills);
  bool wants_fill(const MeshState& state) const;
  std::int64_t least_bytes_left(NodeNumber node);
  std::int64_t least_bytes_of_shares(NodeNumber node);

  BoxingNodes& nodes_;
  std::vector<std::int64_t> rests_;  // by node; negative where not known yet
  std::optional<std::int64_t> least_fill_, least_last_local_;  // of steps of one device alone
  std::int64_t num_wanted_shares_ = 1, least_tensor_bytes_ = 0, reducing_tensor_bytes_ = 0;
};

}  // namespace sextant
