// Stamps of all processes make one profile.
#include "cli/training/run_profile.h"

#include "actor/runtime.h"
#include "cli/training/run_data.h"
#include "cli/training/run_exchange.h"
#include "cli/training/run_progress.h"
#include "simulator/recordings/stamped_steps.h"
#include "simulator/steps/communication_use.h"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <vector>

namespace sextant {
namespace {

// The part of the step that a stamp is of; for a whole run of several kinds there is no kind.
std::string kind_of_stamp(const PhysicalGraph& graph, Rank rank, const Stamp& stamp) {
  const Run& run = graph.program_of(rank).order[stamp.run];
  const Block& block = graph.block_of(graph.program_of(rank).instances[run.instance]);
  if (stamp.num_actors == 0 && run.num_actors > 1) return "";
  const std::int32_t actor = stamp.num_actors == 0 ? run.first_actor : stamp.first_actor;
  return block.actors[static_cast<std::size_t>(actor)].kind;
}

void add_times(const PhysicalGraph& graph, const std::vector<Device*>& devices, double share,
               RunRecord& record) {
  for (std::size_t rank = 0; rank < devices.size(); ++rank) {
    if (devices[rank] == nullptr) continue;
    for (const Stamp& stamp : devices[rank]->stamps()) {
      if (stamp.step == 0) continue;
      const double seconds = to_seconds(stamp.end - stamp.begin) * share;
      const std::string name =
          stamp.num_actors == 0
              ? run_name(graph, Rank(rank), stamp.run)
              : run_name(graph, Rank(rank), stamp.run, stamp.first_actor, stamp.num_actors);
      record.operator_time_s[name] += seconds;
      record.kind_time_s[kind_of_stamp(graph, Rank(rank), stamp)] += seconds;
    }
  }
}

// Of the profiled steps, as every process can tell it.
CommunicationUse measured_communication(const RunSetup& setup,
                                        const std::vector<Device*>& devices) {
  const auto steps = stamped_steps(setup.graph, gather_stamps(setup.processes, devices));
  return communication_use(setup.graph, steps,
                           [&](Rank rank, RunId run) { return run_name(setup.graph, rank, run); });
}

}  // namespace

void profile_steps(const RunSetup& setup, const SampleData* data, RunRecord& record,
                   const LastWords& keep_trained, Console& console) {
  const std::int64_t steps = setup.arguments.profile + 1;
  std::exception_ptr failure;
  try {
    std::unique_ptr<RunDevices> world = prepared_devices(setup, true, keep_trained, console);
    TrainingHost host = training_host(data, setup);
    const std::int64_t per_step = launches_per_step(setup.graph, world->devices());
    const auto work = [&] {
      const std::vector<Device*> devices = world->devices();
      run_all(setup.graph, devices, host, steps);
      const double shares =
          static_cast<double>(setup.arguments.profile) * static_cast<double>(devices.size());
      add_times(setup.graph, devices, 1.0 / shares, record);
      gather_times(setup.processes, record);
      record.communication = measured_communication(setup, devices);
    };
    const auto text = [&] {
      const auto finished = world->finished_launches();
      return "profiling" + (finished ? ": " + launches_text(*finished, per_step, steps) : "");
    };
    failure = do_watched(world, work, text, keep_trained, setup.processes, console);
  } catch (...) {
    failure = std::current_exception();
  }
  if (!failure) return;
  const bool is_stopped = setup.processes.is_interrupted();
  record.end = is_stopped ? RunEnd::kInterrupted : RunEnd::kFailed;
  if (is_stopped) return;
  keep_trained(record.end);
  std::rethrow_exception(failure);
}

}  // namespace sextant
