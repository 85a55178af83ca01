// The launch thread is that of the runtime in short: announce, issue, launch, post, drain.
#include "tests/actor/host_thread_run.h"

#include "actor/host_thread.h"
#include "core/base/check.h"
#include "tests/actor/thread_scheduler.h"

#include <array>
#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sextant::testing {
namespace {

constexpr std::int64_t kStepsOfHost = 3;

// What is found first.
class Finding {
 public:
  void report(const std::string& text) {
    if (!text_) text_ = text;
  }
  const std::optional<std::string>& text() const { return text_; }

 private:
  std::optional<std::string> text_;
};

// A thread of its own ends launches, those of a queue in their order.
class TurnDevice final : public Device {
 public:
  TurnDevice(const ProgramTables& tables, std::int32_t host_steps, Finding& finding)
      : tables_(tables), finding_(finding), worker_([this] { work(); }) {
    spec_.has_memory = true;
    spec_.host_steps = host_steps;
  }
  ~TurnDevice() override {
    {
      const std::lock_guard lock(mutex_);
      is_ending_ = true;
    }
    changed_.notify_all();
    worker_.join();
  }
  TurnDevice(const TurnDevice&) = delete;
  TurnDevice& operator=(const TurnDevice&) = delete;

  const DeviceSpec& spec() const override { return spec_; }
  void prepare(const PhysicalGraph&, Rank) override {}
  void launch(std::span<const Launch> group, std::span<Fence> done) override {
    {
      const std::lock_guard lock(mutex_);
      for (std::size_t i = 0; i < group.size(); ++i) {
        const QueueRole queue = tables_.runs[group[i].run.index()].queue;
        done[i] = {queue, launched_[static_cast<std::size_t>(queue)]++};
      }
    }
    changed_.notify_all();
  }
  FenceState state(Fence) override { return FenceState::kPending; }
  void wait(Fence fence) override {
    const auto queue = static_cast<std::size_t>(fence.queue);
    if (fence.sequence < 0) return;
    std::unique_lock lock(mutex_);
    if (fence.sequence >= launched_[queue])
      return finding_.report(fmt::format("launch {} of queue {} is waited for before it is made",
                                         fence.sequence, to_string(fence.queue)));
    changed_.wait(lock, [&] { return done_[queue] > fence.sequence; });
  }
  std::span<std::byte> host_view(InstanceId, std::int32_t, std::int32_t) override { return {}; }
  std::span<const Stamp> stamps() override { return {}; }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return is_ending_ || launched_ != done_; });
      if (is_ending_) return;
      std::size_t queue = ThreadScheduler::current().draw() % kNumQueueRoles;
      while (launched_[queue] == done_[queue]) queue = (queue + 1) % kNumQueueRoles;
      ++done_[queue];
      changed_.notify_all();
    }
  }

  const ProgramTables& tables_;
  Finding& finding_;
  DeviceSpec spec_;
  ScheduledThreads::Mutex mutex_;
  ScheduledThreads::Condition changed_;
  std::array<std::int64_t, kNumQueueRoles> launched_{}, done_{};
  bool is_ending_ = false;
  ScheduledThreads::Thread worker_;
};

// Host actors that are interrupted in the middle, and act 0, 1, 2, ...
class CountedHost final : public HostActors {
 public:
  explicit CountedHost(Finding& finding) : finding_(finding) {}
  void act(const HostAct& act) override {
    std::int64_t& acts = acts_[{act.instance, act.actor->name}];
    if (act.step * act.instance->acts_per_step + act.act != acts)
      finding_.report(fmt::format("{} acts: step {}, act {} behind {} acts", act.instance->name,
                                  act.step, act.act, acts));
    ThreadScheduler::current().point();
    ++acts;
  }
  void check(const PhysicalGraph& graph, const ProgramTables& tables, ProgramId program,
             std::int64_t steps) const {
    for (const SiteId s : tables.host_sites) {
      const Site& site = tables.sites[s];
      const Instance& instance = graph.programs[program].instances[site.instance];
      const std::string& name = graph.actor_name(instance, site.first_actor);
      const auto found = acts_.find({&instance, name});
      const std::int64_t acts = found == acts_.end() ? 0 : found->second;
      if (acts != steps * site.acts_per_step)
        finding_.report(
            fmt::format("drained after step {}: {} has acted {} times", steps - 1, name, acts));
    }
  }

 private:
  Finding& finding_;
  std::map<std::pair<const Instance*, std::string>, std::int64_t> acts_;
};

// The runtime's, and what is left of it.
class SoundHost : public BasicHostThread<ScheduledThreads> {
 public:
  using BasicHostThread::BasicHostThread;
  std::optional<std::string> not_returned(const PhysicalGraph& graph, ProgramId program) {
    const std::lock_guard lock(mutex_);
    return protocol_.not_returned(graph, program);
  }
};

class HostCalledBusy : public SoundHost {
 public:
  using SoundHost::SoundHost;
  void post(std::span<const Message> messages) {
    for (const Message& message : messages) put(launch_end_, message);
    {
      const std::lock_guard lock(mutex_);
      idle_ = false;
    }
    changed_.notify_all();
  }
};

class HostToldWithoutLock : public SoundHost {
 public:
  using SoundHost::SoundHost;
  void post(std::span<const Message> messages) {
    for (const Message& message : messages) put(launch_end_, message);
    changed_.notify_all();
  }
};

