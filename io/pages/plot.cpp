// Shapes live in a box of 1000 x 400 that the page stretches, lines keep their width in it; texts
// stand beside it at shares of its size.
#include "io/pages/plot.h"

#include "core/base/check.h"
#include "io/pages/chart_scale.h"
#include "io/pages/palette.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

namespace sextant {
namespace {

constexpr double kPlotWidth = 1000, kPlotHeight = 400;

void require_place(const PlotSeries& series, std::size_t point, double value,
                   const PlotAxis& axis) {
  require(std::isfinite(value) && (!axis.logarithmic || value > 0), ErrorCode::kUsage,
          "point {} of series '{}' is at {} on the axis '{}'{}", point, series.name, value,
          axis.title, axis.logarithmic ? ", which is logarithmic" : "");
}

void require_above_each_other(const PlotSeries& below, const PlotSeries& above) {
  bool same = below.points.size() == above.points.size();
  for (std::size_t i = 0; same && i < below.points.size(); ++i)
    same = below.points[i].x == above.points[i].x;
  require(same, ErrorCode::kUsage, "area '{}' has other places than '{}' below it", above.name,
          below.name);
}

// Areas as what lies under each: the first from zero.
struct StackedSeries {
  const PlotSeries* series = nullptr;
  std::vector<double> base, top;  // by point
};

std::vector<StackedSeries> stacked(const Plot& plot) {
  std::vector<StackedSeries> all;
  const StackedSeries* below = nullptr;
  all.reserve(plot.series.size());
  for (const PlotSeries& series : plot.series) {
    StackedSeries one{&series, {}, {}};
    const bool is_area = series.mark == PlotMark::kArea;
    if (is_area && below != nullptr) require_above_each_other(*below->series, series);
    for (std::size_t i = 0; i < series.points.size(); ++i) {
      require_place(series, i, series.points[i].x, plot.x);
      require_place(series, i, series.points[i].y, plot.y);
      one.base.push_back(is_area && below != nullptr ? below->top[i] : 0);
      one.top.push_back(one.base.back() + series.points[i].y);
    }
    all.push_back(std::move(one));
    if (is_area) below = &all.back();
  }
  return all;
}

struct PlotRanges {
  ChartRange x, y;
};

PlotRanges ranges_of(const Plot& plot, const std::vector<StackedSeries>& all) {
  PlotRanges ranges;
  for (const StackedSeries& one : all)
    for (std::size_t i = 0; i < one.top.size(); ++i) {
      ranges.x.add(one.series->points[i].x);
      ranges.y.add(one.top[i]);
      if (one.series->mark == PlotMark::kArea) ranges.y.add(one.base[i]);
    }
  for (const PlotLevel& level : plot.levels) ranges.y.add(level.y);
  if (plot.y.from_zero && !plot.y.logarithmic) ranges.y.add(0);
  if (plot.x.from_zero && !plot.x.logarithmic) ranges.x.add(0);
  if (!plot.diagonal) return ranges;
  for (const double value : {ranges.y.low, ranges.y.high}) ranges.x.add(value);
  return {ranges.x, ranges.x};
}

class PlotDrawing {
 public:
  explicit PlotDrawing(const Plot& plot)
      : plot_(plot),
        all_(stacked(plot)),
        ranges_(ranges_of(plot, all_)),
        x_(plot.x.logarithmic, ranges_.x, 0, kPlotWidth, plot.tight_x),
        y_(plot.y.logarithmic, ranges_.y, kPlotHeight, 0) {}

  Markup picture() {
    draw_grid();
    for (const StackedSeries& one : all_)
      if (one.series->mark == PlotMark::kArea) draw_area(one);
    if (plot_.diagonal) draw_diagonal();
    for (const PlotLevel& level : plot_.levels) draw_level(level);
    for (const StackedSeries& one : all_) draw_line_and_dots(one);
    return element("div", {{"class", "plot"}, {"role", "img"}, {"aria-label", plot_.description}},
                   text_element("div", "y-title", plot_.y.title) + y_labels() + box() + x_labels() +
                       text_element("div", "x-title", plot_.x.title)) +
           legend_of_series();
  }

