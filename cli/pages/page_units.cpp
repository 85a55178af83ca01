// The largest unit that the value has one of.
#include "cli/pages/page_units.h"

#include <cstdint>

namespace sextant {

AxisUnit time_unit(double most_s) {
  for (const AxisUnit& unit : {AxisUnit{1, "s"}, AxisUnit{1e-3, "ms"}, AxisUnit{1e-6, "us"}})
    if (most_s >= unit.size) return unit;
  return {1e-9, "ns"};
}

AxisUnit bytes_unit(Bytes most) {
  for (int power = 4; power > 0; --power) {
    const double size = static_cast<double>(std::int64_t{1} << (10 * power));
    if (static_cast<double>(most.value) >= size)
      return {size, power == 4 ? "TiB" : power == 3 ? "GiB" : power == 2 ? "MiB" : "KiB"};
  }
  return {1, "B"};
}

}  // namespace sextant
