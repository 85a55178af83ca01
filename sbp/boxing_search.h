// The cheapest path over states: Dijkstra's search with a bound on what is left. README,
// "Planning". Internal to sbp/.
#pragma once

#include "sbp/boxing.h"
#include "sbp/boxing_prices.h"
#include "sbp/mesh_state.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sextant {

// In which reductions run: the given type, or that of both sides which holds every value of the
// other, or the source's.
DType reduction_type(const BoxingRequest& request);

class BoxingSearch {
 public:
  // Borrows the request, whose words and placements are known to be good.
  explicit BoxingSearch(const BoxingRequest& request);

  // Both throw OutOfWork (work_budget.h) where the best plan takes too long to find; alternatives
  // that would are left out.
  std::optional<BoxingPlan> best();
  std::vector<BoxingPlan> alternatives(std::size_t limit);

 private:
  // Lexicographic: what is minimised first comes first. Every step raises one of the counts, so no
  // path comes back at equal cost.
  struct PathCost {
    std::int64_t objective = 0, bytes = 0, communications = 0, local_steps = 0, cast_elements = 0;
    auto operator<=>(const PathCost&) const = default;
  };
  using NodeNumber = std::uint32_t;
  struct Edge {
    BoxingKind kind = BoxingKind::kLocal;
    Primitive primitive = Primitive::kAllReduce;
    std::uint32_t axes = 0;
    NodeNumber from = 0, to = 0;
  };
  struct Node {
    PathCost cost;
    Edge last;  // of the path; unused at the start
    bool is_known = false, is_settled = false;
  };
  struct Entry {
    PathCost estimate;    // cost and the bound on what is left
    bool is_node = true;  // else an edge with a bound for a price
    Edge edge;            // its end is the node
    // The cheapest last; edges before nodes, so that a node is settled only when all are known.
    bool operator<(const Entry& other) const {
      if (estimate != other.estimate) return estimate > other.estimate;
      return is_node && !other.is_node;
    }
  };
  // Edges to one node that are no better than the one in the queue.
  struct Waiting {
    bool is_queued = false;
    PathCost queued;
    std::vector<Entry> entries;
  };
  using Path = std::vector<Edge>;

  void add_layers();
  void add_made_reductions();
  void add_states();
  void add_states_of(BoxingMesh& on, BoxingWhere side);
  bool may_hold(BoxingWhere side, std::size_t axis, ReduceOp op) const;
  bool may_become_partial(BoxingWhere side, std::size_t axis) const;

  // To the goal, or over everything that is reached without communication.
  enum class Extent : std::uint8_t { kToGoal, kFreeSteps };
  void search(NodeNumber start, const PathCost& cost, Extent extent);
  bool has_path() const { return nodes_[goal_node_].is_settled; }

  // All steps from a node; each is handed to `take`.
  template <typename Take>
  void expand(NodeNumber node, const Take& take);
  template <typename Take>
  void casts(NodeNumber node, const Take& take);
  template <typename Take>
  void local_steps(NodeNumber node, const Take& take);
  template <typename Take>
  void gathers(NodeNumber node, const Take& take);
  template <typename Take>
  void reductions(NodeNumber node, const Take& take);
  template <typename Take>
  void exchanges(NodeNumber node, const Take& take);
  template <typename Take>
  void crossings(NodeNumber node, const Take& take);

