// Whether a program fits on the card, said before anything is allocated.
#pragma once

#include "core/physical_graph.h"
#include "core/units.h"

#include <string>

namespace sextant {

// What a program takes beside its arena.
struct CudaExtraMemory {
  Bytes inner;      // tensors inside fused operators
  Bytes workspace;  // of the kernels
};

// Throws Error(kInfeasible) when `free` of `total` bytes are less than what the program needs: each
// class of the arena, and what comes beside it.
void require_room(const RankProgram& program, Rank rank, const CudaExtraMemory& extra,
                  const std::string& device, Bytes free, Bytes total);

}  // namespace sextant
