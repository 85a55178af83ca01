// Two plans, timed again and again: first over a range, then by bisection.
#include "search/search/sensitivity.h"

#include "compiler/expand/expand.h"
#include "core/base/check.h"
#include "core/base/error.h"
#include "search/bounds/node_facts.h"
#include "search/space/conditions.h"
#include "simulator/costs/models.h"
#include "simulator/modes/prepared_graph.h"
#include "simulator/reports/what_if.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace sextant {
namespace {

// A plan that is compiled once and timed in many machine rooms.
class TimedPlan {
 public:
  TimedPlan(const SearchProblem& problem, const Strategy& strategy, const TimingModels& models)
      : graph_(compile(problem.training_graph(strategy), strategy, problem.global_batch,
                       *models.cost, *models.network,
                       {.room = arena_room(*problem.cluster), .checks = false})),
        prepared_(graph_, *models.cost, *models.network) {}

  Duration step(const TimingModels& models) const {
    try {
      return prepared_.simulate(*models.cost, *models.network).step_time;
    } catch (const Error& error) {
      // Ranks that were alike are no longer, or the other way round.
      if (error.code() != ErrorCode::kUsage) throw;
      return simulate(graph_, *models.cost, *models.network).step_time;
    }
  }

 private:
  PhysicalGraph graph_;
  PreparedGraph prepared_;
};

// Away from 1, to four digits: what is printed is what was timed.
double rounded_away(double factor) {
  const double unit = std::pow(10, std::floor(std::log10(factor)) - 3);
  return (factor > 1 ? std::ceil(factor / unit) : std::floor(factor / unit)) * unit;
}

class LinkSearch {
 public:
  LinkSearch(const SearchProblem& problem, const Strategy& best, const Strategy& runner_up)
      : problem_(problem),
        now_(make_timing_models(*problem.cluster, problem.compute_dtype)),
        best_(problem, best, now_),
        runner_up_(problem, runner_up, now_) {}

  LinkChange find(const std::string& position, const NetworkLink& link, bool faster) const {
    LinkChange change{.key = "link." + position + ".bandwidth",
                      .link = link.name,
                      .faster = faster,
                      .factor = std::nullopt,
                      .bandwidth = 0,
                      .best = Duration(),
                      .runner_up = Duration()};
    const double ratio = std::pow(faster ? kMostChange : 1 / kMostChange, 1.0 / kChangesEachWay);
    for (int i = 1; i <= kChangesEachWay && !change.factor; ++i)
      if (runner_up_wins(change, std::pow(ratio, i)))
        narrow(change, std::pow(ratio, i - 1), std::pow(ratio, i));
    change.bandwidth = link.bandwidth.value * change.factor.value_or(1);
    return change;
  }

 private:
  // Leaves the steps in `change`.
  bool runner_up_wins(LinkChange& change, double factor) const {
    const TimingModels models = make_timing_models(
        changed(*problem_.cluster, {.key = change.key, .factor = factor, .quantity = ""}),
        problem_.compute_dtype);
    change.best = best_.step(models);
    change.runner_up = runner_up_.step(models);
    return change.runner_up < change.best;
  }

  // At `from` it does not win, at `to` it does.
  void narrow(LinkChange& change, double from, double to) const {
    constexpr double kClose = 1e-3;
    while (std::abs(to / from - 1) > kClose) {
      const double middle = std::sqrt(from * to);
      if (runner_up_wins(change, middle))
        to = middle;
      else
        from = middle;
    }
    change.factor = rounded_away(to);
    if (runner_up_wins(change, *change.factor)) return;
    change.factor = to;
    runner_up_wins(change, to);
  }

