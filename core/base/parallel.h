// Independent tasks on all cores: for passes over programs, which share nothing they write.
#pragma once

#include <cstddef>
#include <functional>

namespace sextant {

// Runs task(0) ... task(count - 1) and returns when all are done. Of several tasks that throw, the
// exception of the smallest index is thrown on: what the caller sees does not depend on timing.
void for_each_in_parallel(std::size_t count, const std::function<void(std::size_t)>& task);

// At most so many threads from now on, the caller's included; without it one per core. Of the whole
// process, as the processors are: what a program sets once, no result depends on it.
void limit_threads(std::size_t most);

}  // namespace sextant
