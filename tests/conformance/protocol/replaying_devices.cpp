// Devices around devices: launches go through, host buffers are their own.
#include "tests/conformance/protocol/replaying_devices.h"

#include "actor/calls/host_copies.h"
#include "actor/protocol/program_tables.h"
#include "actor/tapes/tape.h"
#include "core/base/check.h"

#include <cstring>
#include <map>
#include <mutex>
#include <utility>

namespace sextant::testing {
namespace {

class ReplayingDevice final : public Device {
 public:
  ReplayingDevice(Device& inner, const PhysicalGraph& graph, Rank rank,
                  const ReplayingOptions& options)
      : inner_(inner),
        graph_(graph),
        program_(graph.ranks[rank].program),
        tables_(graph, graph.ranks[rank].program),
        copies_(host_copies(graph, rank)),
        spec_(inner.spec()),
        replays_(options.replays) {
    spec_.capture = options.capture;
    spec_.host_steps = options.host_steps;
    for (const HostBuffer& buffer : copies_.buffers)
      for (std::int32_t turn = 0; turn < options.host_steps; ++turn)
        host_[{turn, key_of(buffer)}].resize(static_cast<std::size_t>(buffer.size.value));
  }

  const DeviceSpec& spec() const override { return spec_; }
  void prepare(const PhysicalGraph&, Rank) override {}
  void launch(std::span<const Launch> group, std::span<Fence> done) override {
    for (const Launch& launch : group) copy(launch, copies_.runs[launch.run.index()].in, true);
    inner_.launch(group, done);
    for (const Launch& launch : group) copy(launch, copies_.runs[launch.run.index()].out, false);
  }
  FenceState state(Fence fence) override { return inner_.state(fence); }
  void wait(Fence fence) override { inner_.wait(fence); }
  std::unique_ptr<Replay> capture(const Tape& tape) override;
  std::span<std::byte> host_view(InstanceId instance, std::int32_t reg,
                                 std::int32_t content) override {
    return inner_.host_view(instance, reg, content);
  }
  std::span<std::byte> host_view_of_step(InstanceId instance, std::int32_t reg,
                                         std::int32_t content, std::int64_t step) override {
    return host_.at({static_cast<std::int32_t>(step % spec_.host_steps), {instance, reg, content}});
  }
  void abort(const std::string& reason) override { inner_.abort(reason); }
  std::span<const Stamp> stamps() override { return inner_.stamps(); }

  const ProgramTables& tables() const { return tables_; }
  // Entries that stand for this device's rank: a representative's with its program.
  std::vector<const TapeEntry*> entries_of(const Tape& tape) const {
    std::vector<const TapeEntry*> entries;
    for (const TapeEntry& entry : tape.entries)
      if (graph_.ranks[entry.rank].program == program_ &&
          (entries.empty() || entry.place == entries.front()->place))
        entries.push_back(&entry);
    return entries;
  }

 private:
  using Key = std::tuple<InstanceId, std::int32_t, std::int32_t>;
  static Key key_of(const HostBuffer& buffer) {
    return {buffer.instance, buffer.reg, buffer.content};
  }

  void copy(const Launch& launch, const std::vector<std::int32_t>& buffers, bool in) {
    for (const std::int32_t index : buffers) {
      const HostBuffer& buffer = copies_.buffers[static_cast<std::size_t>(index)];
      const auto bytes = inner_.host_view(buffer.instance, buffer.reg, buffer.content);
      const auto host = host_view_of_step(buffer.instance, buffer.reg, buffer.content, launch.step);
      require_equal(host.size(), bytes.size());
      if (in)
        std::memcpy(bytes.data(), host.data(), bytes.size());
      else
        std::memcpy(host.data(), bytes.data(), bytes.size());
    }
  }
  static void require_equal(std::size_t host, std::size_t arena) {
    require(host == arena, ErrorCode::kInternal, "{} bytes on the host for {} in the arena", host,
            arena);
  }

  Device& inner_;
  const PhysicalGraph& graph_;
  const ProgramId program_;
  const ProgramTables tables_;
  const HostCopies copies_;
  DeviceSpec spec_;
  std::atomic<std::int64_t>* const replays_;
  std::map<std::pair<std::int32_t, Key>, std::vector<std::byte>> host_;
};

class TapeReplay final : public Replay {
 public:
  TapeReplay(ReplayingDevice& device, const Tape& tape, std::atomic<std::int64_t>* replays)
      : device_(device), replays_(replays) {
    for (const TapeEntry* entry : device.entries_of(tape)) {
      const bool joins = entry->launch_group >= 0 && !groups_.empty() &&
                         groups_.back().launch_group == entry->launch_group;
      if (!joins) groups_.push_back({entry->launch_group, {}, {}});
      groups_.back().runs.push_back(entry->run);
      std::vector<RunId>& waits = groups_.back().waits.emplace_back();
      for (std::int32_t w = 0; w < entry->num_waits; ++w) {
        const TapeWait& wait = tape.waits[static_cast<std::size_t>(entry->first_wait + w)];
        if (wait.lag == 0) waits.push_back(tape.entries[static_cast<std::size_t>(wait.entry)].run);
      }
    }
  }

  void launch(std::int64_t step) override {
    if (replays_ != nullptr) ++*replays_;
    for (const Group& group : groups_) {
      std::vector<std::vector<Fence>> waits(group.runs.size());
      std::vector<Launch> launches;
      for (std::size_t i = 0; i < group.runs.size(); ++i) {
        for (const RunId run : group.waits[i]) waits[i].push_back(fence_of(run, step));
        launches.push_back({group.runs[i], step, waits[i]});
      }
      std::vector<Fence> done(launches.size());
      device_.launch(launches, done);
      for (std::size_t i = 0; i < done.size(); ++i)
        require(done[i] == fence_of(group.runs[i], step), ErrorCode::kInternal,
                "a replay has another fence than single launches");
    }
  }

 private:
  struct Group {
    std::int32_t launch_group = -1;
    std::vector<RunId> runs;
    std::vector<std::vector<RunId>> waits;  // by run
  };
  Fence fence_of(RunId run, std::int64_t step) const {
    return {device_.tables().runs[run.index()].queue,
            device_.tables().sequence_of(run.value, step)};
  }

  ReplayingDevice& device_;
  std::atomic<std::int64_t>* const replays_;
  std::vector<Group> groups_;
};

std::unique_ptr<Replay> ReplayingDevice::capture(const Tape& tape) {
  return std::make_unique<TapeReplay>(*this, tape, replays_);
}

class ReplayingSet final : public DeviceSet {
 public:
  ReplayingSet(std::unique_ptr<DeviceSet> inner, const PhysicalGraph& graph,
               const ReplayingOptions& options)
      : inner_(std::move(inner)) {
    const std::vector<Device*> devices = inner_->devices();
    for (std::size_t rank = 0; rank < devices.size(); ++rank)
      devices_.push_back(
          std::make_unique<ReplayingDevice>(*devices[rank], graph, Rank(rank), options));
  }
  std::vector<Device*> devices() override {
    std::vector<Device*> devices;
    for (const auto& device : devices_) devices.push_back(device.get());
    return devices;
  }

 private:
  const std::unique_ptr<DeviceSet> inner_;
  std::vector<std::unique_ptr<ReplayingDevice>> devices_;
};

}  // namespace

DeviceFactory replaying_devices(const DeviceFactory& factory, const ReplayingOptions& options) {
  return [factory, options](const PhysicalGraph& graph) -> std::unique_ptr<DeviceSet> {
    return std::make_unique<ReplayingSet>(factory(graph), graph, options);
  };
}

}  // namespace sextant::testing
