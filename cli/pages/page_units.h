// Units of axes: one for all numbers of a picture, so that ticks are short.
#pragma once

#include "core/base/units.h"

#include <string>

namespace sextant {

struct AxisUnit {
  double size = 1;  // in seconds or bytes
  std::string name;
};

// By the largest value: "ms" for 0.02 s, "GiB" for 3 GiB.
AxisUnit time_unit(double most_s);
AxisUnit bytes_unit(Bytes most);

}  // namespace sextant
