// Work of a run beside a watch, which shows how far it is and keeps what there is when a signal
// comes.
#pragma once

#include "cli/console.h"
#include "cli/runs/run_processes.h"
#include "cli/runs/run_record.h"
#include "cli/training/run_backend.h"
#include "cli/training/run_setup.h"
#include "cli/work_watch.h"

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace sextant {

// What is kept when a run ends so; may be empty. On the thread of a watch, or that of the run.
using LastWords = std::function<void(RunEnd)>;

// Beside work before the first step, called `what`, of which nothing is kept: a signal leaves what
// was there before.
WorkWatch watch_preparation(std::string_view what, const LastWords& last_words,
                            RunProcesses& processes, Console& console);

// The devices of a run, prepared; with `profile` they keep stamps. All processes call it, and all
// throw what one of them throws.
std::unique_ptr<RunDevices> prepared_devices(const RunSetup& setup, bool profile,
                                             const LastWords& last_words, Console& console);

// Does `work`, shown as `text`, and ends what `devices` do, which may take as long as a kernel, and
// then themselves. A signal leaves `last_words`. What ended the work before its end is returned.
std::exception_ptr do_watched(std::unique_ptr<RunDevices>& devices,
                              const std::function<void()>& work,
                              const std::function<std::string()>& text, const LastWords& last_words,
                              RunProcesses& processes, Console& console);

}  // namespace sextant
