// Calls are put together once; an act looks up its buffers of the step.
#include "actor/host_caller.h"

#include <utility>

namespace sextant {

HostCaller::HostCaller(const PhysicalGraph& graph, Rank rank, const ProgramTables& tables,
                       Device& device, HostActors& host, std::int64_t first_step)
    : graph_(&graph),
      rank_(rank),
      tables_(&tables),
      device_(&device),
      host_(&host),
      first_step_(first_step),
      actors_(graph, graph.ranks[rank].program),
      calls_(tables.sites.size()) {
  if (tables.host_sites.empty()) return;
  const OperandResolver resolver(graph, graph.ranks[rank].program);
  for (const SiteId s : tables.host_sites) {
    const Site& site = tables.sites[s];
    for (std::int32_t act = 0; act < site.acts_per_step; ++act) {
      ActorCall call = resolver.call(site.instance, site.first_actor, act);
      call.actor = &actors_.of(site.instance, *call.actor);
      calls_[s].push_back(std::move(call));
    }
  }
}

void HostCaller::call(SiteId s, std::int64_t act) {
  const Site& site = tables_->sites[s];
  const std::int64_t step_of_runtime = act / site.acts_per_step;
  const std::int64_t act_of_step = act - step_of_runtime * site.acts_per_step;
  const std::int64_t step = first_step_ + step_of_runtime;
  const ActorCall& call = calls_[s][static_cast<std::size_t>(act_of_step)];
  inputs_.clear();
  outputs_.clear();
  for (const BufferRef& in : call.in) {
    inputs_.push_back(device_->host_view_of_step(in.instance, in.reg, in.content, step));
  }
  for (const BufferRef& out : call.out) {
    outputs_.push_back(device_->host_view_of_step(out.instance, out.reg, out.content, step));
  }
  HostAct host_act;
  host_act.rank = rank_;
  host_act.graph = graph_;
  host_act.instance = &graph_->program_of(rank_).instances[site.instance];
  host_act.actor = call.actor;
  host_act.step = step;
  host_act.act = act_of_step;
  host_act.inputs = inputs_;
  host_act.outputs = outputs_;
  const std::int32_t kept = device_->spec().host_steps;
  if (kept > 1 && step_of_runtime >= kept) host_act.kept_steps = kept;
  host_->act(host_act);
}

}  // namespace sextant
