// Sums over the issue orders of programs.
#include "experiments/accuracy/kernel_seconds.h"

#include "core/graphs/kernel_names.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sextant {
namespace {

std::string kind_of(const Actor& actor) {
  if (actor.phase == Phase::kOptimizer) return "optimizer";
  if (actor.kind.starts_with("attention")) return "attention";
  return std::string(kernel_family(actor.work.kernel));
}

std::map<std::string, double> seconds_of(const PhysicalGraph& graph, const RankProgram& program,
                                         const CostModel& cost) {
  std::map<std::string, double> seconds;
  for (const Run& run : program.order) {
    const Block& block = graph.block_of(program.instances[run.instance]);
    for (std::int32_t a = 0; a < run.num_actors; ++a) {
      const Actor& actor = block.actors[static_cast<std::size_t>(run.first_actor + a)];
      if (actor.communication || actor.work.kernel == kNoKernel) continue;
      seconds[kind_of(actor)] += to_seconds(cost.duration(actor.work));
    }
  }
  return seconds;
}

}  // namespace

std::map<std::string, double> kernel_seconds(const PhysicalGraph& graph, const CostModel& cost) {
  std::vector<double> ranks(graph.programs.size());
  for (const RankBinding& rank : graph.ranks) ++ranks[rank.program.index()];
  std::map<std::string, double> mean;
  for (const ProgramId i : graph.programs.keys())
    for (const auto& [kind, seconds] : seconds_of(graph, graph.programs[i], cost))
      mean[kind] += seconds * ranks[i.index()] / static_cast<double>(graph.ranks.size());
  return mean;
}

}  // namespace sextant
