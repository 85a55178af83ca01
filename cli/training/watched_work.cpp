// The last words of a process that a signal ends are said by the watch, while the work may still
// be inside a kernel.
#include "cli/training/watched_work.h"

#include "cli/training/run_progress.h"
#include "core/base/error.h"

#include <cstdio>
#include <cstdlib>

namespace sextant {
namespace {

// The last words of a process that a signal ends, and its end where not the user has ended the run.
void leave_after_signal(const LastWords& last_words, RunProcesses& processes, Console& console) {
  const bool has_failed = processes.has_failed();
  console.end_progress();
  if (last_words) last_words(has_failed ? RunEnd::kFailed : RunEnd::kInterrupted);
  if (has_failed) processes.end_failed();
}

// Threads are inside a library that does not come back: no destructor may run.
[[noreturn]] void end_failed(const std::string& reason, bool json) {
  const int code = report_error(Error(ErrorCode::kRankFailed, reason), json);
  std::fflush(stdout);
  std::_Exit(code);
}

}  // namespace

WorkWatch watch_preparation(std::string_view what, const LastWords& last_words,
                            RunProcesses& processes, Console& console) {
  return WorkWatch(
      {.show = [text = ElapsedText(what), &console] { console.progress(text()); },
       .ask_to_end = [&processes] { processes.reason_of_signal(); },
       .last_words = [last_words, &processes,
                      &console] { leave_after_signal(last_words, processes, console); },
       .grace_s = processes.grace_s()});
}

std::unique_ptr<RunDevices> prepared_devices(const RunSetup& setup, bool profile,
                                             const LastWords& last_words, Console& console) {
  const WorkWatch watch =
      watch_preparation("preparing " + setup.devices, last_words, setup.processes, console);
  std::unique_ptr<RunDevices> devices;
  setup.processes.together([&] {
    devices = make_run_devices(
        setup.graph, setup.arguments, setup.common.seed, profile,
        {.notice = [&console](const std::string& text) { console.note(text); },
         .give_up =
             [&processes = setup.processes, json = setup.common.json](const std::string& reason) {
               if (processes.are_several()) processes.end(Error(ErrorCode::kRankFailed, reason));
               end_failed(reason, json);
             }},
        setup.processes);
  });
  return devices;
}

std::exception_ptr do_watched(std::unique_ptr<RunDevices>& devices,
                              const std::function<void()>& work,
                              const std::function<std::string()>& text, const LastWords& last_words,
                              RunProcesses& processes, Console& console) {
  const auto leave = [&] { leave_after_signal(last_words, processes, console); };
  std::exception_ptr failure;
  {
    const WorkWatch watch({.show = [&] { console.progress(text()); },
                           .ask_to_end = [&] { devices->abort(processes.reason_of_signal()); },
                           .last_words = leave,
                           .grace_s = processes.grace_s()});
    try {
      work();
    } catch (...) {
      failure = std::current_exception();
    }
  }
  const WorkWatch watch(
      {.show = {}, .ask_to_end = {}, .last_words = leave, .grace_s = processes.grace_s()});
  devices.reset();
  console.end_progress();
  return failure;
}

}  // namespace sextant