  void relax(const Edge& edge);
  void relax_priced(const Edge& edge);
  void reach(const Edge& edge, const PathCost& cost);
  void push(const Entry& entry);
  void queue_next(NodeNumber node);
  bool may_improve(NodeNumber node, const PathCost& cost);
  bool may_still_improve(const Entry& entry);
  // Of a path of the given cost and one edge more; without its bytes and time, with bounds of
  // them, and with them. What devices do alone has no bytes.
  PathCost free_cost(PathCost cost, const Edge& edge) const;
  PathCost least_cost(const PathCost& cost, const Edge& edge);
  PathCost exact_cost(const PathCost& cost, const Edge& edge);
  PathCost with_rest(PathCost cost, NodeNumber node);
  std::int64_t least_rest(NodeNumber node);
  bool bounds_local_times() const;
  std::int64_t least_fill();
  std::int64_t least_end(bool fills);
  bool wants_fill(const MeshState& state) const;
  std::int64_t least_bytes_left(NodeNumber node);
  std::int64_t least_bytes_of_shares(NodeNumber node);
  bool is_near_goal(const MeshState& state) const;
  bool is_relabel(const Edge& edge) const;

  Path path_to(NodeNumber node) const;
  bool is_earlier_text(const Edge& edge) const;
  std::vector<std::string> texts_of(const Path& path) const;
  BoxingStep step_of(const Edge& edge) const;
  BoxingPlan plan_of(const Path& path, const PathCost& cost);

  // A path up to its first communication, what it costs before that and at least in all.
  struct Beginning {
    Path path;
    PathCost cost, promise;
  };
  struct Found {
    Path path;
    PathCost cost;
    std::vector<std::string> texts;
    bool operator<(const Found& other) const {
      return cost != other.cost ? cost < other.cost : texts < other.texts;
    }
  };
  std::vector<Edge> communications_from(NodeNumber node);
  std::vector<Beginning> other_beginnings(const Path& chosen);
  std::optional<Found> best_after(const Beginning& beginning);

  // Nodes are states in the layers of element types, those of the source first.
  NodeNumber node_at(std::size_t layer, StateRef ref) const;
  StateRef ref_of(NodeNumber node) const;
  std::size_t layer_of(NodeNumber node) const { return node / layer_size_; }
  DType dtype_of(NodeNumber node) const { return layers_[layer_of(node)]; }
  const BoxingMesh& mesh(BoxingWhere side) const {
    return side == BoxingWhere::kTarget && target_ ? *target_ : source_;
  }
  const MeshState& state_of(NodeNumber node) const;
  bool must_cross(NodeNumber node) const {
    return target_ && ref_of(node).side == BoxingWhere::kSource;
  }
  // The node of a state beside `node`, reached by one step.
  NodeNumber beside(NodeNumber node, const MeshState& state) const;
  Change change_of(const Edge& edge) const;
  bool is_reached(NodeNumber node) const { return reached_[node] == round_; }
  bool mark_reached(NodeNumber node);

  const BoxingRequest& request_;
  WorkBudget work_;  // shared with the prices
  const bool by_time_, has_device_times_;
  BoxingMesh source_;
  std::optional<BoxingMesh> target_;  // nothing where it equals the source
  std::optional<BoxingPrices> prices_;
  std::vector<DType> layers_;
  static constexpr std::size_t kNoLayer = ~std::size_t{0};
  std::size_t reducing_layer_ = kNoLayer, goal_layer_ = 0;
  std::vector<std::size_t> dims_;
  std::optional<ReduceOp> pending_, wanted_;  // reductions of source and target
  MeshState start_, goal_;
  std::int64_t num_wanted_shares_ = 1, least_tensor_bytes_ = 0, reducing_tensor_bytes_ = 0;
  std::vector<ReduceOp> made_;  // reductions that local steps may make pending
  std::uint32_t layer_size_ = 0;
  NodeNumber start_node_ = 0, goal_node_ = 0;

  Extent extent_ = Extent::kToGoal;
  std::vector<Node> nodes_;
  std::vector<std::int64_t> rests_;  // by node; negative where not known yet
  std::optional<std::int64_t> least_fill_, least_last_local_;  // of steps of one device alone
  std::vector<Entry> queue_;                                   // a heap
  std::vector<Waiting> waiting_;                               // by node
  std::vector<std::uint32_t> reached_;
  std::uint32_t round_ = 0;
};

}  // namespace sextant
