// How NCCL is asked to work, whoever makes communicators, and the check of its calls. Only for
// sources of a build with NCCL.
#pragma once

#include "core/base/check.h"

#include <nccl.h>

namespace sextant {

inline void check_nccl(ncclResult_t result, const char* expression, const char* file, int line) {
  if (result == ncclSuccess) return;
  fail(ErrorCode::kRankFailed, "{}:{}: {}: {} ({})", file, line, expression,
       ncclGetErrorString(result), ncclGetLastError(nullptr));
}

// Throws Error(kDevice) when the library that was loaded is not of the header's version.
void require_one_nccl();
// Environment of the process, unless the user has set it; before the first communicator, for NCCL
// reads it once. `deterministic`: sums in one order.
void set_nccl_defaults(bool deterministic);
// How many blocks a communicator may have on the card that is current.
int blocks_of_card();
// A communicator of at most so many blocks; 0: as many as NCCL likes.
ncclConfig_t nccl_config(int blocks);

}  // namespace sextant

#define SEXTANT_NCCL(expression) \
  ::sextant::check_nccl((expression), #expression, __FILE__, __LINE__)
