// Every end is one that all processes know of.
#include "cli/runs/over_processes.h"

#include "cli/launched.h"
#include "cli/signals.h"
#include "core/base/error.h"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>

namespace sextant {

void run_over(const Launched& launched, double timeout_s, const CommonOptions& common,
              Console& console, const ProcessWork& work) {
  const bool is_first = launched.process == 0;
  CommonOptions own = common;
  if (!is_first) {
    own.quiet = true;
    own.json = false;
    own.out.clear();
    document_is_written();  // by the first
  }
  Console own_console(own);
  std::optional<RunProcesses> processes;
  try {
    processes.emplace(launched, timeout_s, common.json);
  } catch (const Error& error) {
    // Whoever has waited in vain says so: the first may be the one that did not come.
    const bool speaks = is_first || error.code() == ErrorCode::kRankFailed;
    if (speaks) report_error(error, common.json);
    std::fflush(stdout);
    std::_Exit(static_cast<int>(error.code()));  // MPI may be in the middle of its start
  }
  const NotedSignals noted;
  try {
    work(*processes, own, is_first ? console : own_console);
  } catch (const Error& error) {
    console.end_progress();
    processes->end(error);
  } catch (const std::exception& error) {
    console.end_progress();
    processes->end(Error(ErrorCode::kInternal, error.what()));
  }
  processes->leave();
}

void alone_or_over_processes(const CommonOptions& common, Console& console,
                             const ProcessWork& work) {
  constexpr double kTimeout_s = 60;
  if (const auto several = launched()) return run_over(*several, kTimeout_s, common, console, work);
  RunProcesses alone;
  work(alone, common, console);
}

}  // namespace sextant
