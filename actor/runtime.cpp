// The launch loop of one rank, and all ranks of one process.
#include "actor/runtime.h"

#include "actor/host_caller.h"
#include "actor/host_thread.h"
#include "actor/hosts/rank_threads.h"
#include "actor/protocol/dry_run.h"
#include "actor/protocol/mix.h"
#include "actor/protocol/protocol.h"
#include "actor/protocol/proven_graph.h"
#include "actor/tapes/tape.h"
#include "core/base/check.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>

namespace sextant {
namespace {

// The steps before it are launched run by run: libraries load their code, the tape's waits exist.
constexpr std::int64_t kFirstReplayedStep = 2;

std::uint64_t key_of(const Run& run) {
  std::uint64_t key = 0;
  for (const std::int32_t part :
       {run.instance.value, run.first_actor, run.num_actors, run.act, run.launch_group.value}) {
    mix(key, static_cast<std::uint64_t>(part));
  }
  return key;
}

// The unfinished launches of one queue, as a count and the oldest that must be done.
struct QueueWindow {
  std::int64_t launched = 0;
  std::int32_t tail_unit = 0;       // within the step
  std::int64_t tail_first_run = 0;  // sequence of the first run of the tail's step
  std::int64_t known_done = -1;     // largest sequence waited for
};

}  // namespace

struct RankRuntime::Impl {
  Impl(const PhysicalGraph& g, Rank r, std::shared_ptr<const ProgramTables> t, Device& d,
       HostActors& host, const RuntimeOptions& o)
      : graph(g),
        rank(r),
        program(g.ranks[r].program),
        tables(std::move(t)),
        device(d),
        options(o),
        has_host(!tables->host_sites.empty()),
        protocol(*tables,
                 has_host && d.spec().has_memory ? SiteOwner::kLaunchThread : SiteOwner::kAll) {
    require(o.window >= 1 && o.run_ahead_steps >= 1, ErrorCode::kUsage,
            "a window of {} launches and {} steps: both must be at least 1", o.window,
            o.run_ahead_steps);
    const auto members = static_cast<std::size_t>(tables->max_group_size);
    launches.resize(members);
    done.resize(members);
    if (o.keeps_hash)
      for (const Run& run : graph.programs[program].order) keys.push_back(key_of(run));
    if (!has_host) return;
    messages.reserve(2 * static_cast<std::size_t>(tables->num_channel_fences));
    if (device.spec().has_memory) {
      host_thread.emplace(graph, rank, *tables, device, host, o.first_step);
    } else {
      inline_host.emplace(graph, rank, *tables, device, host, o.first_step);
    }
  }

  std::int32_t issue_next();
  std::int32_t issue_run();
  std::int32_t issue_replay();
  void find_replay();
  void issue_protocol();
  void note_issued(std::int32_t members);
  void begin_step();
  void announce(std::int64_t steps);
  void take_messages();
  void act_inline();
  void wait_for_window(std::int32_t members);
  void wait_for(QueueRole queue, std::int64_t sequence);
  void launch(std::int32_t members);
  void drain();
  [[noreturn]] void rethrow_at(const Error& error) const;

  const PhysicalGraph& graph;
  Rank rank;
  ProgramId program;
  std::shared_ptr<const ProgramTables> tables;
  Device& device;
  RuntimeOptions options;
  bool has_host;
  Protocol protocol;
  std::optional<HostThread> host_thread;
  std::optional<HostCaller> inline_host;

  std::int32_t next = 0;
  std::int64_t step = 0;
  std::int64_t announced = 0;
  std::vector<Launch> launches;
  std::vector<Fence> done;
  std::vector<Message> messages;
  std::vector<Fence> host_waits;
  std::unique_ptr<Replay> replay;
  std::vector<std::uint64_t> keys;  // by run, where they are hashed
  FixedTable<QueueRole, QueueWindow, kNumQueueRoles> windows;
  FixedTable<QueueRole, std::uint64_t, kNumQueueRoles> hashes;

