// A device that does what another one does and notes what it was asked for; host actors likewise.
// What it notes is complete when the run is over.
#pragma once

#include "actor/protocol/device.h"
#include "core/graphs/host_actors.h"
#include "simulator/recordings/recording.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sextant {

// Since the epoch of the stamps of the devices. Any thread.
using DeviceClock = std::function<Time()>;

// `device` is prepared, keeps stamps of whole runs and outlives it. Steps are launched run by run:
// what a device issues by itself would not be seen.
class RecordingDevice final : public Device {
 public:
  RecordingDevice(Device& device, Rank rank, DeviceClock now);

  const DeviceSpec& spec() const override { return device_.spec(); }
  void prepare(const PhysicalGraph& graph, Rank rank) override { device_.prepare(graph, rank); }
  void launch(std::span<const Launch> group, std::span<Fence> done) override;
  FenceState state(Fence fence) override { return device_.state(fence); }
  void wait(Fence fence) override { device_.wait(fence); }
  std::span<std::byte> host_view(InstanceId instance, std::int32_t reg,
                                 std::int32_t content) override {
    return device_.host_view(instance, reg, content);
  }
  std::span<std::byte> host_view_of_step(InstanceId instance, std::int32_t reg,
                                         std::int32_t content, std::int64_t step) override {
    return device_.host_view_of_step(instance, reg, content, step);
  }
  void abort(const std::string& reason) override { device_.abort(reason); }
  std::span<const Stamp> stamps() override { return device_.stamps(); }

  // When every launch is over: all of them, in the order of issue.
  std::vector<RecordedLaunch> launches();

 private:
  Device& device_;
  const Rank rank_;
  const DeviceClock now_;
  std::vector<RecordedLaunch> launches_;  // without begin and end; of the launch thread
};

// `host` outlives it.
class RecordingHost final : public HostActors {
 public:
  RecordingHost(HostActors& host, DeviceClock now) : host_(host), now_(std::move(now)) {}
  void act(const HostAct& act) override;

  // By rank, then step, name and act.
  std::vector<RecordedHostAct> acts() const;

 private:
  HostActors& host_;
  const DeviceClock now_;
  mutable std::mutex mutex_;  // of acts_
  std::vector<RecordedHostAct> acts_;
};

}  // namespace sextant
