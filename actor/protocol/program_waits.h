// What each launch of a program waits for in the steady state. It follows from the program alone
// (README, invariants 3 and 5), so no device and no other rank is needed.
#pragma once

#include "actor/protocol/program_tables.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace sextant {

struct ProgramWait {
  std::int32_t run = 0;
  std::int32_t lag = 0;  // 1: of the previous step
  bool operator==(const ProgramWait&) const = default;
};

// Of the third step, in which nothing of the beginning is left: at most one wait per queue, never
// of the run's own queue, nothing that its queue has waited for before.
struct ProgramWaits {
  std::vector<std::int32_t> end;  // by run: where its waits end
  std::vector<ProgramWait> waits;

  std::span<const ProgramWait> of(std::int32_t run) const {
    const std::int32_t begin = run == 0 ? 0 : at(end, run - 1);
    return std::span(waits).subspan(at(begin), at(at(end, run) - begin));
  }
  bool operator==(const ProgramWaits&) const = default;
};

// Three steps of the protocol, every run in its turn. The order must be able to run alone
// (dry_run).
ProgramWaits stepped_waits(const ProgramTables& tables);

// The waits of three steps from positions in the order, without counting messages; this also proves
// that each run is enabled in its turn. Nothing where one is not, or where host actors are fed by
// host actors or feed and are fed: then the protocol has to say.
std::optional<ProgramWaits> direct_waits(const ProgramTables& tables);

// Waits of a program that has got guards, from what it waited for without them.
ProgramWaits with_guards(const ProgramWaits& unguarded, const ProgramTables& guarded);

}  // namespace sextant
