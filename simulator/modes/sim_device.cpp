// Virtual time of one rank's queues and of the host thread that feeds them.

#include "simulator/modes/sim_device.h"

#include "core/base/at.h"
#include "core/base/check.h"

#include <algorithm>

namespace sextant {

namespace {

DeviceSpec spec_of_simulator() {
  DeviceSpec spec;
  spec.name = "simulator";
  for (const QueueRole queue : Range<QueueRole>::first(kNumQueueRoles))
    spec.queues.push_back(queue);
  spec.dtypes.assign(kAllDTypes.begin(), kAllDTypes.end());
  return spec;
}

}  // namespace

SimDevice::SimDevice(Fabric& fabric, const CostModel& cost, const SimDeviceOptions& options)
    : fabric_(fabric), cost_(cost), options_(options), spec_(spec_of_simulator()) {}

void SimDevice::prepare(const PhysicalGraph& graph, Rank rank) {
  rank_ = rank;
  const RankProgram& program = graph.program_of(rank);
  runs_.clear();
  for (const Run& run : program.order) {
    const Block& block = graph.block_of(program.instances[run.instance]);
    RunInfo info;
    info.queue = at(block.actors, run.first_actor).queue;
    for (std::int32_t i = 0; i < run.num_actors; ++i) {
      const Actor& actor = at(block.actors, run.first_actor + i);
      if (actor.communication)
        info.communication = &*actor.communication;
      else
        info.duration += cost_.duration_on(rank, actor.work);
    }
    runs_.push_back(info);
  }
}

// Where in its queues a launch is found again; queues are fewer than sixteen.
std::int64_t SimDevice::ticket_of(Fence fence) {
  return fence.sequence * 16 + static_cast<std::int64_t>(fence.queue);
}

Fence SimDevice::fence_of(std::int64_t ticket) {
  return {static_cast<QueueRole>(ticket % 16), ticket / 16};
}

void SimDevice::launch(std::span<const Launch> group, std::span<Fence> done) {
  const Time begin = enqueue(group, done);
  // Completions of this and other devices come back from here, so no lock is held.
  for (std::size_t i = 0; i < group.size(); ++i)
    if (const auto* communication = runs_[group[i].run.index()].communication)
      fabric_.arrive(*this, ticket_of(done[i]), rank_, group[i].run, *communication, begin);
}

Time SimDevice::enqueue(std::span<const Launch> group, std::span<Fence> done) {
  std::unique_lock lock(mutex_);
  const Time issued = host_.launch(cost_.launch_cost());
  const Time begin = earliest_begin(group, issued, lock);
  OpenGroup open;
  for (std::size_t i = 0; i < group.size(); ++i) {
    const RunInfo& info = runs_[group[i].run.index()];
    auto& queue = queues_[info.queue];
    done[i] = {info.queue, static_cast<std::int64_t>(queue.size())};
    SimLaunch launch{group[i].run, group[i].step, issued, begin, begin, begin, false, num_groups_};
    if (info.communication == nullptr) {
      launch.end = begin + duration_of(group[i]);
      launch.done = true;
    } else {
      open.fences.push_back(done[i]);
    }
    queue.push_back(launch);
  }
  open.missing = open.fences.size();
  if (open.missing > 0) open_groups_.emplace(num_groups_++, std::move(open));
  return begin;
}

void SimDevice::completed(std::int64_t ticket, Time all_arrived, Time end) {
  {
    const std::lock_guard lock(mutex_);
    SimLaunch& launch = launch_of(fence_of(ticket));
    launch.arrived = all_arrived;
    const auto open = open_groups_.find(launch.open_group);
    open->second.end = std::max(open->second.end, end);
    if (--open->second.missing > 0) return;
    for (const Fence fence : open->second.fences) {
      launch_of(fence).end = open->second.end;
      launch_of(fence).done = true;
    }
    open_groups_.erase(open);
  }
  over_.notify_all();
}

Time SimDevice::earliest_begin(std::span<const Launch> group, Time issued,
                               std::unique_lock<std::mutex>& lock) {
  Time begin = issued;
  for (const Launch& launch : group) {
    const QueueRole queue = runs_[launch.run.index()].queue;
    const auto length = static_cast<std::int64_t>(queues_[queue].size());
    if (length > 0) begin = std::max(begin, end_of({queue, length - 1}, lock));
    for (const Fence fence : launch.waits) begin = std::max(begin, end_of(fence, lock));
  }
  return begin;
}

Time SimDevice::end_of(Fence fence, std::unique_lock<std::mutex>& lock) {
  require(options_.thread_per_rank || is_done(fence) || !aborted_.empty(), ErrorCode::kInternal,
          "rank {} needs the end of a communication that its peers have not reached", rank_.value);
  over_.wait(lock, [&] { return is_done(fence) || !aborted_.empty(); });
  require(aborted_.empty(), ErrorCode::kRankFailed, "rank {}: {}", rank_.value, aborted_);
  return launch_of(fence).end;
}

bool SimDevice::is_done(Fence fence) const {
  const auto& queue = queues_[fence.queue];
  return fence.sequence < static_cast<std::int64_t>(queue.size()) && launch_of(fence).done;
}

SimLaunch& SimDevice::launch_of(Fence fence) { return queues_[fence.queue][at(fence.sequence)]; }

const SimLaunch& SimDevice::launch_of(Fence fence) const {
  return queues_[fence.queue][at(fence.sequence)];
}

// Done as the host sees it: the launch thread polls at the time of its last launch.
FenceState SimDevice::state(Fence fence) {
  const std::lock_guard lock(mutex_);
  if (!aborted_.empty()) return FenceState::kFailed;
  if (!is_done(fence) || launch_of(fence).end > host_.now()) return FenceState::kPending;
  return FenceState::kDone;
}

void SimDevice::wait(Fence fence) {
  std::unique_lock lock(mutex_);
  host_.wait_for(end_of(fence, lock));
}

void SimDevice::abort(const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    aborted_ = reason;
  }
  over_.notify_all();
}

std::span<const Stamp> SimDevice::stamps() {
  stamps_.clear();
  for (const SimLaunch& launch : launches())
    stamps_.push_back({launch.run, launch.step, launch.begin, launch.end});
  return stamps_;
}

std::vector<SimLaunch> SimDevice::launches() const {
  const std::lock_guard lock(mutex_);
  std::vector<SimLaunch> all;
  for (const auto& queue : queues_) all.insert(all.end(), queue.begin(), queue.end());
  return all;
}

Duration SimDevice::duration_of(const Launch& launch) const {
  return jittered(runs_[launch.run.index()].duration, options_.jitter, options_.seed, rank_,
                  launch.run, launch.step);
}

}  // namespace sextant
