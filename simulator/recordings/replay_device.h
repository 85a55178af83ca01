// A device in virtual time that takes what a recording took. One thread drives all ranks, in the
// dry run's order (simulator/modes/step_mode.h).
#pragma once

#include "actor/protocol/device.h"
#include "simulator/modes/fabric.h"
#include "simulator/recordings/recording.h"
#include "simulator/recordings/replay.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace sextant {

// When the last member of each communication was there: as recorded, and in the replay.
struct ReplayFabrics {
  Fabric& recorded;
  Fabric& replayed;
};

class ReplayDevice final : public Device {
 public:
  struct Launched {
    RunId run;
    std::int64_t step = 0;
    Time issued, arrived, begin, end;
  };

  // `launches` of the rank in the order of issue, all of the plan; they outlive it.
  ReplayDevice(const ReplayFabrics& fabrics, std::span<const RecordedLaunch> launches,
               bool start_delays);
  ~ReplayDevice() override;

  const DeviceSpec& spec() const override { return spec_; }
  void prepare(const PhysicalGraph& graph, Rank rank) override;
  void launch(std::span<const Launch> group, std::span<Fence> done) override;
  FenceState state(Fence) override { return FenceState::kDone; }
  void wait(Fence fence) override;
  std::span<std::byte> host_view(InstanceId, std::int32_t, std::int32_t) override { return {}; }
  std::span<const Stamp> stamps() override { return {}; }

  // In the order of issue.
  const std::vector<Launched>& launched() const { return launched_; }
  const Contradiction& early() const { return early_; }
  const Contradiction& waits() const { return waits_; }

 private:
  class Member;
  // Ends of the launches of a queue, as recorded and here.
  struct Queue {
    std::vector<Time> recorded, replayed;
  };
  struct Ready {
    Time recorded, replayed;
  };

  Queue& queue(QueueRole role) { return queues_[static_cast<std::size_t>(role)]; }
  Ready ready(std::span<const Launch> group);
  void check(const Launch& launch, const RecordedLaunch& recorded, const Ready& ready);
  void finish(std::size_t launch, Fence fence, Time end);
  void meet(std::size_t launch, Fence fence, const Communication& communication);
  std::string text_of(const RecordedLaunch& recorded) const;

  ReplayFabrics fabrics_;
  std::span<const RecordedLaunch> recorded_;
  bool start_delays_;
  DeviceSpec spec_;
  const PhysicalGraph* graph_ = nullptr;
  Rank rank_;
  std::array<Queue, kNumQueueRoles> queues_;
  std::vector<Launched> launched_;
  std::map<std::size_t, std::unique_ptr<Member>> members_;  // of communications not over, by launch
  Time host_;  // without start delays: when the host has what it waited for
  Contradiction early_, waits_;
};

}  // namespace sextant
