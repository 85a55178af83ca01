// What a rank's queues are at, for people who ask why a run stands still: the launch that each has
// taken, what it waits for, and how many stand behind it.
#include "backends/cpu/cpu_device.h"
#include "core/base/check.h"
#include "core/text/counted_text.h"

namespace sextant {

std::vector<std::string> CpuDevice::stuck() const {
  const std::lock_guard lock(mutex_);
  return stuck_;
}

// Under the mutex, like those below.
std::vector<std::string> CpuDevice::stuck_now() const {
  std::vector<std::string> lines;
  for (const QueueRole role : spec_.queues) {
    const Queue& own = queue(role);
    if (own.current == nullptr && own.tasks.empty()) continue;
    const Task& task = own.current != nullptr ? *own.current : own.tasks.front();
    const std::size_t behind = own.tasks.size() - (own.current != nullptr ? 0 : 1);
    lines.push_back(fmt::format(
        "rank {}, {}: launch {}, {}, {}{}", rank_.value, to_string(role), own.done,
        launch_text(task), state_text(task),
        behind > 0 ? fmt::format("; {} behind it",
                                 counted(static_cast<std::int64_t>(behind), "launch", "launches"))
                   : ""));
  }
  return lines;
}

std::string CpuDevice::launch_text(const Task& task) const {
  const LaunchedRun& first = task.group->runs.front();
  const PreparedRun& run = program_->run(first.id);
  const Actor& actor = *run.calls.front().context.actor;
  const std::size_t more = run.calls.size() + task.group->runs.size() - 2;
  return fmt::format("'{}' ({}){}, act {} of step {}", actor.name, actor.kind,
                     more > 0 ? fmt::format(" and {} more", more) : "", run.act, first.step);
}

std::string CpuDevice::state_text(const Task& task) const {
  if (task.group->begun) return "at work";
  std::string missing;
  for (const Fence& fence : task.waits)
    if (queue(fence.queue).done <= fence.sequence)
      missing += fmt::format("{}launch {} of {}", missing.empty() ? "waits for " : ", ",
                             fence.sequence, to_string(fence.queue));
  if (!missing.empty()) return missing;
  return task.group->runs.size() > 1 ? "waits for the other queues of its group" : "about to begin";
}

}  // namespace sextant
