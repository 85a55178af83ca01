// Launches to actors, actors to operators.

#include "simulator/reports/operator_use.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace sextant {

namespace {

class OperatorAccount {
 public:
  OperatorAccount(const PhysicalGraph& graph, const CostModel& cost) : graph_(graph), cost_(cost) {}

  void add(const RankTimeline& rank, const TimedRun& timed) {
    const RankProgram& program = graph_.program_of(rank.rank);
    const Run& run = program.order[timed.run];
    const Instance& instance = program.instances[run.instance];
    const Block& block = graph_.block_of(instance);
    std::vector<NamedActor> actors;
    for (std::int32_t a = run.first_actor; a < run.first_actor + run.num_actors; ++a)
      actors.push_back({block.actors[static_cast<std::size_t>(a)], graph_.actor_name(instance, a)});
    if (actors.front().actor.communication) {
      OperatorUse& use = use_of(actors.front(), rank.ranks);
      use.time += (timed.end - timed.arrived) * rank.ranks;
      use.waiting += (timed.arrived - timed.begin) * rank.ranks;
      return;
    }
    share_out(rank, actors, timed.end - timed.begin);
  }

  std::vector<OperatorUse> take() {
    std::vector<OperatorUse> all;
    for (auto& [key, use] : uses_) all.push_back(std::move(use));
    std::stable_sort(all.begin(), all.end(),
                     [](const OperatorUse& a, const OperatorUse& b) { return a.time > b.time; });
    return all;
  }

 private:
  // As the instance that acts calls it.
  struct NamedActor {
    const Actor& actor;
    const std::string& name;
  };

  OperatorUse& use_of(const NamedActor& named, std::int64_t ranks) {
    const auto& [actor, name] = named;
    const auto [place, is_new] = uses_.try_emplace({name, actor.kind, actor.phase});
    OperatorUse& use = place->second;
    if (is_new) use = {name, actor.kind, actor.queue, actor.phase, 0, {}, {}, 0, {}};
    use.acts += ranks;
    use.flops += actor.work.flops * static_cast<Flops>(ranks);
    use.bytes += (actor.work.read + actor.work.written) * ranks;
    return use;
  }

  // The last gets what is left: a launch that was slowed or jittered is longer than its kernels.
  void share_out(const RankTimeline& rank, std::span<const NamedActor> actors, Duration length) {
    Duration alone;
    for (const NamedActor& one : actors) alone += cost_.duration_on(rank.rank, one.actor.work);
    const double stretch =
        alone.value > 0 ? static_cast<double>(length.value) / static_cast<double>(alone.value) : 0;
    Duration left = length;
    for (std::size_t i = 0; i < actors.size(); ++i) {
      Duration part = left;
      if (i + 1 < actors.size()) {
        const Duration own = cost_.duration_on(rank.rank, actors[i].actor.work);
        part = std::min(left, alone == length ? own
                                              : Duration(static_cast<std::int64_t>(
                                                    static_cast<double>(own.value) * stretch)));
      }
      use_of(actors[i], rank.ranks).time += part * rank.ranks;
      left -= part;
    }
  }

  const PhysicalGraph& graph_;
  const CostModel& cost_;
  std::map<std::tuple<std::string, std::string, Phase>, OperatorUse> uses_;
};

}  // namespace

std::vector<OperatorUse> operator_uses(const PhysicalGraph& graph, const Timeline& timeline,
                                       const CostModel& cost) {
  OperatorAccount account(graph, cost);
  for (const RankTimeline& rank : timeline.ranks)
    for (const TimedRun& run : rank.runs) account.add(rank, run);
  return account.take();
}

}  // namespace sextant
