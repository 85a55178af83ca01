// Wall time around each act.
#include "experiments/data_pipeline/data_times.h"

#include "core/base/check.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>

namespace sextant {
namespace {

constexpr double kNoTimeLeft = 0.9;  // busy for so much of the time

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Names of the actors before an input that a chain feeds, and of the input.
std::vector<std::string> chain_of(const PhysicalGraph& graph) {
  for (const RankProgram& program : graph.programs)
    for (const Link& link : program.links) {
      const Instance& chain = program.instances[link.from.index()];
      const Instance& reader = program.instances[link.to.index()];
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

void DataTimes::act(const HostAct& act) {
  const double begin = seconds_now();
  host_.act(act);
  if (act.step < first_counted_ || act.actor->phase != Phase::kData) return;
  const double end = seconds_now();
  const std::lock_guard lock(mutex_);
  Sum& sum = sums_[act.actor->name];
  ++sum.acts;
  sum.seconds += end - begin;
  begins_.emplace(act.rank, begin);
  double& last = ends_[act.rank];
  last = std::max(last, end);
}

std::vector<DataActorTime> DataTimes::actors(const PhysicalGraph& graph) const {
  const std::lock_guard lock(mutex_);
  double time = 0;  // of all ranks
  for (const auto& [rank, begin] : begins_) time += ends_.at(rank) - begin;
  std::vector<DataActorTime> actors;
  if (time <= 0) return actors;
  for (const std::string& name : chain_of(graph))
    if (const auto sum = sums_.find(name); sum != sums_.end())
      actors.push_back({name, sum->second.seconds / static_cast<double>(sum->second.acts),
                        sum->second.seconds / time});
  return actors;
}

DataVerdict verdict_of(const std::vector<DataActorTime>& actors, std::int64_t num_registers) {
  if (actors.empty()) return {};
  std::size_t slowest = 0;
  for (std::size_t a = 1; a < actors.size(); ++a)
    if (actors[a].busy > actors[slowest].busy) slowest = a;
  const auto percent = [](double share) { return fmt::format("{:.0f} %", 100 * share); };
  if (actors[slowest].busy >= kNoTimeLeft)
    return {slowest, fmt::format("{} limits: it was busy for {} of the time", actors[slowest].name,
                                 percent(actors[slowest].busy))};
  for (std::size_t a = 0; num_registers == 1 && a + 1 < actors.size(); ++a) {
    const double both = actors[a].busy + actors[a + 1].busy;
    if (both < kNoTimeLeft) continue;
    return {actors[a].busy >= actors[a + 1].busy ? a : a + 1,
            fmt::format("{} and {} limit: with one register they take turns, {} of the time",
                        actors[a].name, actors[a + 1].name, percent(both))};
  }
  return {std::nullopt,
          fmt::format("the step limits: {}, the slowest of them, was busy for {} of the "
                      "time",
                      actors[slowest].name, percent(actors[slowest].busy))};
}

nlohmann::ordered_json to_json(const std::vector<DataActorTime>& actors,
                               const DataVerdict& verdict) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const DataActorTime& actor : actors)
    list.push_back({{"name", actor.name}, {"act_s", actor.act_s}, {"busy", actor.busy}});
  nlohmann::ordered_json limiting;
  if (verdict.limiting) limiting = actors[*verdict.limiting].name;
  return {{"actors", list}, {"limiting", limiting}};
}

}  // namespace sextant
