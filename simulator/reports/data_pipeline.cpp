// The recurrence of begins and ends over the contents of each actor.
#include "simulator/reports/data_pipeline.h"

#include "core/base/check.h"

#include <algorithm>
#include <utility>

namespace sextant {
namespace {

// Long enough that what the empty pipeline hides at the begin is over at the middle: contents on
// their way are no more than actors times registers.
constexpr std::size_t kSteps = 2'048;

struct Ends {
  std::vector<std::vector<Time>> begin, end;  // by actor, content
  std::vector<Time> step;                     // begins
};

Time end_of(const std::vector<Time>& ends, std::size_t content) {
  return content < ends.size() ? ends[content] : Time(0);
}

Ends evaluate(const DataPipeline& pipeline, const StepReads& step) {
  const std::size_t count = pipeline.actors.size();
  const auto registers = static_cast<std::size_t>(pipeline.num_registers);
  Ends ends;
  ends.begin.resize(count);
  ends.end.resize(count);
  for (std::size_t k = 0; k < kSteps; ++k) {
    for (std::size_t a = 0; a < count; ++a) {
      Time begin = k > 0 ? ends.end[a][k - 1] : Time(0);
      if (a > 0) begin = std::max(begin, ends.end[a - 1][k]);
      const bool delivers = a + 1 == count;
      const std::size_t own = delivers ? 1 : registers;
      if (k >= own)
        begin = std::max(
            begin, delivers ? ends.step[k - 1] + step.last_read : end_of(ends.end[a + 1], k - own));
      ends.begin[a].push_back(begin);
      ends.end[a].push_back(begin + pipeline.actors[a].per_step);
    }
    const Time data = count > 0 ? ends.end.back()[k] - step.first_read : Time(0);
    const Time free = k > 0 ? ends.step[k - 1] + step.length : Time(0);
    ends.step.push_back(std::max(free, data));
  }
  return ends;
}

Duration period_of(const Ends& ends) {
  const std::size_t half = kSteps / 2;
  const Duration passed = ends.step[kSteps - 1] - ends.step[half - 1];
  return Duration(passed.value / static_cast<std::int64_t>(half));
}

// Without an actor: the one that gains most, if any does.
std::optional<std::size_t> limiting_actor(const DataPipeline& pipeline, const StepReads& step,
                                          Duration period) {
  std::optional<std::size_t> limiting;
  Duration best = period;
  for (std::size_t a = 0; a < pipeline.actors.size(); ++a) {
    DataPipeline without = pipeline;
    without.actors[a].per_step = Duration(0);
    const Duration left = period_of(evaluate(without, step));
    if (left >= best) continue;
    best = left;
    limiting = a;
  }
  return limiting;
}

bool reads_actor(const Run& run, InstanceId instance, const std::vector<std::int32_t>& readers) {
  return run.instance == instance &&
         std::any_of(readers.begin(), readers.end(), [&](std::int32_t actor) {
           return actor >= run.first_actor && actor < run.first_actor + run.num_actors;
         });
}

// The instance that delivers the input.
std::optional<InstanceId> instance_of(const PhysicalGraph& graph, const RankProgram& program,
                                      std::string_view input) {
  for (const InstanceId i : program.instances.keys()) {
    const Block& block = graph.block_of(program.instances[i]);
    for (std::size_t a = 0; a < block.actors.size(); ++a)
      if (block.actors[a].kind == "input" &&
          graph.actor_name(program.instances[i], static_cast<std::int32_t>(a)) == input)
        return i;
  }
  return std::nullopt;
}

}  // namespace

DataSchedule schedule_data(const DataPipeline& pipeline, const StepReads& step) {
  require(pipeline.num_registers >= 1, ErrorCode::kUsage,
          "{} registers of data actors, wanted 1 or more", pipeline.num_registers);
  const Ends ends = evaluate(pipeline, step);
  DataSchedule schedule;
  schedule.step = period_of(ends);
  for (const DataActorCost& actor : pipeline.actors)
    schedule.busy.push_back(
        schedule.step > Duration(0) ? to_seconds(actor.per_step) / to_seconds(schedule.step) : 0.0);
  if (schedule.step > step.length)
    schedule.limiting = limiting_actor(pipeline, step, schedule.step);
  const Time begin = ends.step[kSteps / 2], end = ends.step[kSteps / 2 + 1];
  for (std::size_t a = 0; a < pipeline.actors.size(); ++a)
    for (std::size_t k = 0; k < kSteps; ++k)
      if (ends.end[a][k] > begin && ends.begin[a][k] < end)
        schedule.acts.push_back(
            {a, std::max(ends.begin[a][k], begin) - begin, std::min(ends.end[a][k], end) - begin});
  return schedule;
}

std::optional<StepReads> reads_of(const PhysicalGraph& graph, const Timeline& timeline,
                                  std::string_view input, Duration step) {
  for (const RankTimeline& rank : timeline.ranks) {
    const RankProgram& program = graph.program_of(rank.rank);
    const std::optional<InstanceId> from = instance_of(graph, program, input);
    if (!from || rank.runs.empty()) continue;
    Time begin = rank.runs.front().begin;
    for (const TimedRun& timed : rank.runs) begin = std::min(begin, timed.begin);
    std::optional<StepReads> found;
    for (const Link& link : program.links) {
      if (link.from != *from) continue;
      const Block& block = graph.block_of(program.instances[link.to]);
      const auto& readers = block.ports[static_cast<std::size_t>(link.to_port)].readers;
      for (const TimedRun& timed : rank.runs) {
        if (!reads_actor(program.order[timed.run], link.to, readers)) continue;
        if (!found) found = StepReads{step, timed.begin - begin, timed.end - begin};
        found->first_read = std::min(found->first_read, timed.begin - begin);
        found->last_read = std::max(found->last_read, timed.end - begin);
      }
    }
    return found.value_or(StepReads{step, Duration(0), step});
  }
  return std::nullopt;
}

}  // namespace sextant
