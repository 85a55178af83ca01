// begin = max(issued, queue free, waits) + start delay; end = begin + duration, or so long after
// the last member as it was recorded. Without start delays the host issues as soon as it may, too.
#include "simulator/recordings/replay_device.h"

#include "actor/protocol/program_tables.h"
#include "core/base/check.h"
#include "simulator/steps/run_facts.h"

#include <algorithm>
#include <optional>

namespace sextant {

// Both fabrics say, the recorded one first, when all are there.
class ReplayDevice::Member {
 public:
  Member(ReplayDevice& device, std::size_t launch, Fence fence)
      : device_(device), launch_(launch), fence_(fence), recorded_(*this), replayed_(*this) {}

  Arrival& recorded() { return recorded_; }
  Arrival& replayed() { return replayed_; }

 private:
  struct Recorded final : Arrival {
    explicit Recorded(Member& of) : member(of) {}
    void completed(std::int64_t, Time all_arrived, Time) override {
      member.all_recorded_ = all_arrived;
    }
    Member& member;
  };
  struct Replayed final : Arrival {
    explicit Replayed(Member& of) : member(of) {}
    void completed(std::int64_t, Time all_arrived, Time) override { member.complete(all_arrived); }
    Member& member;
  };

  // A sender may be over before its receiver has come: that takes what it took from its begin.
  void complete(Time all_arrived) {
    ReplayDevice& device = device_;
    const std::size_t launch = launch_;
    const Fence fence = fence_;
    const RecordedLaunch& was = device.recorded_[launch];
    Launched& is = device.launched_[launch];
    is.arrived = all_arrived;
    const Time end = was.end >= all_recorded_ ? all_arrived + (was.end - all_recorded_)
                                              : is.begin + (was.end - was.begin);
    device.finish(launch, fence, end);
    device.members_.erase(launch);  // and this with it
  }

  ReplayDevice& device_;
  std::size_t launch_;
  Fence fence_;
  Recorded recorded_;
  Replayed replayed_;
  Time all_recorded_;
};

ReplayDevice::ReplayDevice(const ReplayFabrics& fabrics, std::span<const RecordedLaunch> launches,
                           bool start_delays)
    : fabrics_(fabrics), recorded_(launches), start_delays_(start_delays) {
  spec_.name = "replay";
  for (std::size_t role = 0; role < kNumQueueRoles; ++role)
    spec_.queues.push_back(static_cast<QueueRole>(role));
}

ReplayDevice::~ReplayDevice() = default;

void ReplayDevice::prepare(const PhysicalGraph& graph, Rank rank) {
  graph_ = &graph;
  rank_ = rank;
}

std::string ReplayDevice::text_of(const RecordedLaunch& recorded) const {
  return fmt::format("rank {}, step {}, {}", rank_.value, recorded.step,
                     run_to_text(*graph_, graph_->ranks[rank_].program, recorded.run));
}

ReplayDevice::Ready ReplayDevice::ready(std::span<const Launch> group) {
  const Time issued = recorded_[launched_.size()].issued;
  Ready ready{issued, start_delays_ ? issued : host_};
  const auto after = [&](const Queue& other, std::size_t sequence) {
    ready.recorded = std::max(ready.recorded, other.recorded[sequence]);
    ready.replayed = std::max(ready.replayed, other.replayed[sequence]);
  };
  for (const Launch& launch : group) {
    const Queue& own = queue(first_actor_of(*graph_, rank_, launch.run).queue);
    if (!own.recorded.empty()) after(own, own.recorded.size() - 1);
    for (const Fence& fence : launch.waits)
      after(queue(fence.queue), static_cast<std::size_t>(fence.sequence));
  }
  return ready;
}

void ReplayDevice::check(const Launch& launch, const RecordedLaunch& recorded, const Ready& ready) {
  if (recorded.begin < ready.recorded && early_.launches++ == 0)
    early_.first = fmt::format("{}: began {} before it might", text_of(recorded),
                               to_text(ready.recorded - recorded.begin));
  const std::vector<Fence> waits(launch.waits.begin(), launch.waits.end());
  if (waits != recorded.waits && waits_.launches++ == 0)
    waits_.first = fmt::format("{}: waited for {}, the actors wait for {}", text_of(recorded),
                               recorded.waits.size(), waits.size());
}

void ReplayDevice::wait(Fence fence) {
  host_ = std::max(host_, queue(fence.queue).replayed[static_cast<std::size_t>(fence.sequence)]);
}

void ReplayDevice::finish(std::size_t launch, Fence fence, Time end) {
  launched_[launch].end = end;
  queue(fence.queue).replayed[static_cast<std::size_t>(fence.sequence)] = end;
}

void ReplayDevice::meet(std::size_t launch, Fence fence, const Communication& communication) {
  Member& member =
      *members_.emplace(launch, std::make_unique<Member>(*this, launch, fence)).first->second;
  const RunId run = launched_[launch].run;
  const Time begin = launched_[launch].begin;
  fabrics_.recorded.arrive(member.recorded(), 0, rank_, run, communication,
                           recorded_[launch].begin);
  fabrics_.replayed.arrive(member.replayed(), 0, rank_, run, communication, begin);
}

void ReplayDevice::launch(std::span<const Launch> group, std::span<Fence> done) {
  const std::size_t first = launched_.size();
  const Ready when = ready(group);
  for (std::size_t i = 0; i < group.size(); ++i) {
    const RecordedLaunch& was = recorded_[first + i];
    check(group[i], was, when);
    const Duration delay =
        start_delays_ ? std::max(Duration(), was.begin - when.recorded) : Duration();
    const QueueRole role = first_actor_of(*graph_, rank_, group[i].run).queue;
    Queue& own = queue(role);
    done[i] = {role, static_cast<std::int64_t>(own.recorded.size())};
    const Time begin = when.replayed + delay, end = begin + (was.end - was.begin);
    own.recorded.push_back(was.end);
    own.replayed.push_back(end);
    launched_.push_back(
        {group[i].run, group[i].step, start_delays_ ? was.issued : host_, begin, begin, end});
  }
  for (std::size_t i = 0; i < group.size(); ++i) {
    const Actor& actor = first_actor_of(*graph_, rank_, group[i].run);
    if (actor.communication) meet(first + i, done[i], *actor.communication);
  }
}

}  // namespace sextant