  const SearchProblem& problem_;
  const TimingModels now_;
  const TimedPlan best_, runner_up_;
};

struct NamedLink {
  std::string position;  // as what-if calls it
  const NetworkLink* link = nullptr;
};

std::vector<NamedLink> links_of(const Cluster& cluster) {
  std::vector<NamedLink> links;
  if (cluster.devices_per_node > 1) links.push_back({"intra_node", &cluster.intra_node});
  if (cluster.nodes > 1) links.push_back({"inter_node", &cluster.inter_node});
  for (std::size_t i = 0; i < cluster.outer_tiers.size(); ++i)
    links.push_back({fmt::format("outer{}", i + 1), &cluster.outer_tiers[i].link});
  const auto is_absent = [](const NamedLink& named) { return named.link->bandwidth.value == 0; };
  links.erase(std::remove_if(links.begin(), links.end(), is_absent), links.end());
  return links;
}

std::optional<Duration> step_with_batch(const SearchProblem& problem, const Strategy& strategy,
                                        std::int64_t global_batch, const SearchModels& models) {
  if (global_batch % (strategy.dp * strategy.micro_batch) != 0) return std::nullopt;
  try {
    const Candidate plan =
        evaluate_strategy(problem.training_graph(strategy), strategy, global_batch, models);
    if (plan.needed_memory > plan.capacity) return std::nullopt;
    return plan.step_time;
  } catch (const Error& error) {
    if (!is_refusal(error)) throw;
    return std::nullopt;
  }
}

std::vector<std::int64_t> other_batches(std::int64_t global_batch) {
  std::vector<std::int64_t> batches;
  for (const std::int64_t divisor : {4, 2})
    if (global_batch % divisor == 0) batches.push_back(global_batch / divisor);
  for (const std::int64_t factor : {2, 4}) batches.push_back(global_batch * factor);
  return batches;
}

auto mesh_and_schedule(const Strategy& strategy) {
  return std::tie(strategy.dp, strategy.tp, strategy.cp, strategy.ep, strategy.pp,
                  strategy.schedule, strategy.virtual_stages);
}

}  // namespace

std::optional<std::size_t> runner_up_of(const std::vector<Candidate>& plans) {
  for (std::size_t i = 1; i < plans.size(); ++i)
    if (mesh_and_schedule(plans[i].strategy) != mesh_and_schedule(plans[0].strategy)) return i;
  return plans.size() > 1 ? std::optional<std::size_t>(1) : std::nullopt;
}

MemoryChange memory_change(const SearchProblem& problem, const SearchResult& result) {
  const Candidate& best = result.plans.front();
  MemoryChange change{best.most_needed, std::nullopt, std::nullopt};
  for (std::size_t i = 0; i < result.plans.size() && !change.below; ++i)
    if (result.plans[i].most_needed < best.most_needed) change.below = i;
  if (!problem.cluster->other_devices.empty()) return change;
  for (const Candidate& miss : result.misses)
    if (miss.step_time < best.step_time &&
        (!change.above || miss.most_needed < change.above->most_needed))
      change.above = miss;
  return change;
}

std::optional<Sensitivity> sensitivity(const SearchProblem& problem, const SearchResult& result,
                                       const SearchLimits& limits) {
  const std::optional<std::size_t> second = runner_up_of(result.plans);
  if (!second) return std::nullopt;
  const auto is_stopped = [&limits] { return limits.stop && limits.stop(); };
  const Strategy& best = result.plans.front().strategy;
  const Strategy& runner_up = result.plans[*second].strategy;
  Sensitivity answer{*second, {}, {}};
  if (is_stopped()) return answer;
  const LinkSearch search(problem, best, runner_up);
  for (const NamedLink& named : links_of(*problem.cluster))
    for (const bool faster : {false, true}) {
      if (is_stopped()) return answer;
      answer.links.push_back(search.find(named.position, *named.link, faster));
    }
  const Cluster cluster = limited(*problem.cluster, limits.memory);
  SearchModels models = make_search_models(problem);
  models.cluster = &cluster;
  for (const std::int64_t global_batch : other_batches(problem.global_batch)) {
    if (is_stopped()) return answer;
    BatchChange change;
    change.global_batch = global_batch;
    change.best = step_with_batch(problem, best, global_batch, models);
    change.runner_up = step_with_batch(problem, runner_up, global_batch, models);
    answer.batch.push_back(change);
  }
  return answer;
}

}  // namespace sextant