  std::atomic<bool> stopped{false};
  std::mutex stop_mutex;
  std::string stop_reason;
};

// Run-ahead is at most `run_ahead_steps` steps: this one and those before it that are unfinished.
void RankRuntime::Impl::begin_step() {
  announce(step + 1);
  if (host_thread) host_thread->wait_until_read(step - device.spec().host_steps + 1);
  const std::int64_t finished = step - options.run_ahead_steps + 1;  // steps that must be done
  if (finished <= 0) return;
  for (const QueueRole queue : tables->runs_per_step.keys()) {
    const std::int64_t runs = tables->runs_per_step[queue];
    if (runs > 0) wait_for(queue, finished * runs - 1);
  }
}

void RankRuntime::Impl::announce(std::int64_t steps) {
  if (steps <= announced) return;
  announced = steps;
  if (host_thread) host_thread->announce(steps);
  if (inline_host) act_inline();
}

void RankRuntime::Impl::take_messages() {
  host_thread->receive(messages);
  for (const Message& message : messages) protocol.receive(message);
  messages.clear();
}

// No device time passes here: a device without memory has nothing to wait for.
void RankRuntime::Impl::act_inline() {
  for (bool acted = true; acted;) {
    acted = false;
    for (const SiteId site : tables->host_sites) {
      const std::int64_t last = announced * tables->sites[site].acts_per_step;
      while (protocol.acts_of(site) < last && protocol.host_act_enabled(site)) {
        const std::int64_t act = protocol.acts_of(site);
        host_waits.clear();
        protocol.begin_host_act(site, host_waits);
        inline_host->call(site, act);
        protocol.finish_host_act(site);
        acted = true;
      }
    }
  }
}

void RankRuntime::Impl::wait_for(QueueRole queue, std::int64_t sequence) {
  QueueWindow& window = windows[queue];
  if (sequence <= window.known_done) return;
  device.wait({queue, sequence});
  window.known_done = sequence;
}

// A launch group counts once on each of its queues.
void RankRuntime::Impl::wait_for_window(std::int32_t members) {
  for (std::int32_t m = 0; m < members; ++m) {
    const RunEntry& entry = tables->runs[static_cast<std::size_t>(next + m)];
    const QueueRole queue = entry.queue;
    QueueWindow& window = windows[queue];
    const std::int64_t unit = step * tables->units_per_step[queue] + entry.unit;
    if (unit < window.launched) continue;
    if (window.launched++ < options.window) continue;
    wait_for(queue, window.tail_first_run + at(tables->last_of_unit[queue], window.tail_unit));
    if (++window.tail_unit == tables->units_per_step[queue]) {
      window.tail_unit = 0;
      window.tail_first_run += tables->runs_per_step[queue];
    }
  }
}

void RankRuntime::Impl::launch(std::int32_t members) {
  for (std::int32_t m = 0; m < members; ++m) {
    launches[static_cast<std::size_t>(m)] = {RunId(next + m), options.first_step + step,
                                             protocol.waits(m)};
  }
  const auto count = static_cast<std::size_t>(members);
  device.launch(std::span(launches).first(count), std::span(done).first(count));
  for (std::int32_t m = 0; m < members; ++m) {
    const Fence fence = protocol.fence_of(next + m, step);
    const Fence got = done[static_cast<std::size_t>(m)];
    if (got != fence)
      fail(ErrorCode::kInternal, "the device returned fence {}.{}, not {}.{}", to_string(got.queue),
           got.sequence, to_string(fence.queue), fence.sequence);
  }
  note_issued(members);
}

void RankRuntime::Impl::note_issued(std::int32_t members) {
  if (!options.keeps_hash) return;
  for (std::int32_t run = next; run < next + members; ++run) {
    const auto index = static_cast<std::size_t>(run);
    std::uint64_t& hash = hashes[tables->runs[index].queue];
    mix(hash, keys[index]);
    mix(hash, static_cast<std::uint64_t>(step));
  }
}

// Until the next run of the order may be launched.
void RankRuntime::Impl::issue_protocol() {
  while (const std::optional<Blocker> blocker = protocol.issue(next, step)) {
    // The order is total and the dry run passed: only a host actor can owe something.
    if (!blocker->owed_by_host || !host_thread)
      fail(ErrorCode::kInternal, "protocol error: {}", to_text(*blocker, *tables, graph, program));
    take_messages();
  }
}

std::int32_t RankRuntime::Impl::issue_next() {
  if (stopped.load(std::memory_order_relaxed)) {
    const std::lock_guard lock(stop_mutex);
    throw Error(ErrorCode::kRankFailed, stop_reason);
  }
  if (next == 0) begin_step();
  if (tables->runs.empty()) {  // an empty stage
    ++step;
    return 0;
  }
  if (next == 0 && step == kFirstReplayedStep) find_replay();
  return replay ? issue_replay() : issue_run();
}

std::int32_t RankRuntime::Impl::issue_run() {
  issue_protocol();
  const std::int32_t members = tables->runs[static_cast<std::size_t>(next)].group_size;
  wait_for_window(members);
  launch(members);
  if (!protocol.outbox().empty()) {
    host_thread->post(protocol.outbox());
    protocol.clear_outbox();
  }
  if (inline_host && protocol.take_host_touched()) act_inline();
  next += members;
  if (static_cast<std::size_t>(next) == tables->runs.size()) {
    next = 0;
    ++step;
  }
  return members;
}

// Loaders and readers of a step must go on before it is launched: neither may wait for its fences.
void RankRuntime::Impl::find_replay() {
  if (!options.replay || !device.spec().capture || inline_host) return;
  if (host_thread && device.spec().host_steps <= 1) return;
  const ProvenGraph proven(graph);
  replay = device.capture(record(proven, proven.classes()));
}

// Credits, messages and hashes are those of single launches; what the messages' fences stand for
// comes behind them.
std::int32_t RankRuntime::Impl::issue_replay() {
  const auto runs = static_cast<std::int32_t>(tables->runs.size());
  if (host_thread) host_thread->hold_reads_from(step);
  while (next < runs) {
    issue_protocol();
    const std::int32_t members = tables->runs[static_cast<std::size_t>(next)].group_size;
    note_issued(members);
    if (!protocol.outbox().empty()) {
      host_thread->post(protocol.outbox());
      protocol.clear_outbox();
    }
    next += members;
  }
  replay->launch(options.first_step + step);
  next = 0;
  ++step;
  if (host_thread) host_thread->hold_reads_from(step);
  return runs;
}

void RankRuntime::Impl::drain() {
  if (host_thread && next == 0) {
    host_thread->wait_until_idle();
  }
  for (std::size_t r = 0; r < tables->runs.size(); ++r) {
    const RunEntry& entry = tables->runs[r];
    if (entry.position + 1 != tables->runs_per_step[entry.queue]) continue;
    // The last run of the queue in the order: of this step if issued already.
    std::int64_t issued = step * tables->runs_per_step[entry.queue];
    for (std::size_t before = 0; before < static_cast<std::size_t>(next); ++before) {
      if (tables->runs[before].queue == entry.queue) ++issued;
    }
    if (issued > 0) wait_for(entry.queue, issued - 1);
  }
}

// The device works behind the host, which notices at a later run, often of the next step: what
// failed stands first, and says itself where.
void RankRuntime::Impl::rethrow_at(const Error& error) const {
  const std::string place = static_cast<std::size_t>(next) < tables->runs.size()
                                ? run_to_text(graph, program, RunId(next))
                                : std::string("end of step");
  throw Error(error.code(),
              fmt::format("{} (noticed by rank {}, step {}, {})", error.what(), rank.value,
                          options.first_step + step, place),
              error.hints());
}

RankRuntime::RankRuntime(const PhysicalGraph& graph, Rank rank,
                         std::shared_ptr<const ProgramTables> tables, Device& device,
                         HostActors& host, const RuntimeOptions& options)
    : impl_(std::make_unique<Impl>(graph, rank, std::move(tables), device, host, options)) {}

RankRuntime::RankRuntime(const PhysicalGraph& graph, Rank rank, Device& device, HostActors& host,
                         const RuntimeOptions& options)
    : RankRuntime(graph, rank,
                  std::make_shared<const ProgramTables>(graph, graph.ranks[rank].program), device,
                  host, options) {}

RankRuntime::~RankRuntime() = default;
RankRuntime::RankRuntime(RankRuntime&&) noexcept = default;

std::int32_t RankRuntime::issue_next() {
  try {
    return impl_->issue_next();
  } catch (const Error& error) {
    impl_->rethrow_at(error);
  }
}

std::int64_t RankRuntime::step() const { return impl_->step; }
RunId RankRuntime::next_run() const { return RunId(impl_->next); }

void RankRuntime::run(std::int64_t steps) {
  const std::int64_t end = impl_->step + steps;
  impl_->announce(end);
  while (impl_->step < end) issue_next();
}

void RankRuntime::drain() {
  try {
    impl_->drain();
  } catch (const Error& error) {
    impl_->rethrow_at(error);
  }
}

void RankRuntime::stop(const std::string& reason) {
  {
    const std::lock_guard lock(impl_->stop_mutex);
    if (impl_->stop_reason.empty()) impl_->stop_reason = reason;
  }
  impl_->stopped.store(true);
  if (impl_->host_thread) impl_->host_thread->stop(reason);
}

const Protocol& RankRuntime::protocol() const { return impl_->protocol; }

RouteCounts RankRuntime::routes() const {
  RouteCounts routes;
  if (impl_->host_thread) routes = impl_->host_thread->routes();
  routes.of(Route::kSameThread) += impl_->protocol.direct_messages();
  return routes;
}

IssueHash RankRuntime::hash() const {
  return {{impl_->hashes.begin(), impl_->hashes.end()}, impl_->protocol.message_hash()};
}

namespace {

void abort_all(std::span<Device* const> devices, const std::string& reason) {
  for (Device* device : devices)
    if (device != nullptr) device->abort(reason);
}

std::vector<std::size_t> ranks_here(std::span<Device* const> devices) {
  std::vector<std::size_t> ranks;
  for (std::size_t rank = 0; rank < devices.size(); ++rank)
    if (devices[rank] != nullptr) ranks.push_back(rank);
  return ranks;
}

void require_all_ranks(const PhysicalGraph& graph, std::span<Device* const> devices) {
  require(devices.size() == graph.ranks.size(), ErrorCode::kUsage,
          "{} devices for a graph of {} ranks", devices.size(), graph.ranks.size());
}

}  // namespace

void prepare_all(const PhysicalGraph& graph, std::span<Device* const> devices) {
  require_all_ranks(graph, devices);
  on_rank_threads(
      devices.size(), [&](std::size_t rank) { devices[rank]->prepare(graph, Rank(rank)); },
      [&](const std::string& reason) { abort_all(devices, reason); });
}

namespace {

// Runs and drains the rank, with stops at the boundaries.
void run_rank(RankRuntime& runtime, Rank rank, Device& device, std::int64_t steps,
              std::int64_t first_step, StepBoundaries* boundaries) {
  const std::int64_t end = first_step + steps;
  for (std::int64_t done = first_step; boundaries != nullptr && done < end;) {
    const std::int64_t stop = std::min(boundaries->next(done), end);
    runtime.run(stop - done);
    runtime.drain();
    boundaries->at(rank, device, stop);
    done = stop;
  }
  if (boundaries == nullptr) runtime.run(steps);
  runtime.drain();
}

}  // namespace

std::vector<IssueHash> run_all(const PhysicalGraph& graph, std::span<Device* const> devices,
                               HostActors& host, std::int64_t steps, const RuntimeOptions& options,
                               StepBoundaries* boundaries) {
  require_all_ranks(graph, devices);
  const std::vector<std::size_t> here = ranks_here(devices);
  const GraphTables tables(graph);
  std::vector<RankRuntime> runtimes;
  runtimes.reserve(here.size());
  for (const std::size_t rank : here)
    runtimes.emplace_back(graph, Rank(rank), tables.of(graph.ranks[Rank(rank)].program),
                          *devices[rank], host, options);
  on_rank_threads(
      here.size(),
      [&](std::size_t index) {
        run_rank(runtimes[index], Rank(here[index]), *devices[here[index]], steps,
                 options.first_step, boundaries);
      },
      [&](const std::string& reason) {
        for (RankRuntime& runtime : runtimes) runtime.stop(reason);
        abort_all(devices, reason);
      });
  std::vector<IssueHash> hashes(devices.size());
  for (std::size_t index = 0; index < here.size(); ++index)
    hashes[here[index]] = runtimes[index].hash();
  return hashes;
}

}  // namespace sextant
