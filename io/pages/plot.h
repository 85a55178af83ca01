// Points, lines and stacked areas over two axes as a picture that stretches with the page: shapes
// are SVG, every text is HTML and keeps its size.
#pragma once

#include "io/pages/markup.h"

#include <optional>
#include <string>
#include <vector>

namespace sextant {

struct PlotPoint {
  double x = 0, y = 0;
  std::string label = {};  // shown when the pointer rests on a dot
};

enum class PlotMark { kDots, kLine, kLineAndDots, kArea };

// Areas lie on the areas before them, point by point: their series have the same x.
struct PlotSeries {
  std::string name;
  std::vector<PlotPoint> points;
  PlotMark mark = PlotMark::kLine;
  int colour = 0;
};

struct PlotAxis {
  std::string title;  // with the unit: "step (ms)"
  bool logarithmic = false;
  bool from_zero = false;
};

// A value of the y axis that others are held against: a capacity, a prediction.
struct PlotLevel {
  double y = 0;
  std::string name;
};

struct Plot {
  std::string description;  // for whoever cannot see it
  PlotAxis x, y;
  std::vector<PlotSeries> series;
  std::vector<PlotLevel> levels;
  bool diagonal = false;  // the line x = y, and one range for both axes
  bool tight_x = false;   // the x axis ends where the points end
};

// Throws Error(kUsage) for a coordinate that is not finite, or not above zero on a logarithmic
// axis, naming series and point; and for areas whose points do not stand above each other.
Markup plot_picture(const Plot& plot);

}  // namespace sextant
