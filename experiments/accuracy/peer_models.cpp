// Sums over programs and timelines.
#include "experiments/accuracy/peer_models.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace sextant {
namespace {

const Actor& first_actor(const PhysicalGraph& graph, const RankProgram& program, const Run& run) {
  const Instance& instance = program.instances[run.instance];
  return graph.block_of(instance).actors[static_cast<std::size_t>(run.first_actor)];
}

bool is_in_pass(Phase phase) {
  return phase == Phase::kForward || phase == Phase::kRecompute || phase == Phase::kInputGrad ||
         phase == Phase::kWeightGrad;
}

}  // namespace

std::set<const Communication*> once_per_step(const PhysicalGraph& graph) {
  std::set<const Communication*> found;
  for (const Block& block : graph.blocks)
    for (const Actor& actor : block.actors)
      if (actor.communication && actor.phase == Phase::kOptimizer)
        found.insert(&*actor.communication);
  return found;
}

std::set<const Communication*> tensor_sums(const PhysicalGraph& graph) {
  std::set<const Communication*> found;
  for (const Block& block : graph.blocks)
    for (const Actor& actor : block.actors) {
      if (!actor.communication || !is_in_pass(actor.phase)) continue;
      const Primitive primitive = actor.communication->primitive;
      if (primitive == Primitive::kAllReduce || primitive == Primitive::kAllGather ||
          primitive == Primitive::kReduceScatter)
        found.insert(&*actor.communication);
    }
  return found;
}

void WithFree::complete(const CollectiveCost& cost, std::span<const Time> arrivals,
                        std::span<Time> done) const {
  if (!free_.contains(cost.communication)) return base_.complete(cost, arrivals, done);
  if (arrivals.empty()) return;
  std::fill(done.begin(), done.end(), *std::max_element(arrivals.begin(), arrivals.end()));
}

Duration WithFlat::duration(const CollectiveCost& cost) const {
  if (!parts_.contains(cost.communication)) return base_.duration(cost);
  CollectiveCost flat = cost;
  Communication sum = *cost.communication;
  if (sums_whole_ && sum.primitive == Primitive::kReduceScatter) {
    sum.primitive = Primitive::kAllReduce;
    flat.communication = &sum;
  }
  const Duration whole = base_.duration(flat);
  CollectiveCost empty = flat;
  empty.global_bytes = empty.largest_volume = Bytes(0);
  return std::max(whole - base_.duration(empty), Duration());
}

void WithFlat::complete(const CollectiveCost& cost, std::span<const Time> arrivals,
                        std::span<Time> done) const {
  if (!parts_.contains(cost.communication)) return base_.complete(cost, arrivals, done);
  if (arrivals.empty()) return;
  std::fill(done.begin(), done.end(),
            *std::max_element(arrivals.begin(), arrivals.end()) + duration(cost));
}

namespace {

// How long one of these is under way. Members of a bucket arrive and end together: their time
// counts once.
Duration covered(std::vector<std::pair<Time, Time>> intervals) {
  std::sort(intervals.begin(), intervals.end());
  Duration sum;
  Time until;
  for (const auto& [begin, end] : intervals) {
    if (end <= until) continue;
    sum += end - std::max(begin, until);
    until = end;
  }
  return sum;
}

}  // namespace

Duration busiest(const PhysicalGraph& graph, const Timeline& timeline,
                 const std::set<const Communication*>& communications) {
  Duration most;
  for (const RankTimeline& rank : timeline.ranks) {
    const RankProgram& program = graph.program_of(rank.rank);
    std::vector<std::pair<Time, Time>> intervals;
    for (const TimedRun& timed : rank.runs) {
      const Actor& actor = first_actor(graph, program, program.order[timed.run]);
      if (actor.communication && communications.contains(&*actor.communication))
        intervals.emplace_back(timed.arrived, timed.end);
    }
    most = std::max(most, covered(std::move(intervals)));
  }
  return most;
}

std::int64_t updates_per_step(const PhysicalGraph& graph) {
  std::int64_t most = 0;
  for (const RankProgram& program : graph.programs) {
    std::int64_t updates = 0;
    for (const Run& run : program.order) {
      const Block& block = graph.block_of(program.instances[run.instance]);
      for (std::int32_t a = 0; a < run.num_actors; ++a)
        updates += block.actors[static_cast<std::size_t>(run.first_actor + a)].kind == "adamw";
    }
    most = std::max(most, updates);
  }
  return most;
}

double operators_per_run(const PhysicalGraph& graph) {
  double operators = 0, runs = 0;
  for (const RankProgram& program : graph.programs)
    for (const Run& run : program.order) {
      if (is_in_pass(first_actor(graph, program, run).phase)) operators += run.num_actors;
      ++runs;
    }
  return runs > 0 ? operators / runs : 1;
}

double host_slowdown(const PhysicalGraph& graph, const CostModel& cost, double launch_s) {
  double together = 0, kernels = 0;
  for (const RankProgram& program : graph.programs) {
    double host = 0, device = 0;
    std::pair<std::int32_t, bool> act{-1, false};
    for (const Run& run : program.order) {
      const Block& block = graph.block_of(program.instances[run.instance]);
      const Actor& first = block.actors[static_cast<std::size_t>(run.first_actor)];
      if (first.queue != QueueRole::kCompute || !is_in_pass(first.phase)) continue;
      const std::pair now{run.act, first.phase != Phase::kForward};
      if (now != act) host = device = std::max(host, device);
      act = now;
      for (std::int32_t a = 0; a < run.num_actors; ++a) {
        const Work& work = block.actors[static_cast<std::size_t>(run.first_actor + a)].work;
        const double seconds = to_seconds(cost.duration(work));
        if (seconds == 0) continue;  // a view
        host += launch_s;
        device = std::max(device, host) + seconds;
        kernels += seconds;
      }
    }
    together += std::max(host, device);
  }
  return kernels > 0 ? std::max(1.0, together / kernels) : 1;
}

}  // namespace sextant
