// A thread per rank of this process: the one way in which ranks work side by side and end together.
#pragma once

#include "actor/hosts/reused_thread.h"

#include <cstddef>
#include <functional>
#include <string>
#include <utility>

namespace sextant {

// Begins a function on a thread of its own, or throws std::system_error.
using ThreadStart = std::function<ReusedThread(std::function<void()>)>;

// Runs body(0) ... body(ranks - 1) at the same time, each on a thread of its own. Ranks meet in
// what they do, so none begins before all have a thread; where some have none, Error(kDevice) says
// how many do. The first error of a body is handed to `stop`, which ends what the others wait for,
// and is rethrown when every thread has ended.
void on_rank_threads(
    std::size_t ranks, const std::function<void(std::size_t)>& body,
    const std::function<void(const std::string&)>& stop = [](const std::string&) {},
    const ThreadStart& start =
        [](std::function<void()> work) { return ReusedThread(std::move(work)); });

}  // namespace sextant
