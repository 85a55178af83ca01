// Compiles each plan once more and runs it in the order of time.
#include "cli/sections/timed_section.h"

#include "cli/console.h"
#include "compiler/expand/expand.h"
#include "simulator/costs/models.h"
#include "simulator/costs/overlap.h"
#include "simulator/modes/simulate.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>

namespace sextant {
namespace {

constexpr double kNear = 0.03;
constexpr std::size_t kMostTimed = 5;
constexpr std::int64_t kMostTimedDevices = 64;

Duration timed_step(const Job& job, const Strategy& strategy, const TimingModels& models) {
  const PhysicalGraph graph = compile(training_graph(job, strategy), strategy, job.global_batch,
                                      *models.cost, *models.network);
  SimulateOptions options;
  options.mode = SimulationMode::kTimed;
  options.overlap = overlap_shares(job.cluster);
  return simulate(graph, *models.cost, *models.network, options).step_time;
}

}  // namespace

std::vector<TimedCandidate> timed_front(const Job& job, const std::vector<Candidate>& plans,
                                        const std::function<bool()>& stop) {
  std::vector<TimedCandidate> front;
  if (job.cluster.num_devices() > kMostTimedDevices || overlap_shares(job.cluster).empty())
    return front;
  const double most_s = (1 + kNear) * to_seconds(plans.front().step_time);
  const auto is_near = [&](const Candidate& plan) { return to_seconds(plan.step_time) <= most_s; };
  if (plans.size() < 2 || !is_near(plans[1])) return front;
  const TimingModels models = make_timing_models(job.cluster, job.dtype);
  for (const Candidate& plan : plans) {
    if (!is_near(plan) || front.size() == kMostTimed) break;
    if (stop()) return {};  // some of them would say nothing of the first
    front.push_back({plan, timed_step(job, plan.strategy, models)});
  }
  std::stable_sort(
      front.begin(), front.end(),
      [](const TimedCandidate& a, const TimedCandidate& b) { return a.timed < b.timed; });
  return front;
}

void say(const std::vector<TimedCandidate>& front, Console& console) {
  if (front.empty()) return;
  TextTable table({"the nearest, with what kernels and communications do to each other", "step",
                   "--mode timed"});
  for (const TimedCandidate& one : front)
    table.add(
        {to_string(one.candidate.strategy), to_text(one.candidate.step_time), to_text(one.timed)});
  console.say(table.text());
}

nlohmann::ordered_json timed_json(const std::vector<TimedCandidate>& front) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const TimedCandidate& one : front)
    list.push_back({{"strategy", to_string(one.candidate.strategy)},
                    {"step_time_s", to_seconds(one.candidate.step_time)},
                    {"timed_step_time_s", to_seconds(one.timed)}});
  return list;
}

}  // namespace sextant
