// Names for the entries of a tape that critical_path.h speaks of.

#include "simulator/reports/step_path.h"

#include "actor/protocol/program_tables.h"
#include "core/base/check.h"
#include "simulator/modes/prepared_graph.h"
#include "simulator/modes/tape_mode.h"

#include <algorithm>
#include <map>
#include <utility>

namespace sextant {

namespace {

std::string name_of(const PhysicalGraph& graph, const TapeEntry& entry) {
  const Run& run = graph.program_of(entry.rank).order[entry.run];
  return actors_to_text(graph, graph.ranks[entry.rank].program, run.instance, run.first_actor,
                        run.num_actors);
}

std::vector<StepPath::QueueSlack> slack_by_queue(const Tape& tape,
                                                 const std::vector<Duration>& slack) {
  std::map<std::pair<Rank, QueueRole>, StepPath::QueueSlack> queues;
  for (std::size_t e = 0; e < tape.entries.size(); ++e) {
    const TapeEntry& entry = tape.entries[e];
    const auto [found, is_new] = queues.try_emplace({entry.rank, entry.queue});
    StepPath::QueueSlack& queue = found->second;
    if (is_new) queue = {entry.rank, entry.queue, slack[e], 0, 0};
    queue.least = std::min(queue.least, slack[e]);
    ++queue.launches;
    if (slack[e] == Duration()) ++queue.without_slack;
  }
  std::vector<StepPath::QueueSlack> list;
  for (const auto& [key, queue] : queues) list.push_back(queue);
  return list;
}

}  // namespace

StepPath simulate_path(const PhysicalGraph& graph, const CostModel& cost,
                       const NetworkModel& network, const SimulateOptions& options) {
  require(options.mode != SimulationMode::kTimed, ErrorCode::kUsage,
          "no critical path in timed mode: launches delay each other without a wait between them");
  SimulateOptions by_tape = options;
  by_tape.mode = SimulationMode::kTape;  // equal to step mode
  const PreparedGraph prepared(graph, cost, network, by_tape);
  const Tape& tape = prepared.tape();
  const TapeTimes times = prepared.times(cost, network, by_tape);
  const CriticalPath path =
      critical_path(tape, times, network, cost.launch_cost(), tape_options(by_tape));
  StepPath result;
  result.steady = path.steady;
  const std::size_t steps = times.step_end.size();
  result.step_time =
      steps > 1 ? times.step_end[steps - 1] - times.step_end[steps - 2] : times.step_end.back();
  for (const PathSegment& segment : path.segments) {
    const TapeEntry& entry = tape.entries[static_cast<std::size_t>(segment.entry)];
    result.rows.push_back(
        {entry.rank, entry.queue, name_of(graph, entry), segment.part, segment.begin, segment.end});
  }
  result.slack = slack_by_queue(tape, path.slack);
  return result;
}

}  // namespace sextant
