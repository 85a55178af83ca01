// Calls of one run that may become one kernel though other calls stand between them.
#pragma once

#include "actor/calls/kernel_context.h"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace sextant {

// Numbers of calls, two to `most` of equal keys, ascending, that may all be made where the first of
// them stands: by bytes, none of the others reads or writes what a call from there to its own place
// writes, nor writes what such a call reads. So with some or all groups made like that every call
// meets the contents that it meets in order, and calls of a group may run at once. A call is in one
// group at most; one whose key is empty is in none. `keys` has one per call.
std::vector<std::vector<std::size_t>> groups_of_calls(std::span<const KernelContext> calls,
                                                      std::span<const std::string> keys,
                                                      std::size_t most);

}  // namespace sextant
