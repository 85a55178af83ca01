// Text compressed the way that gzip and browsers read.
#pragma once

#include <string>
#include <string_view>

namespace sextant {

// False when built without zlib.
bool can_gzip();

// Fast rather than small. The same text gives the same bytes. Throws Error(kUsage) when built
// without zlib.
std::string gzip(std::string_view text);

}  // namespace sextant
