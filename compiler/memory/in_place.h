// Which operators may write their output into the bytes of an input.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace sextant {

// Inputs whose bytes the first output may take over, where the input has the output's type and
// nobody needs it any more. (Views need no list: core/graphs/views.h.) Kernels of these kinds read
// an element before they write the one at its place, and no other one afterwards. Empty for all
// other kinds.
std::span<const std::size_t> overwritten_inputs(std::string_view kind);

}  // namespace sextant
