// Launches that are over say how far the devices are: they issue up to two steps ahead.
#include "cli/training/run_progress.h"

#include "cli/console.h"
#include "cli/verbs.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

namespace sextant {

ElapsedText::ElapsedText(std::string_view what) : what_(what), begin_s_(wall_seconds()) {}

std::string ElapsedText::operator()() const {
  return fmt::format("{}: {:.0f} s", what_, wall_seconds() - begin_s_);
}

std::int64_t launches_per_step(const PhysicalGraph& graph, const std::vector<Device*>& devices) {
  std::int64_t launches = 0;
  for (std::size_t rank = 0; rank < devices.size(); ++rank)
    if (devices[rank] != nullptr)
      launches += static_cast<std::int64_t>(graph.program_of(Rank(rank)).order.size());
  return launches;
}

std::string launches_text(std::int64_t finished_launches, std::int64_t launches_per_step,
                          std::int64_t steps, std::int64_t first_step) {
  const std::int64_t all = std::max<std::int64_t>(launches_per_step, 1);
  return fmt::format("step {} of {}: {} of {} launches",
                     first_step + std::min(finished_launches / all, steps - 1), first_step + steps,
                     grouped(finished_launches < all * steps ? finished_launches % all : all),
                     grouped(all));
}

std::string run_text(const RunDevices& devices, std::int64_t launches_per_step, std::int64_t steps,
                     const RunRecorder& recorder, std::int64_t first_step) {
  const std::optional<std::int64_t> finished = devices.finished_launches();
  const std::string now =
      finished ? launches_text(*finished, launches_per_step, steps, first_step)
               : fmt::format("{} of {} steps", grouped(recorder.num_steps()), grouped(steps));
  const std::string last = recorder.last_line();
  return last.empty() ? now : fmt::format("{} ({})", now, last);
}

}  // namespace sextant
