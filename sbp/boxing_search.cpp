// Dijkstra's search: a queue of nodes and of edges whose price is still a bound.
#include "sbp/boxing_search.h"

#include <algorithm>
#include <utility>

namespace sextant {
namespace {

constexpr std::int64_t kEdgeWork = 32;  // of an edge that is bounded

}  // namespace

std::vector<std::string> texts_of(const BoxingNodes& nodes, const BoxingPath& path) {
  std::vector<std::string> texts;
  for (const BoxingEdge& edge : path) texts.push_back(to_string(nodes.step_of(edge)));
  return texts;
}

BoxingCost free_cost(const BoxingNodes& nodes, BoxingCost cost, const BoxingEdge& edge) {
  switch (edge.kind) {
    case BoxingKind::kCollective:
      ++cost.communications;
      break;
    case BoxingKind::kTransfer:  // the receivers reduce what they get: a step more
      cost.communications += nodes.prices().num_shares(nodes.ref_of(edge.from)) > 1 ? 2 : 1;
      break;
    case BoxingKind::kLocal:
      ++cost.local_steps;
      break;
    case BoxingKind::kCast:
      ++cost.local_steps;
      cost.cast_elements += nodes.prices().held_elements(nodes.ref_of(edge.from));
      break;
  }
  return cost;
}

BoxingCost least_cost(BoxingNodes& nodes, const BoxingCost& cost, const BoxingEdge& edge) {
  BoxingCost least = free_cost(nodes, cost, edge);
  const Change change = nodes.change_of(edge);
  const std::int64_t bytes = nodes.prices().least_bytes(change);
  least.bytes += bytes;
  least.objective += nodes.task().by_time ? nodes.prices().least_time(change) : bytes;
  return least;
}

BoxingCost exact_cost(BoxingNodes& nodes, const BoxingCost& cost, const BoxingEdge& edge) {
  BoxingCost exact = free_cost(nodes, cost, edge);
  const Change change = nodes.change_of(edge);
  const std::int64_t bytes = is_communication(edge.kind) ? nodes.prices().bytes(change) : 0;
  exact.bytes += bytes;
  exact.objective += nodes.task().by_time ? nodes.prices().time(change) : bytes;
  return exact;
}

BoxingCost CheapestPaths::with_rest(BoxingCost cost, NodeNumber node) {
  cost.objective += rest_.least(node);
  return cost;
}

// False when a path through `node` at this cost can be neither the best to it nor to the goal.
bool CheapestPaths::may_improve(NodeNumber node, const BoxingCost& cost) {
  if (reached_[node].is_known && reached_[node].cost < cost) return false;
  if (extent_ == Extent::kFreeSteps || !reached_[nodes_.goal()].is_known) return true;
  return with_rest(cost, node) <= reached_[nodes_.goal()].cost;
}

void CheapestPaths::relax(const BoxingEdge& edge) {
  nodes_.work().spend(kEdgeWork);
  const BoxingCost& cost = reached_[edge.from].cost;
  const BoxingCost free = free_cost(nodes_, cost, edge);
  if (!may_improve(edge.to, free)) return;
  if (!is_communication(edge.kind)) return relax_priced(edge);
  const BoxingCost least = least_cost(nodes_, cost, edge);
  if (!may_improve(edge.to, least)) return;
  const bool is_exact =
      edge.kind == BoxingKind::kCollective && edge.primitive != Primitive::kAllToAll;
  if (is_exact) return reach(edge, least);
  if (edge.to == nodes_.goal()) return relax_priced(edge);
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
void CheapestPaths::queue_next(NodeNumber node) {
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
bool CheapestPaths::may_still_improve(const Entry& entry) {
  const Node &known = reached_[entry.edge.to], &goal = reached_[nodes_.goal()];
  if (known.is_known && with_rest(known.cost, entry.edge.to) < entry.estimate) return false;
  return !goal.is_known || entry.estimate <= goal.cost;
}

void CheapestPaths::relax_priced(const BoxingEdge& edge) {
  const BoxingCost cost = exact_cost(nodes_, reached_[edge.from].cost, edge);
  if (may_improve(edge.to, cost)) reach(edge, cost);
}

void CheapestPaths::reach(const BoxingEdge& edge, const BoxingCost& cost) {
  Node& node = reached_[edge.to];
  if (node.is_known && cost == node.cost && !is_earlier_text(edge)) return;
  node.cost = cost;
  node.last = edge;
  node.is_known = true;
  node.is_settled = false;  // bounds are rounded: it may have seemed the best a little too early
  push({with_rest(cost, edge.to), true, edge});
}

void CheapestPaths::push(const Entry& entry) {
  queue_.push_back(entry);
  std::push_heap(queue_.begin(), queue_.end());
}

void CheapestPaths::search(NodeNumber start, const BoxingCost& cost, Extent extent) {
  extent_ = extent;
  nodes_.work().spend(static_cast<std::int64_t>(nodes_.size()));
  reached_.assign(nodes_.size(), Node{});
  queue_.clear();
  waiting_.assign(reached_.size(), Waiting{});
  const BoxingEdge none{BoxingKind::kCast, {}, 0, start, start};
  reached_[start] = {.cost = cost, .last = none, .is_known = true};
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
    Node& node = reached_[entry.edge.to];
    if (node.is_settled) continue;
    node.is_settled = true;
    if (entry.edge.to == nodes_.goal() && extent == Extent::kToGoal) return;
    for (const BoxingEdge& edge : steps_.from(entry.edge.to, node.last))
      if (extent == Extent::kToGoal || !is_communication(edge.kind)) relax(edge);
  }
}

std::vector<BoxingEdge> CheapestPaths::communications_from(NodeNumber node) {
  std::vector<BoxingEdge> edges;
  for (const BoxingEdge& edge : steps_.from(node, reached_[node].last))
    if (is_communication(edge.kind)) edges.push_back(edge);
  return edges;
}

BoxingPath CheapestPaths::path_to(NodeNumber node) const {
  BoxingPath path;
  for (; reached_[node].last.from != node; node = reached_[node].last.from)
    path.push_back(reached_[node].last);
  std::reverse(path.begin(), path.end());
  return path;
}

bool CheapestPaths::is_earlier_text(const BoxingEdge& edge) const {
  BoxingPath candidate = path_to(edge.from);
  candidate.push_back(edge);
  return texts_of(nodes_, candidate) < texts_of(nodes_, path_to(edge.to));
}

}  // namespace sextant
