// One run of a physical graph under a seeded scheduler, on one thread: counters, queues, host
// actors and messages of all ranks move one event at a time, in an order drawn by chance. The
// counters are the runtime's (`Protocol`), and so are the messages between them (`ActorBus`), over
// a simulated network; devices are queues whose launches begin and end when the scheduler says so.
#pragma once

#include "tests/actor/explored_graph.h"

#include <cstdint>
#include <optional>
#include <string>

namespace sextant::testing {

struct InterleavingResult {
  // What is wrong, and where; nothing: every read found its content, all came to its end, all
  // counters are back and no message is left.
  std::optional<std::string> wrong;
  std::int64_t events = 0;
  std::int64_t early = 0, repeated = 0;  // arrivals that were put right
};

// Two steps of the graph, with the bug that it has. Aborts where an invariant of the runtime is
// hurt, in checked builds.
InterleavingResult run_interleaving(const ExploredGraph& explored, std::uint64_t seed);

}  // namespace sextant::testing
