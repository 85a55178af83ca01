// Queues are worker threads (or the launch thread itself, inline) under one mutex per rank. A
// failure stops the rank: nothing begins any more, every fence that is not done is failed.
#include "backends/cpu/cpu_device.h"

#include "core/base/check.h"
#include "core/base/counter_rng.h"

#include <algorithm>
#include <cstdlib>

namespace sextant {
namespace {

using Clock = std::chrono::steady_clock;

Duration since(Clock::time_point epoch, Clock::time_point time) {
  return Duration(std::chrono::duration_cast<std::chrono::nanoseconds>(time - epoch).count() *
                  1000);
}

std::vector<QueueRole> device_queues() {
  std::vector<QueueRole> roles;
  for (std::size_t role = 0; role < kNumQueueRoles; ++role)
    if (static_cast<QueueRole>(role) != QueueRole::kHost)
      roles.push_back(static_cast<QueueRole>(role));
  return roles;
}

}  // namespace

CpuDevice::CpuDevice(const CpuShared& shared) : shared_(shared), team_(shared.threads) {
  for (Queue& queue : queues_) queue.workspace = Workspace(&team_);
  spec_.name = "cpu";
  spec_.queues = device_queues();
  spec_.dtypes.assign(kAllDTypes.begin(), kAllDTypes.end());
  spec_.has_memory = true;
}

CpuDevice::~CpuDevice() { stop(); }

bool CpuDevice::is_inline() const { return shared_.options.queues == CpuQueueKind::kInline; }

void CpuDevice::prepare(const PhysicalGraph& graph, Rank rank) {
  resolve(graph, rank);
  start();
}

Bytes CpuDevice::memory_needed() const { return arena_ + program_->beside_arena(); }

void CpuDevice::resolve(const PhysicalGraph& graph, Rank rank) {
  require(program_ == nullptr, ErrorCode::kUsage, "rank {} was prepared twice", rank_.value);
  rank_ = rank;
  const bool poison = shared_.options.queues == CpuQueueKind::kStress;
  program_ = std::make_unique<PreparedProgram>(graph, rank, shared_.kernels, shared_.options.seed,
                                               poison, shared_.blocks, shared_.threads);
  if (shared_.options.measure_memory) {
    require(is_inline(), ErrorCode::kUsage,
            "memory is measured where one run comes after the other: on inline queues");
    meter_ = std::make_unique<MemoryMeter>(graph, rank,
                                           OperandResolver(graph, graph.ranks[rank].program));
  }
  arena_ = graph.program_of(rank).arena.size;
}

void CpuDevice::start() {
  program_->fill();
  for (const QueueRole role : spec_.queues)
    queue(role).workspace.reserve(program_->workspace(role));
  if (!is_inline()) start_workers();
}

MemoryUse CpuDevice::memory_use() const {
  require(meter_ != nullptr, ErrorCode::kUsage, "rank {}: memory was not measured", rank_.value);
  return meter_->use();
}

void CpuDevice::meter_begin(RunId run, std::size_t call) {
  if (meter_ != nullptr) meter_->begin(run, call);
}
void CpuDevice::meter_end(RunId run, std::size_t call) {
  if (meter_ != nullptr) meter_->end(run, call);
}

void CpuDevice::start_workers() {
  for (const QueueRole role : spec_.queues)
    if (program_->uses(role)) queue(role).worker = ReusedThread([this, role] { work(role); });
}

void CpuDevice::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    for (Queue& queue : queues_) {
      queue.arrived.notify_all();
      queue.completed.notify_all();
    }
    group_changed_.notify_all();
  }
  for (Queue& queue : queues_) queue.worker.join();
}

void CpuDevice::work(QueueRole role) {
  Queue& own = queue(role);
  while (true) {
    std::unique_lock lock(mutex_);
    own.arrived.wait(lock, [&] { return stopping_ || !own.tasks.empty(); });
    if (stopping_) return;
    const Task task = std::move(own.tasks.front());
    own.tasks.pop_front();
    lock.unlock();
    run_task(role, task);
  }
}

// One task per queue that takes part; a queue with several runs of the group has them in one task.
std::vector<std::pair<QueueRole, CpuDevice::Task>> CpuDevice::tasks_of(
    std::span<const Launch> launches, std::span<Fence> done) {
  const auto group = std::make_shared<Group>();
  std::vector<std::pair<QueueRole, Task>> tasks;
  for (std::size_t i = 0; i < launches.size(); ++i) {
    const QueueRole role = program_->run(launches[i].run).queue;
    done[i] = {role, queue(role).next_sequence++};
    group->runs.push_back({launches[i].run, launches[i].step, done[i]});
    auto task = std::find_if(tasks.begin(), tasks.end(),
                             [role](const auto& entry) { return entry.first == role; });
    if (task == tasks.end()) task = tasks.insert(tasks.end(), {role, Task{{}, group}});
    task->second.waits.insert(task->second.waits.end(), launches[i].waits.begin(),
                              launches[i].waits.end());
  }
  group->queues_missing = tasks.size();
  return tasks;
}