class HostNotDrained : public SoundHost {
 public:
  using SoundHost::SoundHost;
  void wait_until_idle() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return (idle_ && late_reads_.empty()) || is_broken(); });
    throw_if_broken();
  }
};

class ReadsNotHeld : public SoundHost {
 public:
  using SoundHost::SoundHost;
  void hold_reads_from(std::int64_t) {}
};

// What a seed chooses.
struct Way {
  Rank rank;
  std::int32_t host_steps = 1;
  bool is_replayed = false, drains_each_step = false;
};

Way way_of(const ExploredGraph& explored, std::uint64_t seed) {
  std::vector<Rank> ranks;
  for (const Rank r : explored.graph().ranks.keys())
    if (!explored.of(r).tables->host_sites.empty()) ranks.emplace_back(r);
  require(!ranks.empty(), ErrorCode::kUsage, "{} has no host actors", explored.name());
  Way way{ranks[seed % ranks.size()]};
  std::uint64_t rest = seed / ranks.size();
  way.host_steps = rest % 3 == 0 ? 1 : 2;
  way.is_replayed = rest % 3 == 2;
  rest /= 3;
  way.drains_each_step = rest % 2 == 1;
  return way;
}

template <typename Host>
class LaunchThread {
 public:
  LaunchThread(const ExploredGraph& explored, const Way& way, Finding& finding)
      : graph_(explored.graph()),
        way_(way),
        program_(graph_.ranks[way.rank].program),
        tables_(*explored.of(way.rank).tables),
        finding_(finding),
        actors_(finding),
        device_(tables_, way.host_steps, finding),
        counters_(tables_, SiteOwner::kLaunchThread),
        host_(graph_, way.rank, tables_, device_, actors_, 0) {}

  void run() {
    try {
      for (std::int64_t step = 0; step < kStepsOfHost; ++step) {
        run_step(step);
        if (way_.drains_each_step || step + 1 == kStepsOfHost) drain(step + 1);
      }
    } catch (const Error& error) {
      finding_.report(error.what());
    }
  }
  // Whoever waits goes on.
  void stop() { host_.stop("the threads of the rank wait for ever"); }

 private:
  void run_step(std::int64_t step) {
    host_.announce(way_.drains_each_step ? step + 1 : kStepsOfHost);
    host_.wait_until_read(step - way_.host_steps + 1);
    if (way_.is_replayed) host_.hold_reads_from(step);
    const auto runs = static_cast<std::int32_t>(tables_.runs.size());
    for (std::int32_t run = 0; run < runs;) {
      issue(run, step);
      const std::int32_t members = tables_.runs[static_cast<std::size_t>(run)].group_size;
      if (!way_.is_replayed) launch(run, members, step);
      host_.post(counters_.outbox());
      counters_.clear_outbox();
      run += members;
    }
    if (!way_.is_replayed) return;
    launch(0, runs, step);
    host_.hold_reads_from(step + 1);
  }

  void issue(std::int32_t run, std::int64_t step) {
    while (const std::optional<Blocker> blocker = counters_.issue(run, step)) {
      require(blocker->owed_by_host, ErrorCode::kInternal, "{}",
              to_text(*blocker, tables_, graph_, program_));
      host_.receive(messages_);
      for (const Message& message : messages_) counters_.receive(message);
      messages_.clear();
    }
  }

  void launch(std::int32_t first, std::int32_t members, std::int64_t step) {
    std::vector<Launch> launches;
    for (std::int32_t m = 0; m < members; ++m) launches.push_back({RunId(first + m), step, {}});
    std::vector<Fence> done(launches.size());
    device_.launch(launches, done);
  }

  void drain(std::int64_t steps) {
    host_.wait_until_idle();
    actors_.check(graph_, tables_, program_, steps);
    if (const auto left = host_.not_returned(graph_, program_))
      finding_.report("drained: " + *left);
  }

  const PhysicalGraph& graph_;
  const Way way_;
  const ProgramId program_;
  const ProgramTables& tables_;
  Finding& finding_;
  CountedHost actors_;
  TurnDevice device_;
  Protocol counters_;
  std::vector<Message> messages_;
  Host host_;
};

template <typename Host>
HostThreadResult run_with(const ExploredGraph& explored, std::uint64_t seed) {
  Finding finding;
  std::function<void()> stop;
  ThreadScheduler scheduler(seed, [&] { stop(); });
  scheduler.run([&] {
    LaunchThread<Host> rank(explored, way_of(explored, seed), finding);
    stop = [&] { rank.stop(); };
    rank.run();
  });
  return {finding.text(), scheduler.turns()};
}

struct HostBug {
  PlantedBug bug;
  HostThreadResult (*run)(const ExploredGraph&, std::uint64_t);
};

constexpr HostBug kHostBugs[] = {
    {PlantedBug::kHostCalledBusy, run_with<HostCalledBusy>},
    {PlantedBug::kHostToldWithoutLock, run_with<HostToldWithoutLock>},
    {PlantedBug::kHostNotDrained, run_with<HostNotDrained>},
    {PlantedBug::kReadsNotHeld, run_with<ReadsNotHeld>},
};

}  // namespace

HostThreadResult run_host_thread(const ExploredGraph& explored, std::uint64_t seed) {
  for (const HostBug& known : kHostBugs)
    if (known.bug == explored.bug()) return known.run(explored, seed);
  return run_with<SoundHost>(explored, seed);
}

bool is_of_host_thread(PlantedBug bug) {
  for (const HostBug& known : kHostBugs)
    if (known.bug == bug) return true;
  return false;
}

}  // namespace sextant::testing
