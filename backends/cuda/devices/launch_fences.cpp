// Events of a stream end in order, so what is pending is found by halves.
#include "backends/cuda/devices/launch_fences.h"

#include "backends/cuda/cuda_check.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <thread>
#include <utility>

namespace sextant {

// "Not ready" is an answer, but stays behind as the thread's last error.
cudaError_t query_event(cudaEvent_t event) {
  const cudaError_t status = cudaEventQuery(event);
  if (status == cudaErrorNotReady) cudaGetLastError();
  return status;
}

// Almost never: the run-ahead is shorter than the rings of events.
void wait_if_pending(cudaEvent_t event) {
  const cudaError_t status = query_event(event);
  SEXTANT_CUDA(status == cudaErrorNotReady ? cudaEventSynchronize(event) : status);
}

LaunchFences::LaunchFences(const CudaProgram& program, CudaExchange* exchange, Rank rank,
                           std::string who)
    : program_(program),
      exchange_(exchange),
      rank_(rank),
      who_(std::move(who)),
      first_replayed_(std::numeric_limits<std::int32_t>::max()) {
  for (cudaEvent_t& event : replay_ends_)
    SEXTANT_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
}

LaunchFences::~LaunchFences() {
  for (const Queue& queue : queues_)
    for (const Entry& entry : queue.ring) {
      cudaEventDestroy(entry.end);
      for (const cudaEvent_t mark : entry.marks) cudaEventDestroy(mark);
    }
  for (const cudaEvent_t event : replay_ends_) cudaEventDestroy(event);
}

void LaunchFences::add_queue(QueueRole role) {
  Queue& made = queue(role);
  made.runs_per_step = program_.runs_per_step(role);
  used_.push_back(role);
  made.ring.resize(static_cast<std::size_t>(kEventsPerQueue));
  for (Entry& entry : made.ring)
    SEXTANT_CUDA(cudaEventCreateWithFlags(&entry.end, cudaEventDisableTiming));
}

void LaunchFences::note_replayed(std::int64_t step) {
  replayed_.store(step + 1, std::memory_order_release);
  for (const QueueRole role : used_)
    note_launched(role, (number_of(step) + 1) * queue(role).runs_per_step);
}

Fence LaunchFences::fence_of(RunId id, std::int64_t step) const {
  const CudaRun& run = program_.run(id);
  return {run.queue, number_of(step) * queue(run.queue).runs_per_step + run.position};
}

cudaEvent_t LaunchFences::event_of(Fence fence) const {
  const Queue& own = queue(fence.queue);
  const std::int64_t step = step_of(fence);
  if (is_replayed(step)) {
    const bool is_reused = step + kReplayEvents < replayed_.load(std::memory_order_acquire);
    return is_reused ? nullptr : replay_end(step);
  }
  const bool is_reused =
      fence.sequence + kEventsPerQueue < own.launched.load(std::memory_order_acquire);
  return is_reused ? nullptr : own.entry(fence.sequence).end;
}

cudaError_t LaunchFences::wait(Fence fence, const Watch& watch) {
  return wait([&] { return event_of(fence); }, [&] { return stuck_text(fence); }, watch);
}

// Whoever waits says where.
void LaunchFences::check_not_aborted(const Watch& watch,
                                     const std::function<std::string()>& stuck) {
  try {
    watch.check_not_aborted();
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}; waited in {}", error.what(), stuck()));
  }
}

