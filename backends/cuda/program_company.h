// What the collectives of a program do to the computation beside them, decided before any kernel is
// made: how many blocks they take, and which computation is cut for the processors that are left.
// Without CUDA.
#pragma once

#include "actor/protocol/program_tables.h"
#include "actor/protocol/program_waits.h"

#include <span>
#include <vector>

namespace sextant {

// Processors that a communication takes; 0: it takes what it finds.
struct ExchangeBlocks {
  int slow = 0, fast = 0;
};

struct ProgramCompany {
  // By run, as Overlap::beside (actor/protocol/overlap.h).
  std::vector<bool> beside;
  // Collectives that have company take few blocks.
  bool goes_slowly = false;
  // By run: of computation, processors that collectives have when it begins.
  std::vector<int> taken;
};

// `seconds`: by run, of computation; `bytes`: by run, of communications.
ProgramCompany company_of(std::span<const RunEntry> runs, const ProgramWaits& waits,
                          std::span<const double> seconds, std::span<const double> bytes,
                          const ExchangeBlocks& blocks);

}  // namespace sextant