void CpuDevice::launch(std::span<const Launch> group, std::span<Fence> done) {
  std::unique_lock lock(mutex_);
  std::vector<std::pair<QueueRole, Task>> tasks = tasks_of(group, done);
  if (!is_inline()) {
    for (auto& [role, task] : tasks) {
      queue(role).tasks.push_back(std::move(task));
      queue(role).arrived.notify_one();
    }
    return;
  }
  lock.unlock();
  for (const auto& [role, task] : tasks) run_task(role, task);
}

bool CpuDevice::wait_until(std::unique_lock<std::mutex>& lock, std::condition_variable& changed,
                           const std::function<bool()>& condition) {
  changed.wait(lock, [&] { return stopping_ || failure_ || condition(); });
  return !stopping_ && !failure_;
}

bool CpuDevice::begin(QueueRole role, const Task& task) {
  std::unique_lock lock(mutex_);
  for (const Fence& fence : task.waits) {
    Queue& other = queue(fence.queue);
    if (is_inline() && !failure_ && other.done <= fence.sequence)
      fail(ErrorCode::kInternal, "rank {}: a launch on queue {} waits for one that was not issued",
           rank_.value, to_string(role));
    if (!wait_until(lock, other.completed, [&] { return other.done > fence.sequence; }))
      return false;
  }
  return !stopping_ && !failure_;
}

// In a group all queues wait for the last one, which executes; inline there is one thread, and it
// executes when it comes to the last queue.
void CpuDevice::run_task(QueueRole role, const Task& task) {
  // Ends with the task, also where that throws: inline queues run what their caller owns.
  struct Current {
    Current(std::mutex& of, const Task*& noted, const Task& taken) : mutex(of), current(noted) {
      const std::lock_guard lock(mutex);
      current = &taken;
    }
    ~Current() {
      const std::lock_guard lock(mutex);
      current = nullptr;
    }
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;
    std::mutex& mutex;
    const Task*& current;
  };
  const Current current(mutex_, queue(role).current, task);
  run_current(role, task);
}

void CpuDevice::run_current(QueueRole role, const Task& task) {
  if (!begin(role, task)) return;
  Group& group = *task.group;
  std::unique_lock lock(mutex_);
  const bool is_last = --group.queues_missing == 0;
  if (!is_last) {
    if (!is_inline()) wait_until(lock, group_changed_, [&] { return group.done; });
    return;
  }
  group.begun = true;
  lock.unlock();
  try {
    execute(group, queue(role).workspace);
  } catch (const std::exception& error) {
    set_failure(error.what());
    return;
  }
  finish(group);
}

// All runs of a group complete at one moment; their queues wait for it.
void CpuDevice::finish(Group& group) {
  const std::lock_guard lock(mutex_);
  for (const LaunchedRun& run : group.runs) {
    queue(run.fence.queue).done = run.fence.sequence + 1;
    queue(run.fence.queue).completed.notify_all();
  }
  group.done = true;
  finished_launches_ += static_cast<std::int64_t>(group.runs.size());
  group_changed_.notify_all();
}

void CpuDevice::set_failure(const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_) {
      failure_ = reason;
      stuck_ = stuck_now();
    }
    has_failed_ = true;
    for (Queue& queue : queues_) queue.completed.notify_all();
    group_changed_.notify_all();
  }
  shared_.rendezvous.abort(reason);
}

void CpuDevice::abort(const std::string& reason) { set_failure(reason); }

FenceState CpuDevice::state(Fence fence) {
  const std::lock_guard lock(mutex_);
  if (queue(fence.queue).done > fence.sequence) return FenceState::kDone;
  return failure_ ? FenceState::kFailed : FenceState::kPending;
}

void CpuDevice::wait(Fence fence) {
  std::unique_lock lock(mutex_);
  Queue& other = queue(fence.queue);
  wait_until(lock, other.completed, [&] { return other.done > fence.sequence; });
  if (other.done > fence.sequence) return;
  fail(ErrorCode::kRankFailed, "{}", failure_.value_or("the device was stopped"));
}

std::span<std::byte> CpuDevice::host_view(InstanceId instance, std::int32_t reg,
                                          std::int32_t content) {
  return program_->register_bytes(instance, reg, content);
}

void CpuDevice::read_state(InstanceId instance, std::int32_t reg, std::span<std::byte> to) {
  const std::span<const std::byte> bytes = program_->register_bytes(instance, reg, 0);
  require(to.size() == bytes.size(), ErrorCode::kUsage, "a state of {} bytes into {} bytes",
          bytes.size(), to.size());
  std::copy(bytes.begin(), bytes.end(), to.begin());
}

