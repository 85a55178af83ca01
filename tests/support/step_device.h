// A device for tests whose fences are virtual times, with one queue per role. Slow and obvious: the
// tape, and the simulator's own device, are held against it.
#pragma once

#include "actor/protocol/device.h"
#include "actor/protocol/dry_run.h"
#include "core/costs/cost_model.h"
#include "core/graphs/physical_graph.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace sextant::testing {

class StepDevice;

// Matches communications by (group, occurrence), all members present, and times them.
class StepNetwork {
 public:
  StepNetwork(const PhysicalGraph& graph, const NetworkModel& model)
      : graph_(graph), model_(model) {}
  void arrive(StepDevice& device, Rank rank, Fence fence, const Communication& communication,
              Time at);

 private:
  struct Arrival {
    StepDevice* device = nullptr;
    Fence fence;
    Time at;
  };
  const PhysicalGraph& graph_;
  const NetworkModel& model_;
  std::map<std::pair<GroupId, Rank>, std::int64_t> occurrences_;
  std::map<std::pair<GroupId, std::int64_t>, std::vector<std::pair<Rank, Arrival>>> meetings_;
};

using DurationOf = std::function<Duration(Rank, RunId, std::int64_t step)>;

class StepDevice final : public Device {
 public:
  StepDevice(const PhysicalGraph& graph, Rank rank, StepNetwork& network, DurationOf duration,
             Duration launch_cost = Duration(0));

  const DeviceSpec& spec() const override { return spec_; }
  void prepare(const PhysicalGraph&, Rank) override {}
  void launch(std::span<const Launch> group, std::span<Fence> done) override;
  FenceState state(Fence fence) override;
  void wait(Fence fence) override;
  std::span<std::byte> host_view(InstanceId, std::int32_t, std::int32_t) override { return {}; }
  std::span<const Stamp> stamps() override { return {}; }

  struct Slice {
    RunId run;
    std::int64_t step = 0;
    Time begin, end;
    bool known = false;     // end is final
    std::int64_t call = 0;  // launches of one call begin and end together
    std::vector<Fence> waits;
  };
  const Slice& slice(Fence fence) const {
    return queues_[static_cast<std::size_t>(fence.queue)][static_cast<std::size_t>(fence.sequence)];
  }
  const std::vector<Slice>& queue(QueueRole role) const {
    return queues_[static_cast<std::size_t>(role)];
  }
  // Of one run in one step.
  const Slice& slice_of(RunId run, std::int64_t step) const;

 private:
  friend class StepNetwork;
  void complete(Fence fence, Time end);
  QueueRole queue_of(RunId run) const;
  const Communication* communication_of(RunId run) const;

  const PhysicalGraph& graph_;
  Rank rank_;
  StepNetwork& network_;
  DurationOf duration_;
  Duration launch_cost_;
  DeviceSpec spec_;
  std::vector<std::vector<Slice>> queues_;
  std::vector<std::vector<Fence>> calls_;  // members of each launch call
  std::vector<std::int64_t> missing_;      // members of a call that are not complete
  std::vector<Time> call_end_;
  Time host_, host_floor_;
};

// All ranks of a graph in step mode, driven in the dry run's global order.
struct SteppedRun {
  std::vector<StepDevice> devices;  // by rank
  std::vector<Time> step_end;
};
struct StepOptions {
  std::int64_t steps = 3;
  std::int64_t window = 256;
  std::int64_t run_ahead_steps = 2;
  Duration launch_cost{0};
};
SteppedRun run_stepped(const PhysicalGraph& graph, StepNetwork& network, const DurationOf& duration,
                       const StepOptions& options = {});

}  // namespace sextant::testing
