// A thread per rank of this process: the one way in which ranks work side by side and end together.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace sextant {

// Runs body(0) ... body(ranks - 1) at the same time, each on a thread of its own. The first error
// is handed to `stop`, which ends what the others wait for, and is rethrown when every thread has
// ended.
void on_rank_threads(std::size_t ranks, const std::function<void(std::size_t)>& body,
                     const std::function<void(const std::string&)>& stop);

}  // namespace sextant
