// The cheapest path over states: Dijkstra's search with a bound on what is left. README,
// "Planning". Internal to sbp/.
#pragma once

#include "sbp/boxing.h"
#include "sbp/boxing_nodes.h"

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sextant {

// Lexicographic: what is minimised first comes first. Every step raises one of the counts, so no
// path comes back at equal cost.
struct BoxingCost {
  std::int64_t objective = 0, bytes = 0, communications = 0, local_steps = 0, cast_elements = 0;
  auto operator<=>(const BoxingCost&) const = default;
};
using BoxingPath = std::vector<BoxingEdge>;
std::vector<std::string> texts_of(const BoxingNodes& nodes, const BoxingPath& path);

// Of a path of the given cost and one edge more; without its bytes and time, with bounds of them,
// and with them. What devices do alone has no bytes.
BoxingCost free_cost(const BoxingNodes& nodes, BoxingCost cost, const BoxingEdge& edge);
BoxingCost least_cost(BoxingNodes& nodes, const BoxingCost& cost, const BoxingEdge& edge);
BoxingCost exact_cost(BoxingNodes& nodes, const BoxingCost& cost, const BoxingEdge& edge);

// The cheapest paths from a node.
class CheapestPaths {
 public:
  explicit CheapestPaths(BoxingNodes& nodes) : nodes_(nodes), steps_(nodes), rest_(nodes) {}

  // To the goal, or over everything that is reached without communication. Forgets the search
  // before.
  enum class Extent : std::uint8_t { kToGoal, kFreeSteps };
  void search(NodeNumber start, const BoxingCost& cost, Extent extent);

  // Of the last search: whether the best path to the node is known, its cost and its edges.
  bool has_path(NodeNumber node) const { return reached_[node].is_settled; }
  const BoxingCost& cost(NodeNumber node) const { return reached_[node].cost; }
  BoxingPath path_to(NodeNumber node) const;
  // Edges from a node that communicate.
  std::vector<BoxingEdge> communications_from(NodeNumber node);
  // With the bound on what is left behind `node`.
  BoxingCost with_rest(BoxingCost cost, NodeNumber node);

 private:
  struct Node {
    BoxingCost cost;
    BoxingEdge last;  // of the path; unused at the start
    bool is_known = false, is_settled = false;
  };
  struct Entry {
    BoxingCost estimate;  // cost and the bound on what is left
    bool is_node = true;  // else an edge with a bound for a price
    BoxingEdge edge;      // its end is the node
    // The cheapest last; edges before nodes, so that a node is settled only when all are known.
    bool operator<(const Entry& other) const {
      if (estimate != other.estimate) return estimate > other.estimate;
      return is_node && !other.is_node;
    }
  };
  // Edges to one node that are no better than the one in the queue.
  struct Waiting {
    bool is_queued = false;
    BoxingCost queued;
    std::vector<Entry> entries;
  };
  void relax(const BoxingEdge& edge);
  void relax_priced(const BoxingEdge& edge);
  void reach(const BoxingEdge& edge, const BoxingCost& cost);
  void push(const Entry& entry);
  void queue_next(NodeNumber node);
  bool may_improve(NodeNumber node, const BoxingCost& cost);
  bool may_still_improve(const Entry& entry);
  bool is_earlier_text(const BoxingEdge& edge) const;

  BoxingNodes& nodes_;
  BoxingSteps steps_;
  BoxingRest rest_;
  Extent extent_ = Extent::kToGoal;
  std::vector<Node> reached_;     // by node
  std::vector<Entry> queue_;      // a heap
  std::vector<Waiting> waiting_;  // by node
};

// From paths to plans: the best one, and the ways that lost.
class BoxingSearch {
 public:
  // Borrows the request, whose words and placements are known to be good.
  explicit BoxingSearch(const BoxingRequest& request) : nodes_(request, work_), paths_(nodes_) {}

  // Both throw OutOfWork (work_budget.h) where the best plan takes too long to find; alternatives
  // that would are left out.
  std::optional<BoxingPlan> best();
  std::vector<BoxingPlan> alternatives(std::size_t limit);

 private:
  // A path up to its first communication, what it costs before that and at least in all.
  struct Beginning {
    BoxingPath path;
    BoxingCost cost, promise;
  };
  struct Found {
    BoxingPath path;
    BoxingCost cost;
    std::vector<std::string> texts;
    bool operator<(const Found& other) const {
      return cost != other.cost ? cost < other.cost : texts < other.texts;
    }
  };
  bool finds_goal() const { return paths_.has_path(nodes_.goal()); }
  BoxingPlan plan_of(const BoxingPath& path, const BoxingCost& cost);
  std::vector<Beginning> other_beginnings(const BoxingPath& chosen);
  std::optional<Found> best_after(const Beginning& beginning);

  WorkBudget work_;
  BoxingNodes nodes_;
  CheapestPaths paths_;
};

}  // namespace sextant