void CpuDevice::write_state(InstanceId instance, std::int32_t reg,
                            std::span<const std::byte> from) {
  const std::span<std::byte> bytes = program_->register_bytes(instance, reg, 0);
  require(from.size() == bytes.size(), ErrorCode::kUsage, "{} bytes into a state of {} bytes",
          from.size(), bytes.size());
  std::copy(from.begin(), from.end(), bytes.begin());
}

std::span<const Stamp> CpuDevice::stamps() {
  const std::lock_guard lock(mutex_);
  return stamps_;
}

template <typename Function>
void CpuDevice::name_failures(const LaunchedRun& launched, const PreparedCall& call,
                              const Function& function) {
  try {
    function();
  } catch (const std::exception& error) {
    const Actor& actor = *call.context.actor;
    fail(ErrorCode::kRankFailed, "rank {}: operator '{}' ({}), act {} of step {}: {}", rank_.value,
         actor.name, actor.kind, program_->run(launched.id).act, launched.step, error.what());
  }
}

void CpuDevice::execute(const Group& group, Workspace& workspace) {
  if (group.runs.size() > 1) return execute_together(group, workspace);
  execute_run(group.runs.front(), workspace);
}

void CpuDevice::execute_run(const LaunchedRun& launched, Workspace& workspace) {
  delay(launched);
  const auto begin = Clock::now();
  const std::vector<PreparedCall>& calls = program_->begin(launched.id, launched.step).calls;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const PreparedCall& call = calls[i];
    if (has_failed_) fail(ErrorCode::kRankFailed, "stopped");
    meter_begin(launched.id, i);
    name_failures(launched, call, [&] {
      const Workspace::Frame frame(workspace);
      for (const PreparedMember& member : call.members) {
        const Workspace::Frame member_frame(workspace);
        member.kernel(member.context, workspace);
      }
      if (call.kernel != nullptr)
        call.kernel(call.context, workspace);
      else if (call.members.empty())
        shared_.rendezvous.wait(post(call, launched.step));
    });
    program_->release(call);
    meter_end(launched.id, i);
  }
  note(launched, begin);
}

// All halves are posted before the first is waited for, so two ranks may have their runs in any
// order. Runs of a group do not feed each other (the validator refuses it).
void CpuDevice::execute_together(const Group& group, Workspace&) {
  for (const LaunchedRun& launched : group.runs) delay(launched);
  const auto begin = Clock::now();
  struct Posted {
    const LaunchedRun* launched;
    const PreparedCall* call;
    Rendezvous::Ticket ticket;
  };
  std::vector<Posted> posted;
  for (const LaunchedRun& launched : group.runs) meter_begin(launched.id, 0);
  for (const LaunchedRun& launched : group.runs)
    for (const PreparedCall& call : program_->run(launched.id).calls)
      name_failures(launched, call, [&] {
        require(call.kernel == nullptr && call.members.empty(), ErrorCode::kInternal,
                "a launch group holds communications only");
        posted.push_back({&launched, &call, post(call, launched.step)});
      });
  for (const Posted& half : posted)
    name_failures(*half.launched, *half.call, [&] { shared_.rendezvous.wait(half.ticket); });
  for (const Posted& half : posted) program_->release(*half.call);
  for (const LaunchedRun& launched : group.runs) meter_end(launched.id, 0);
  for (const LaunchedRun& launched : group.runs) note(launched, begin);
}

Rendezvous::Ticket CpuDevice::post(const PreparedCall& call, std::int64_t step) {
  const Actor& actor = *call.context.actor;
  return shared_.rendezvous.post({rank_, call.group, step * call.per_step + call.index_in_step,
                                  &*actor.communication, actor.name, call.buffers});
}

// Between the waits of a launch and its work: what comes later without an order of its own
// overtakes it.
void CpuDevice::delay(const LaunchedRun& launched) const {
  const CpuOptions& options = shared_.options;
  if (options.queues != CpuQueueKind::kStress || options.max_delay_us <= 0) return;
  std::int64_t delay_us = 0;
  if (options.delayed_run) {
    if (*options.delayed_run == launched.id && options.delayed_rank == rank_)
      delay_us = options.max_delay_us;
  } else {
    const CounterRng random(options.seed, fmt::format("delay of rank {} on {}", rank_.value,
                                                      to_string(launched.fence.queue)));
    delay_us =
        static_cast<std::int64_t>(random.bits(static_cast<std::uint64_t>(launched.fence.sequence)) %
                                  static_cast<std::uint64_t>(options.max_delay_us + 1));
  }
  if (delay_us > 0) std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
}

void CpuDevice::note(const LaunchedRun& launched, Clock::time_point begin) {
  if (!shared_.options.profile) return;
  const auto end = Clock::now();
  const std::lock_guard lock(mutex_);
  stamps_.push_back(
      {launched.id, launched.step, since(shared_.epoch, begin), since(shared_.epoch, end)});
}

}  // namespace sextant
