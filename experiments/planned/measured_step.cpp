// The runtime on CpuWorld, stamped where the metrics of a step arrive.
#include "experiments/planned/measured_step.h"

#include "actor/runtime.h"
#include "backends/cpu/cpu_backend.h"
#include "compiler/expand/expand.h"
#include "core/base/check.h"
#include "core/base/quantile.h"
#include "io/training_host.h"
#include "simulator/costs/models.h"

#include <algorithm>
#include <chrono>
#include <vector>

namespace sextant {

namespace {

using Clock = std::chrono::steady_clock;

PhysicalGraph compiled(const Job& job, const Strategy& strategy) {
  const TimingModels timing = make_timing_models(job.cluster, job.dtype);
  return compile(training_graph(job, strategy), strategy, job.global_batch, *timing.cost,
                 *timing.network);
}

struct Trained {
  std::vector<double> step_s;  // from the end of one step to that of the next
  Bytes moved;                 // in all steps
};

Trained trained(const PhysicalGraph& graph, std::uint64_t seed, std::int64_t steps) {
  CpuOptions options;
  options.seed = seed;
  CpuWorld world(graph, options);
  TrainingHost host(seed);
  std::vector<Clock::time_point> ends;
  host.on_step([&ends](const StepMetrics&) { ends.push_back(Clock::now()); });
  const std::vector<Device*> devices = world.devices();
  run_all(graph, devices, host, steps);
  Trained result;
  for (std::size_t step = 1; step < ends.size(); ++step)
    result.step_s.push_back(std::chrono::duration<double>(ends[step] - ends[step - 1]).count());
  for (const PairBytes& pair : world.moved_bytes()) result.moved += pair.bytes;
  return result;
}

double largest_arena(const PhysicalGraph& graph) {
  Bytes largest;
  for (const RankProgram& program : graph.programs) largest = std::max(largest, program.arena.size);
  return static_cast<double>(largest.value);
}

}  // namespace

PointResult measure_step(const PlannedStep& step, std::uint64_t seed, const MeasuredSteps& steps) {
  require(steps.warm_up >= 1 && steps.counted >= 1, ErrorCode::kUsage,
          "{} steps to warm up and {} that count, wanted one of each at least", steps.warm_up,
          steps.counted);
  const Job job = make_job(step);
  const Strategy strategy = with_words_of(job.model, parse_strategy(step.strategy));
  const PhysicalGraph graph = compiled(job, strategy);
  const std::int64_t total = steps.warm_up + steps.counted;
  Trained run = trained(graph, seed, total);
  std::vector<double> counted(run.step_s.end() - steps.counted, run.step_s.end());
  std::sort(counted.begin(), counted.end());
  const double median = quantile(counted, 0.5);
  return {
      .values = {{"step_s", median},
                 {"samples_per_s", static_cast<double>(job.global_batch) / median},
                 {"moved_bytes", static_cast<double>(run.moved.value) / static_cast<double>(total)},
                 {"arena_bytes", largest_arena(graph)}},
      .spread = (counted.back() - counted.front()) / median};
}

PointResult evaluate_planned_point(const SweepPoint& point) {
  const PlannedStep step = planned_step_from(point.parameters);
  constexpr std::uint64_t kSeed = 0;  // times do not depend on values
  return point.way == ResultWay::kMeasured ? measure_step(step, kSeed) : simulate_step(step);
}

}  // namespace sextant
