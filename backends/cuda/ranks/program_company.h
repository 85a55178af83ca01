// What the collectives of a program do to the computation beside them, decided before any kernel is
// made: how many blocks they take, and which computation is cut for the processors that are left.
// Without CUDA.
#pragma once

#include "actor/protocol/program_tables.h"
#include "actor/protocol/program_waits.h"
#include "core/collective_script/collective_script.h"

#include <cstddef>
#include <span>
#include <vector>

namespace sextant {

struct ProgramCompany {
  // By run, as Overlap::beside (actor/protocol/overlap.h).
  std::vector<bool> beside;
  // Collectives that have company take few blocks.
  bool goes_slowly = false;
  // Processors that computation beside collectives leaves to them. None where they go fast:
  // products cut for 116 of 132 processors take 20 to 28 % longer, whole ones beside 16 blocks 40
  // %, but only the second behind the begin of a collective (two H200; xl dp=2 184 ms a step cut,
  // 179 whole).
  int taken = 0;
};

// Bytes that one member sends or receives over its link, whichever is more: of n members n - 1
// parts for a gather or a reduce-scatter, 2 (n - 1) / n of the tensor for an all_reduce.
double link_bytes(const CollectiveScript& script, std::size_t members);

// `seconds`: by run, of computation; `bytes`: by run, of communications. `processors_of_slow`: that
// a communication takes which goes slowly; 0: all take what they find.
ProgramCompany company_of(std::span<const RunEntry> runs, const ProgramWaits& waits,
                          std::span<const double> seconds, std::span<const double> bytes,
                          int processors_of_slow);

}  // namespace sextant
