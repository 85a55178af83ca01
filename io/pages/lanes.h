// What is busy when: rows of lanes over one axis. A picture of so many columns, whatever the number
// of slices.
#pragma once

#include "io/pages/markup.h"
#include "io/pages/palette.h"

#include <string>
#include <vector>

namespace sextant {

struct LaneSlice {
  double begin = 0, end = 0;  // in the unit of the axis
  int colour = kGreyColour;
};

struct Lane {
  std::string name;
  bool is_main = true;  // others are half as high
  std::vector<LaneSlice> slices;
};

struct LaneRow {
  std::string label;
  std::vector<Lane> lanes;
};

struct LanesPicture {
  std::string description;  // for whoever cannot see it
  std::string axis;         // title with the unit: "time in the step (ms)"
  double begin = 0, end = 1;
  std::vector<LaneRow> rows;
  std::vector<LegendEntry> colours;
};

// Every column has the colour that fills most of it, pale where slices fill less than half; slices
// outside the axis are cut. Throws Error(kUsage) where the axis is empty or not finite.
Markup lanes_picture(const LanesPicture& lanes);

}  // namespace sextant