 private:
  Markup box() const {
    return element("div", "plot-box",
                   element("svg",
                           {{"viewBox", fmt::format("0 0 {} {}", kPlotWidth, kPlotHeight)},
                            {"preserveAspectRatio", "none"},
                            {"aria-hidden", "true"}},
                           shapes_));
  }

  void add_path(const std::string& css_class, const std::string& path,
                const std::string& tip = "") {
    shapes_ += element("path", {{"class", css_class}, {"d", path}},
                       tip.empty() ? Markup() : text_element("title", "", tip));
  }

  std::string point(double x, double y) const {
    return fmt::format("{:.1f} {:.1f}", x_.place(x), y_.place(y));
  }

  void draw_grid() {
    std::string path;
    for (const double tick : x_.ticks())
      path += fmt::format("M{:.1f} 0V{}", x_.place(tick), kPlotHeight);
    for (const double tick : y_.ticks())
      path += fmt::format("M0 {:.1f}H{}", y_.place(tick), kPlotWidth);
    add_path("grid", path);
  }

  void draw_area(const StackedSeries& one) {
    if (one.top.empty()) return;
    std::string path;
    for (std::size_t i = 0; i < one.top.size(); ++i)
      path += (i == 0 ? "M" : "L") + point(one.series->points[i].x, one.top[i]);
    for (std::size_t i = one.top.size(); i-- > 0;)
      path += "L" + point(one.series->points[i].x, one.base[i]);
    add_path("area " + colour_class(one.series->colour), path + "Z", one.series->name);
  }

  void draw_diagonal() {
    const double low = std::max(x_.low(), y_.low()), high = std::min(x_.high(), y_.high());
    if (low < high) add_path("level", "M" + point(low, low) + "L" + point(high, high));
  }

  void draw_level(const PlotLevel& level) {
    add_path("level", fmt::format("M0 {:.1f}H{}", y_.place(level.y), kPlotWidth), level.name);
  }

  void draw_line_and_dots(const StackedSeries& one) {
    const PlotSeries& series = *one.series;
    const std::string colour = colour_class(series.colour);
    if (series.mark == PlotMark::kLine || series.mark == PlotMark::kLineAndDots) {
      std::string path;
      for (const PlotPoint& at : series.points)
        path += (path.empty() ? "M" : "L") + point(at.x, at.y);
      if (!path.empty()) add_path("line " + colour, path);
    }
    if (series.mark == PlotMark::kDots || series.mark == PlotMark::kLineAndDots)
      for (const PlotPoint& at : series.points) {
        const std::string tip =
            at.label.empty() ? fmt::format("{:.6g}, {:.6g}", at.x, at.y) : at.label;
        add_path("dot " + colour, "M" + point(at.x, at.y) + "h0", tip);
      }
  }

  Markup x_labels() const {
    Markup labels;
    for (const double tick : x_.ticks())
      labels += element("span",
                        {{"style", fmt::format("left:{:.2f}%", 100 * x_.place(tick) / kPlotWidth)}},
                        Markup(fmt::format("{:.6g}", tick)));
    return element("div", "x-labels", labels);
  }

  // The longest stands once more where it takes room, out of sight.
  Markup y_labels() const {
    Markup labels;
    std::string longest;
    for (const double tick : y_.ticks()) {
      const std::string text = fmt::format("{:.6g}", tick);
      if (text.size() > longest.size()) longest = text;
      labels += element("span",
                        {{"style", fmt::format("top:{:.2f}%", 100 * y_.place(tick) / kPlotHeight)}},
                        Markup(text));
    }
    return element("div", "y-labels", text_element("b", "", longest) + labels);
  }

  Markup legend_of_series() const {
    std::vector<LegendEntry> entries;
    for (const PlotSeries& series : plot_.series) entries.push_back({series.name, series.colour});
    for (const PlotLevel& level : plot_.levels) entries.push_back({level.name, 0, true});
    return entries.size() > 1 ? legend(entries) : Markup();
  }

  const Plot& plot_;
  const std::vector<StackedSeries> all_;
  const PlotRanges ranges_;
  const ChartScale x_, y_;
  Markup shapes_;
};

}  // namespace

Markup plot_picture(const Plot& plot) { return PlotDrawing(plot).picture(); }

}  // namespace sextant
