// Both divisors of a pair at once, up to the root.
#include "core/base/divisors.h"

namespace sextant {

std::vector<std::int64_t> divisors_of(std::int64_t number) {
  std::vector<std::int64_t> divisors, high;
  for (std::int64_t d = 1; d <= number / d; ++d) {
    if (number % d != 0) continue;
    divisors.push_back(d);
    if (d != number / d) high.push_back(number / d);
  }
  divisors.insert(divisors.end(), high.rbegin(), high.rend());
  return divisors;
}

}  // namespace sextant
