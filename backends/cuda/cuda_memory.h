// Whether a program fits on the card, said before anything is allocated.
#pragma once

#include "core/base/units.h"
#include "core/graphs/physical_graph.h"

#include <span>
#include <string>

namespace sextant {

// What a program takes beside its arena.
struct CudaExtraMemory {
  Bytes inner;      // tensors inside fused operators
  Bytes workspace;  // of the kernels
  Bytes staging;    // of communications
  Bytes communicators = Bytes(0);
  Bytes loading = Bytes(0);  // what loaders fill, ahead of its step
};

// Throws Error(kInfeasible) when `free` of `total` bytes are less than what the program needs: each
// class of the arena, and what comes beside it.
void require_room(const RankProgram& program, Rank rank, const CudaExtraMemory& extra,
                  const std::string& device, Bytes free, Bytes total);

// What one rank of those that share a card needs of it.
struct CudaRankMemory {
  const RankProgram* program = nullptr;
  Rank rank;
  CudaExtraMemory extra;

  // All of it together.
  Bytes total() const {
    return program->arena.size + extra.inner + extra.workspace + extra.staging +
           extra.communicators + extra.loading;
  }
};
// Throws Error(kInfeasible) when `free` of `total` bytes are less than what these ranks need
// together.
void require_room(std::span<const CudaRankMemory> ranks, const std::string& device, Bytes free,
                  Bytes total);

}  // namespace sextant
