// From the paths of the search to plans: the best one, and the ways that lost.
#include "sbp/boxing_search.h"

#include <algorithm>
#include <utility>

namespace sextant {
namespace {

// What losing ways may cost is less than what the best one may.
constexpr std::int64_t kMostAlternativesWork = std::int64_t{1} << 26;

}  // namespace

BoxingSearch::Path BoxingSearch::path_to(NodeNumber node) const {
  Path path;
  for (; nodes_[node].last.from != node; node = nodes_[node].last.from)
    path.push_back(nodes_[node].last);
  std::reverse(path.begin(), path.end());
  return path;
}

std::vector<std::string> BoxingSearch::texts_of(const Path& path) const {
  std::vector<std::string> texts;
  for (const Edge& edge : path) texts.push_back(to_string(step_of(edge)));
  return texts;
}

bool BoxingSearch::is_earlier_text(const Edge& edge) const {
  Path candidate = path_to(edge.from);
  candidate.push_back(edge);
  return texts_of(candidate) < texts_of(path_to(edge.to));
}

BoxingStep BoxingSearch::step_of(const Edge& edge) const {
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

// The first and the last words are those of the request, which may say the same in another way.
BoxingPlan BoxingSearch::plan_of(const Path& path, const PathCost& cost) {
  BoxingPlan plan;
  plan.total_bytes = Bytes(cost.bytes);
  if (by_time_) plan.time = Duration(cost.objective);
  for (const Edge& edge : path) {
    plan.steps.push_back(step_of(edge));
    if (!by_time_ && request_.network != nullptr)
      plan.time += Duration(prices_->time(change_of(edge)));
  }
  if (plan.steps.empty()) return plan;
  std::size_t first = 0, last = plan.steps.size() - 1;
  for (; first < last && plan.steps[first].kind == BoxingKind::kCast; ++first)
    plan.steps[first].from = plan.steps[first].to = request_.from;
  plan.steps[first].from = request_.from;
  for (; last > first && plan.steps[last].kind == BoxingKind::kCast; --last)
    plan.steps[last].from = plan.steps[last].to = request_.to;
  plan.steps[last].to = request_.to;
  return plan;
}

std::optional<BoxingPlan> BoxingSearch::best() {
  search(start_node_, {}, Extent::kToGoal);
  if (!has_path()) return std::nullopt;
  return plan_of(path_to(goal_node_), nodes_[goal_node_].cost);
}

// Those that promise most are completed first, until no other can be among the best.
std::vector<BoxingPlan> BoxingSearch::alternatives(std::size_t limit) {
  search(start_node_, {}, Extent::kToGoal);
  if (!has_path()) return {};
  const Path chosen = path_to(goal_node_);
  std::vector<BoxingPlan> plans = {plan_of(chosen, nodes_[goal_node_].cost)};
  if (limit == 0) return plans;
  std::vector<Found> others;  // the cheapest first
  try {
    work_ = WorkBudget(kMostAlternativesWork);
    for (const Beginning& beginning : other_beginnings(chosen)) {
      if (others.size() >= limit && others.back().cost < beginning.promise) break;
      const std::optional<Found> found = best_after(beginning);
      if (!found) continue;
      others.insert(std::upper_bound(others.begin(), others.end(), *found), *found);
      if (others.size() > limit) others.pop_back();
    }
  } catch (const OutOfWork&) {  // those found so far are still ways that lost
  }
  for (const Found& other : others) plans.push_back(plan_of(other.path, other.cost));
  return plans;
}

// The first communication of every plan begins where steps without one lead.
std::vector<BoxingSearch::Beginning> BoxingSearch::other_beginnings(const Path& chosen) {
  const auto first = std::find_if(chosen.begin(), chosen.end(),
                                  [](const Edge& edge) { return is_communication(edge.kind); });
  search(start_node_, {}, Extent::kFreeSteps);
  std::vector<Beginning> beginnings;
  for (NodeNumber node = 0; node < nodes_.size(); ++node) {
    if (!nodes_[node].is_settled) continue;
    const PathCost& cost = nodes_[node].cost;
    for (const Edge& edge : communications_from(node)) {
      if (first != chosen.end() && first->from == edge.from && first->to == edge.to) continue;
      beginnings.push_back({path_to(node), cost, with_rest(least_cost(cost, edge), edge.to)});
      beginnings.back().path.push_back(edge);
    }
  }
  std::stable_sort(beginnings.begin(), beginnings.end(),
                   [](const Beginning& a, const Beginning& b) { return a.promise < b.promise; });
  return beginnings;
}

std::optional<BoxingSearch::Found> BoxingSearch::best_after(const Beginning& beginning) {
  const Edge& first = beginning.path.back();
  search(first.to, exact_cost(beginning.cost, first), Extent::kToGoal);
  if (!has_path()) return std::nullopt;
  Found found{beginning.path, nodes_[goal_node_].cost, {}};
  const Path rest = path_to(goal_node_);
  found.path.insert(found.path.end(), rest.begin(), rest.end());
  found.texts = texts_of(found.path);
  return found;
}

}  // namespace sextant
