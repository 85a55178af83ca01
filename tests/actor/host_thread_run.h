// One run of the runtime's own host thread beside a launch thread and a device, whose threads run
// one at a time in an order drawn by a seed (`thread_scheduler`). The bugs that it may have are
// those of locks and wake-ups.
#pragma once

#include "tests/actor/explored_graph.h"

#include <cstdint>
#include <optional>
#include <string>

namespace sextant::testing {

struct HostThreadResult {
  // What is wrong, and where; nothing: host actors acted in order, when they might, and a rank that
  // has drained has nothing left.
  std::optional<std::string> wrong;
  std::int64_t turns = 0;  // times that another thread went on
};

// Three steps of a rank of the graph that has host actors, launch by launch or a step at a time,
// with stops between or without; which follows from the seed.
HostThreadResult run_host_thread(const ExploredGraph& explored, std::uint64_t seed);

// Whether it is one that run_host_thread has.
bool is_of_host_thread(PlantedBug bug);

}  // namespace sextant::testing
