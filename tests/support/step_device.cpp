// Virtual time, launch by launch.
#include "tests/support/step_device.h"

#include "actor/runtime.h"
#include "core/base/check.h"
#include "core/costs/communication_volume.h"

#include <algorithm>

namespace sextant::testing {

void StepNetwork::arrive(StepDevice& device, Rank rank, Fence fence,
                         const Communication& communication, Time at) {
  const GroupId group = graph_.ranks[rank].groups[static_cast<std::size_t>(communication.group)];
  const std::int64_t occurrence = occurrences_[{group, rank}]++;
  auto& meeting = meetings_[{group, occurrence}];
  meeting.push_back({rank, {&device, fence, at}});
  const std::vector<Rank>& ranks = graph_.groups[group].ranks;
  if (meeting.size() < ranks.size()) return;
  std::vector<Time> arrivals(ranks.size()), done(ranks.size());
  const auto place = [&](Rank r) {
    return static_cast<std::size_t>(std::find(ranks.begin(), ranks.end(), r) - ranks.begin());
  };
  for (const auto& [member, arrival] : meeting) arrivals[place(member)] = arrival.at;
  model_.complete(collective_cost(graph_, communication, ranks), arrivals, done);
  for (const auto& [member, arrival] : meeting) {
    arrival.device->complete(arrival.fence, done[place(member)]);
  }
  meetings_.erase({group, occurrence});
}

StepDevice::StepDevice(const PhysicalGraph& graph, Rank rank, StepNetwork& network,
                       DurationOf duration, Duration launch_cost)
    : graph_(graph),
      rank_(rank),
      network_(network),
      duration_(std::move(duration)),
      launch_cost_(launch_cost),
      queues_(kNumQueueRoles) {
  spec_.name = "step";
}

QueueRole StepDevice::queue_of(RunId run) const {
  const RankProgram& program = graph_.program_of(rank_);
  const Run& entry = program.order[run];
  return graph_.block_of(program.instances[entry.instance])
      .actors[static_cast<std::size_t>(entry.first_actor)]
      .queue;
}

const Communication* StepDevice::communication_of(RunId run) const {
  const RankProgram& program = graph_.program_of(rank_);
  const Run& entry = program.order[run];
  const auto& communication = graph_.block_of(program.instances[entry.instance])
                                  .actors[static_cast<std::size_t>(entry.first_actor)]
                                  .communication;
  return communication ? &*communication : nullptr;
}

void StepDevice::launch(std::span<const Launch> group, std::span<Fence> done) {
  host_ = calls_.empty() ? host_floor_ : std::max(host_ + launch_cost_, host_floor_);
  Time begin = host_;
  const auto call = static_cast<std::int64_t>(calls_.size());
  for (const Launch& launch : group) {
    const auto& queue = queues_[static_cast<std::size_t>(queue_of(launch.run))];
    if (!queue.empty()) {
      require(queue.back().known, ErrorCode::kInternal, "a queue goes on behind an open launch");
      begin = std::max(begin, queue.back().end);
    }
    for (const Fence fence : launch.waits) {
      require(fence.queue != queue_of(launch.run), ErrorCode::kInternal, "a wait on the own queue");
      require(slice(fence).known, ErrorCode::kInternal, "a wait on an open launch");
      begin = std::max(begin, slice(fence).end);
    }
  }
  calls_.emplace_back();
  missing_.push_back(static_cast<std::int64_t>(group.size()));
  call_end_.emplace_back();
  for (std::size_t i = 0; i < group.size(); ++i) {
    const QueueRole role = queue_of(group[i].run);
    auto& queue = queues_[static_cast<std::size_t>(role)];
    done[i] = {role, static_cast<std::int64_t>(queue.size())};
    queue.push_back({group[i].run,
                     group[i].step,
                     begin,
                     begin,
                     false,
                     call,
                     {group[i].waits.begin(), group[i].waits.end()}});
    calls_.back().push_back(done[i]);
  }
  for (std::size_t i = 0; i < group.size(); ++i) {
    if (const Communication* communication = communication_of(group[i].run)) {
      network_.arrive(*this, rank_, done[i], *communication, begin);
    } else {
      complete(done[i], begin + duration_(rank_, group[i].run, group[i].step));
    }
  }
}

void StepDevice::complete(Fence fence, Time end) {
  const auto call = static_cast<std::size_t>(slice(fence).call);
  call_end_[call] = std::max(call_end_[call], end);
  if (--missing_[call] > 0) return;
  for (const Fence member : calls_[call]) {
    Slice& slice =
        queues_[static_cast<std::size_t>(member.queue)][static_cast<std::size_t>(member.sequence)];
    slice.end = call_end_[call];
    slice.known = true;
  }
}

FenceState StepDevice::state(Fence fence) {
  return slice(fence).known ? FenceState::kDone : FenceState::kPending;
}

void StepDevice::wait(Fence fence) {
  require(slice(fence).known, ErrorCode::kInternal, "the host waits for an open launch");
  host_floor_ = std::max(host_floor_, slice(fence).end);
}

const StepDevice::Slice& StepDevice::slice_of(RunId run, std::int64_t step) const {
  for (const Slice& slice : queues_[static_cast<std::size_t>(queue_of(run))]) {
    if (slice.run == run && slice.step == step) return slice;
  }
  fail(ErrorCode::kInternal, "run {} of step {} was not launched", run.value, step);
}

SteppedRun run_stepped(const PhysicalGraph& graph, StepNetwork& network, const DurationOf& duration,
                       const StepOptions& options) {
  const DryRun dry = dry_run(graph, RankScope::kAllRanks);
  IdleHostActors host;
  SteppedRun result;
  result.devices.reserve(graph.ranks.size());
  std::vector<RankRuntime> runtimes;
  for (const Rank rank : graph.ranks.keys()) {
    result.devices.emplace_back(graph, rank, network, duration, options.launch_cost);
    runtimes.emplace_back(graph, rank, result.devices.back(), host,
                          RuntimeOptions{options.window, options.run_ahead_steps});
  }
  for (std::int64_t step = 0; step < options.steps; ++step) {
    for (const Issue& issue : dry.order) runtimes[issue.rank.index()].issue_next();
    Time last;
    for (const StepDevice& device : result.devices) {
      for (std::size_t queue = 0; queue < kNumQueueRoles; ++queue) {
        const auto& slices = device.queue(static_cast<QueueRole>(queue));
        if (!slices.empty()) last = std::max(last, slices.back().end);
      }
    }
    result.step_end.push_back(last);
  }
  return result;
}

}  // namespace sextant::testing