// Looks again and again.
cudaError_t LaunchFences::wait(const std::function<cudaEvent_t()>& event,
                               const std::function<std::string()>& stuck, const Watch& watch) {
  using Clock = std::chrono::steady_clock;
  constexpr int kSpins = 200;
  constexpr std::chrono::microseconds kNap{20};
  constexpr std::chrono::milliseconds kLook{20};
  Clock::time_point last_progress = Clock::now(), next_look = last_progress + kLook;
  std::int64_t seen = -1;
  for (int tries = 0;; ++tries) {
    const cudaEvent_t awaited = event();
    const cudaError_t status = awaited == nullptr ? cudaSuccess : query_event(awaited);
    if (status != cudaErrorNotReady) return status;
    if (tries < kSpins) {
      std::this_thread::yield();
      continue;
    }
    check_not_aborted(watch, stuck);
    std::this_thread::sleep_for(kNap);
    const Clock::time_point now = Clock::now();
    if (now < next_look) continue;
    next_look = now + kLook;
    if (const auto fault = exchange_->fault(rank_)) watch.give_up(*fault);
    const std::int64_t done = progress();
    if (done != seen) last_progress = now;
    seen = done;
    if (now - last_progress > watch.timeout)
      watch.give_up(fmt::format("nothing ended for {:.3g} s: {}",
                                std::chrono::duration<double>(watch.timeout).count(), stuck()));
  }
}

// The first launch of the queue that is not over.
std::int64_t LaunchFences::first_pending(QueueRole role) const {
  std::int64_t end = launched(role);
  std::int64_t first = std::max<std::int64_t>(0, end - kEventsPerQueue);
  while (first < end) {
    const std::int64_t middle = first + (end - first) / 2;
    const cudaEvent_t event = event_of({role, middle});
    if (event == nullptr || query_event(event) != cudaErrorNotReady)
      first = middle + 1;
    else
      end = middle;
  }
  return first;
}

// Changes whenever a launch ends.
std::int64_t LaunchFences::progress() const {
  std::int64_t sum = 0;
  for (const QueueRole role : used_) sum += first_pending(role);
  return sum;
}

std::string LaunchFences::failure_text(Fence fence, cudaError_t error) const {
  const Queue& own = queue(fence.queue);
  const std::int64_t step = step_of(fence);
  if (is_replayed(step))
    return fmt::format("{}: step {}, replayed as a graph: {}; without graphs the operator is named",
                       who_, step, cudaGetErrorString(error));
  std::int64_t first = std::max<std::int64_t>(0, launched(fence.queue) - kEventsPerQueue);
  while (first < fence.sequence && query_event(own.entry(first).end) == cudaSuccess) ++first;
  return fmt::format("{}: operator '{}' or one after it: {}", who_,
                     program_.actor_name(own.entry(first).run), cudaGetErrorString(error));
}

// A rank that has not launched the step is missing from its first communication on.
std::string LaunchFences::stuck_replay_text(std::int64_t step) const {
  const std::string text = fmt::format("step {}, replayed as a graph", step);
  for (std::size_t run = 0; run < program_.num_runs(); ++run)
    for (const auto& communication : program_.run(RunId(run)).communications)
      if (!exchange_->have_all_arrived(*communication, number_of(step)))
        return fmt::format("{}: '{}', {}", text, communication->name,
                           exchange_->arrivals(*communication, number_of(step)));
  return text + ", which all ranks have launched; without graphs the communication is named";
}

// The communications at which queues stand still, and who came to them; else what is awaited.
std::string LaunchFences::stuck_text(Fence fence) const {
  if (is_replayed(step_of(fence))) return stuck_replay_text(step_of(fence));
  std::string text;
  for (const QueueRole role : used_) {
    const std::int64_t first = first_pending(role);
    if (first == launched(role)) continue;
    const Entry& pending = queue(role).entry(first);
    for (const auto& communication : program_.run(pending.run).communications) {
      text += fmt::format("{}step {}, '{}', {}", text.empty() ? "" : "; ", pending.step,
                          communication->name,
                          exchange_->arrivals(*communication, number_of(pending.step)));
      break;  // of a run that holds several, the first
    }
  }
  if (!text.empty()) return text;
  const Entry& awaited = queue(fence.queue).entry(fence.sequence);
  return fmt::format("step {}, '{}'", awaited.step, program_.actor_name(awaited.run));
}

}  // namespace sextant
