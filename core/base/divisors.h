// The degrees that divide a number, for enumerations and for errors that name what would do.
#pragma once

#include <cstdint>
#include <vector>

namespace sextant {

// Ascending, 1 and the number among them; none for numbers below one.
std::vector<std::int64_t> divisors_of(std::int64_t number);

}  // namespace sextant
