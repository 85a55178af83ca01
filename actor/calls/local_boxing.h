// Local boxing (`box_local`): which part of its input a rank takes over when words change without
// communication. The same on every backend.
#pragma once

#include "actor/calls/kernel_context.h"
#include "core/tensors/sbp.h"

#include <optional>

namespace sextant {

// The box that both layouts of the call give the rank, or nothing. Between two meshes the contents
// stay as they are: only their words are other ones. Throws Error(kInternal) for words that only a
// communication could reach.
std::optional<Shard> taken_over(const KernelContext& call);

// Whose neutral element fills what is not taken over; a sum where nothing is partial.
ReduceOp reduction_of(const NdSbp& words);

}  // namespace sextant
