// Wall time around each act.
#include "experiments/data_pipeline/data_times.h"

#include "core/base/check.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>

namespace sextant {
namespace {

// A batch that waits for less of the time from batch to batch has been waited for: waking up a
// thread takes some of it.
constexpr double kHardlyAny = 0.15;

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Names of the actors before an input that a chain feeds, and of the input.
std::vector<std::string> chain_of(const PhysicalGraph& graph) {
  for (const RankProgram& program : graph.programs)
    for (const Link& link : program.links) {
      const Instance& chain = program.instances[link.from];
      const Instance& reader = program.instances[link.to];
      const Block& block = graph.block_of(chain);
      if (block.phase != Phase::kData || graph.block_of(reader).actors.front().kind != "input")
        continue;
      std::vector<std::string> names;
      for (std::size_t a = 0; a < block.actors.size(); ++a)
        names.push_back(graph.actor_name(chain, static_cast<std::int32_t>(a)));
      names.push_back(graph.actor_name(reader, 0));
      return names;
    }
  return {};
}

}  // namespace

void TimedHostActors::act(const HostAct& act) {
  const double begin = seconds_now();
  host_.act(act);
  if (act.step < first_counted_ || act.actor->phase != Phase::kData) return;
  count(act, begin, seconds_now());
}

void TimedHostActors::count(const HostAct& act, double begin, double end) {
  const std::lock_guard lock(mutex_);
  Sum& sum = sums_[act.actor->name];
  ++sum.acts;
  sum.seconds += end - begin;
  begins_.emplace(act.rank, begin);
  double& last = ends_[act.rank];
  last = std::max(last, end);
  const Batch batch{act.rank, act.step, act.act};
  const bool is_stage = act.actor->kind != "input" && act.actor->kind != "metrics";
  if (is_stage) {
    made_[batch] = end;
  } else if (const auto made = made_.find(batch);
             made != made_.end() && !act.inputs.empty() && act.actor->kind == "input") {
    ++waits_.acts;
    waits_.seconds += std::max(0.0, begin - made->second);
    made_.erase(made);
  }
}

DataTimes TimedHostActors::times(const PhysicalGraph& graph) const {
  const std::lock_guard lock(mutex_);
  double time = 0;  // of all ranks
  for (const auto& [rank, begin] : begins_) time += ends_.at(rank) - begin;
  DataTimes times;
  if (time <= 0 || waits_.acts == 0) return times;
  for (const std::string& name : chain_of(graph))
    if (const auto sum = sums_.find(name); sum != sums_.end())
      times.actors.push_back({name, sum->second.seconds / static_cast<double>(sum->second.acts),
                              sum->second.seconds / time});
  times.wait = waits_.seconds / time;
  return times;
}

DataVerdict verdict_of(const DataTimes& times) {
  const std::vector<DataActorTime>& actors = times.actors;
  if (actors.empty()) return {};
  std::size_t busiest = 0;
  for (std::size_t a = 1; a < actors.size(); ++a)
    if (actors[a].busy > actors[busiest].busy) busiest = a;
  if (times.wait < kHardlyAny)
    return {busiest, fmt::format("{} limits: the step waits for samples, and it is the busiest of "
                                 "those that make them, for {:.0f} % of the time",
                                 actors[busiest].name, 100 * actors[busiest].busy)};
  return {std::nullopt,
          fmt::format("the step limits: samples wait for it for {:.0f} % of the time from batch to "
                      "batch; {}, the busiest of those that make them, is busy for {:.0f} %",
                      100 * times.wait, actors[busiest].name, 100 * actors[busiest].busy)};
}

nlohmann::ordered_json to_json(const DataTimes& times) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const DataActorTime& actor : times.actors)
    list.push_back({{"name", actor.name}, {"act_s", actor.act_s}, {"busy", actor.busy}});
  nlohmann::ordered_json limiting;
  if (const auto actor = verdict_of(times).limiting) limiting = times.actors[*actor].name;
  return {{"actors", list}, {"wait", times.wait}, {"limiting", limiting}};
}

}  // namespace sextant
