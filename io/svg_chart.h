// Charts as SVG text that stands alone: points and lines over two axes. For reports; nothing here
// computes.
#pragma once

#include <string>
#include <vector>

namespace sextant {

struct ChartPoint {
  double x = 0, y = 0;
  std::string label = {};  // shown when the pointer rests on it
};

enum class ChartMark { kPoints, kLine, kLineAndPoints };

struct ChartSeries {
  std::string name;
  std::vector<ChartPoint> points = {};
  ChartMark mark = ChartMark::kPoints;
};

struct ChartAxis {
  std::string title;
  bool logarithmic = false;
};

struct Chart {
  std::string title;
  ChartAxis x, y;
  std::vector<ChartSeries> series = {};
  bool diagonal = false;          // the line x = y, for predicted against measured
  int width = 760, height = 520;  // pixels
};

// Throws Error(kUsage) for a coordinate that is not finite, or not above zero on a logarithmic
// axis, naming series and point.
std::string to_svg(const Chart& chart);

}  // namespace sextant
