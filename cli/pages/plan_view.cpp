// One compilation, one simulation of the folded step.
#include "cli/pages/plan_view.h"

#include "core/text/counted_text.h"
#include "simulator/costs/models.h"
#include "simulator/links/flow_model.h"

#include <fmt/core.h>

#include <cstddef>
#include <utility>

namespace sextant {
namespace {

// More than a page of 1,280 pixels shows side by side.
constexpr std::size_t kPageWindows = 240;

Timeline page_timeline(const ExpandedGraph& expanded, const PlannedJob& planned) {
  return expanded.proven()
             ? simulate_timeline(*expanded.proven(), *planned.cost, *planned.network, {})
             : simulate_timeline(expanded.graph(), *planned.cost, *planned.network, {});
}

// The network that says which links a communication loads; the one that plans are compiled with
// knows times alone.
LinkUses page_links(const PhysicalGraph& graph, const Timeline& timeline, const Job& job) {
  TimingModels models = make_timing_models(job.cluster, job.dtype);
  return link_uses(graph, timeline, *make_flow_network(job.cluster, std::move(models.network)));
}

}  // namespace

std::string PlanView::title() const {
  return fmt::format("{} on {}", name_of(planned.job.model), planned.job.cluster.name);
}

Origin PlanView::counted() const {
  return {OriginKind::kCounted, fmt::format("{}, plan {}", name, plan_hash)};
}

Origin PlanView::simulated() const {
  return {OriginKind::kSimulated,
          fmt::format("{}, plan {}, cluster {}: tape mode, {} of {}", name, plan_hash,
                      planned.plan.cluster_hash, simulation.ranks_simulated,
                      sextant::counted(graph().ranks.size(), "rank"))};
}

PlanView plan_view(PlannedJob planned, const std::string& name) {
  ExpandedGraph expanded = expanded_graph(planned);
  StagedGraph staged = staged_graph(planned);
  Timeline timeline = page_timeline(expanded, planned);
  const PhysicalGraph& graph = expanded.graph();
  Simulation simulation = simulation_of(graph, *planned.cost, timeline, {});
  MemorySection memory = memory_section(expanded, timeline, kPageWindows);
  DeviceMemory tightest = device_memory(graph, planned.job.cluster);
  std::vector<OperatorUse> operators = operator_uses(graph, timeline, *planned.cost);
  std::vector<BoxingRow> boxing = boxing_rows(staged, *planned.network, *planned.cost);
  LinkUses links = page_links(graph, timeline, planned.job);
  RankUse use = rank_use(planned.plan.strategy, planned.job.cluster);
  std::string hash = text_hash(to_json_text(planned.plan));
  return {.name = name,
          .planned = std::move(planned),
          .plan_hash = std::move(hash),
          .expanded = std::move(expanded),
          .staged = std::move(staged),
          .timeline = std::move(timeline),
          .simulation = std::move(simulation),
          .memory = std::move(memory),
          .tightest = std::move(tightest),
          .operators = std::move(operators),
          .boxing = std::move(boxing),
          .links = std::move(links),
          .use = std::move(use)};
}

}  // namespace sextant
