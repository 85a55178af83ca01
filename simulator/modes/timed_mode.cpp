// Classes, demands and shares for the evaluation, and a timeline from what it says.

#include "simulator/modes/timed_mode.h"

#include "core/base/check.h"
#include "simulator/links/link_classes.h"
#include "simulator/modes/group_colours.h"
#include "simulator/modes/tape_mode.h"
#include "simulator/modes/timed_evaluation.h"

#include <map>
#include <utility>

namespace sextant {

namespace {

// Ranks that differ in what kernels and communications do to each other differ.
std::vector<std::int32_t> with_overlap(std::span<const std::int32_t> colours,
                                       std::span<const OverlapShares> overlap) {
  std::vector<std::int32_t> result(colours.begin(), colours.end());
  if (overlap.empty()) return result;
  std::map<std::pair<std::int32_t, OverlapShares>, std::int32_t> numbers;
  for (std::size_t rank = 0; rank < result.size(); ++rank) {
    const auto next = static_cast<std::int32_t>(numbers.size());
    result[rank] = numbers.try_emplace({result[rank], overlap[rank]}, next).first->second;
  }
  return result;
}

LinkClasses classes_of(const PhysicalGraph& graph, const GroupMembers& members,
                       std::span<const std::int32_t> rank_colours, bool folds,
                       const NetworkModel& network, const SimulateOptions& options) {
  if (!folds) return {all_ranks(graph), {}, {}};
  const std::vector<std::int32_t> groups = group_colours(graph, members, network);
  return link_classes(graph, members, network, with_overlap(rank_colours, options.overlap), groups,
                      member_order(network));
}

std::vector<OverlapShares> by_place(const Tape& tape, std::span<const OverlapShares> overlap) {
  std::vector<OverlapShares> shares;
  if (overlap.empty()) return shares;
  for (const Rank rank : tape.ranks) shares.push_back(overlap[rank.index()]);
  return shares;
}

}  // namespace

MemberOrder member_order(const NetworkModel& network) {
  return network.completes_together() ? MemberOrder::kAlike : MemberOrder::kDistinct;
}

Timeline run_timed_mode(const ProvenGraph& proven, std::span<const std::int32_t> rank_colours,
                        bool folds, const CostModel& cost, const NetworkModel& network,
                        const SimulateOptions& options) {
  const PhysicalGraph& graph = proven.graph();
  require(options.overlap.empty() || options.overlap.size() >= graph.ranks.size(),
          ErrorCode::kUsage, "overlap shares of {} ranks, the graph has {}", options.overlap.size(),
          graph.ranks.size());
  const LinkClasses classes =
      classes_of(graph, proven.members(), rank_colours, folds, network, options);
  const Tape tape = record(proven, classes.ranks);
  const LinkDemands demands = link_demands(graph, tape, network, folds ? &classes : nullptr);
  const TimedTimes timed =
      evaluate_timed(tape, entry_durations(tape, graph, cost), cost, network, demands,
                     by_place(tape, options.overlap), tape_options(options),
                     tape_options(options).run_ahead_steps);
  return timeline_of(graph, tape, timed.times, classes.ranks, options);
}

}  // namespace sextant
