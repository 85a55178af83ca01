// Counters of /proc/stat and of this process.
#include "backends/cpu/machine_load.h"

#include "core/base/control_groups.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <sched.h>
#include <string>
#include <time.h>

namespace sextant {
namespace {

// What others may take before it shows in medians: steps of training scatter by about as much.
constexpr double kQuiet = 0.05;
constexpr double kShortest = 1.0;  // s of processor time

// Version 2 has "50000 100000", or "max 100000" without a quota; version 1 two files, and -1.
std::optional<double> quota_of(const ControlGroup& group) {
  double allowed = 0, period = 0;
  if (group.version == ControlGroup::Version::k2) {
    std::ifstream(group.folder / "cpu.max") >> allowed >> period;
  } else {
    std::ifstream(group.folder / "cpu.cfs_quota_us") >> allowed;
    std::ifstream(group.folder / "cpu.cfs_period_us") >> period;
  }
  if (allowed > 0 && period > 0) return allowed / period;
  return std::nullopt;
}

double seconds_of(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

std::optional<double> processor_quota(const std::filesystem::path& root) {
  std::optional<double> least;
  for (const ControlGroup& group : control_groups(root, "cpu"))
    if (const auto quota = quota_of(group)) least = std::min(least.value_or(*quota), *quota);
  return least;
}

std::int64_t usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::int64_t cores = sched_getaffinity(0, sizeof(set), &set) == 0
                           ? CPU_COUNT(&set)
                           : static_cast<std::int64_t>(sysconf(_SC_NPROCESSORS_ONLN));
  if (const auto allowed = processor_quota())
    cores = std::min(cores, static_cast<std::int64_t>(std::ceil(*allowed)));
  return std::max<std::int64_t>(cores, 1);
}

double process_seconds() { return seconds_of(CLOCK_PROCESS_CPUTIME_ID); }

double thread_seconds() { return seconds_of(CLOCK_THREAD_CPUTIME_ID); }

bool OthersLoad::is_quiet() const { return others < kQuiet; }

std::string busy_text(const OthersLoad& load) {
  if (load.is_quiet()) return {};
  const std::string stolen =
      load.stolen < 0.01
          ? ""
          : fmt::format(" ({:.0f} % by other guests of its host)", 100 * load.stolen);
  return fmt::format("others used {:.0f} % of this machine's processor time{}", 100 * load.others,
                     stolen);
}

std::optional<LoadWatch::Counters> LoadWatch::now() {
  std::ifstream file("/proc/stat");
  std::string word;
  std::array<double, 8> ticks{};  // user, nice, system, idle, iowait, irq, softirq, steal
  if (!(file >> word) || word != "cpu") return std::nullopt;
  for (double& tick : ticks)
    if (!(file >> tick)) return std::nullopt;
  const auto per_second = static_cast<double>(sysconf(_SC_CLK_TCK));
  Counters counters;
  for (const double tick : ticks) counters.all += tick / per_second;
  counters.busy = counters.all - (ticks[3] + ticks[4]) / per_second;
  counters.stolen = ticks[7] / per_second;
  counters.own = process_seconds();
  return counters;
}

LoadWatch::LoadWatch() : begin_(now()) {}

std::optional<OthersLoad> LoadWatch::load() const {
  const auto end = now();
  if (!begin_ || !end || end->all - begin_->all < kShortest) return std::nullopt;
  const double all = end->all - begin_->all;
  const double others = (end->busy - begin_->busy) - (end->own - begin_->own);
  return OthersLoad{.others = std::clamp(others / all, 0.0, 1.0),
                    .stolen = std::clamp((end->stolen - begin_->stolen) / all, 0.0, 1.0)};
}

}  // namespace sextant
