// From the paths of the search to plans: the best one, and the ways that lost.
#include "sbp/boxing_search.h"

#include <algorithm>
#include <utility>

namespace sextant {
namespace {

// What losing ways may cost is less than what the best one may.
constexpr std::int64_t kMostAlternativesWork = std::int64_t{1} << 26;

}  // namespace

// The first and the last words are those of the request, which may say the same in another way.
BoxingPlan BoxingSearch::plan_of(const BoxingPath& path, const BoxingCost& cost) {
  BoxingPlan plan;
  plan.total_bytes = Bytes(cost.bytes);
  if (nodes_.task().by_time) plan.time = Duration(cost.objective);
  for (const BoxingEdge& edge : path) {
    plan.steps.push_back(nodes_.step_of(edge));
    if (!nodes_.task().by_time && nodes_.task().request.network != nullptr)
      plan.time += Duration(nodes_.prices().time(nodes_.change_of(edge)));
  }
  if (plan.steps.empty()) return plan;
  std::size_t first = 0, last = plan.steps.size() - 1;
  for (; first < last && plan.steps[first].kind == BoxingKind::kCast; ++first)
    plan.steps[first].from = plan.steps[first].to = nodes_.task().request.from;
  plan.steps[first].from = nodes_.task().request.from;
  for (; last > first && plan.steps[last].kind == BoxingKind::kCast; --last)
    plan.steps[last].from = plan.steps[last].to = nodes_.task().request.to;
  plan.steps[last].to = nodes_.task().request.to;
  return plan;
}

std::optional<BoxingPlan> BoxingSearch::best() {
  paths_.search(nodes_.start(), {}, CheapestPaths::Extent::kToGoal);
  if (!finds_goal()) return std::nullopt;
  return plan_of(paths_.path_to(nodes_.goal()), paths_.cost(nodes_.goal()));
}

// Those that promise most are completed first, until no other can be among the best.
std::vector<BoxingPlan> BoxingSearch::alternatives(std::size_t limit) {
  paths_.search(nodes_.start(), {}, CheapestPaths::Extent::kToGoal);
  if (!finds_goal()) return {};
  const BoxingPath chosen = paths_.path_to(nodes_.goal());
  std::vector<BoxingPlan> plans = {plan_of(chosen, paths_.cost(nodes_.goal()))};
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
std::vector<BoxingSearch::Beginning> BoxingSearch::other_beginnings(const BoxingPath& chosen) {
  const auto first = std::find_if(chosen.begin(), chosen.end(), [](const BoxingEdge& edge) {
    return is_communication(edge.kind);
  });
  paths_.search(nodes_.start(), {}, CheapestPaths::Extent::kFreeSteps);
  std::vector<Beginning> beginnings;
  for (NodeNumber node = 0; node < nodes_.size(); ++node) {
    if (!paths_.has_path(node)) continue;
    const BoxingCost& cost = paths_.cost(node);
    for (const BoxingEdge& edge : paths_.communications_from(node)) {
      if (first != chosen.end() && first->from == edge.from && first->to == edge.to) continue;
      beginnings.push_back(
          {paths_.path_to(node), cost, paths_.with_rest(least_cost(nodes_, cost, edge), edge.to)});
      beginnings.back().path.push_back(edge);
    }
  }
  std::stable_sort(beginnings.begin(), beginnings.end(),
                   [](const Beginning& a, const Beginning& b) { return a.promise < b.promise; });
  return beginnings;
}

std::optional<BoxingSearch::Found> BoxingSearch::best_after(const Beginning& beginning) {
  const BoxingEdge& first = beginning.path.back();
  paths_.search(first.to, exact_cost(nodes_, beginning.cost, first),
                CheapestPaths::Extent::kToGoal);
  if (!finds_goal()) return std::nullopt;
  Found found{beginning.path, paths_.cost(nodes_.goal()), {}};
  const BoxingPath rest = paths_.path_to(nodes_.goal());
  found.path.insert(found.path.end(), rest.begin(), rest.end());
  found.texts = texts_of(nodes_, found.path);
  return found;
}

}  // namespace sextant
