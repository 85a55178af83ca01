// Scales map values to pixels; everything else is text.

#include "io/svg_chart.h"

#include "core/base/check.h"
#include "io/pages/chart_scale.h"
#include "io/pages/escape.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace sextant {

namespace {

constexpr int kLeft = 84, kRight = 24, kTop = 40, kBottom = 56;
constexpr std::array<const char*, 8> kColours = {"#1f77b4", "#d62728", "#2ca02c", "#9467bd",
                                                 "#ff7f0e", "#17becf", "#8c564b", "#7f7f7f"};

// ---------------------------------------------------------------- drawing

std::string text(double x, double y, const std::string& anchor, const std::string& content,
                 const std::string& more = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y,
                     anchor, more, escaped_html(content));
}

class Drawing {
 public:
  explicit Drawing(const Chart& chart)
      : chart_(chart),
        x_(chart.x.logarithmic, range(&ChartPoint::x, &ChartPoint::y), kLeft, chart.width - kRight),
        y_(chart.y.logarithmic, range(&ChartPoint::y, &ChartPoint::x), chart.height - kBottom,
           kTop) {}

  std::string svg() {
    out_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} "
        "{1}\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"{0}\" height=\"{1}\" "
        "fill=\"white\"/>\n",
        chart_.width, chart_.height);
    out_ += text(chart_.width / 2.0, 22, "middle", chart_.title, " font-size=\"15\"");
    draw_axes();
    if (chart_.diagonal) draw_diagonal();
    for (std::size_t s = 0; s < chart_.series.size(); ++s) draw(chart_.series[s], s);
    if (chart_.series.size() > 1) draw_legend();
    return out_ + "</svg>\n";
  }

 private:
  // The diagonal needs both axes over the same values.
  ChartRange range(double ChartPoint::*coordinate, double ChartPoint::*other) const {
    ChartRange range;
    for (const ChartSeries& series : chart_.series)
      for (const ChartPoint& point : series.points) {
        range.add(point.*coordinate);
        if (chart_.diagonal) range.add(point.*other);
      }
    return range;
  }

  void line(double x1, double y1, double x2, double y2, const char* style) {
    out_ += fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", x1,
                        y1, x2, y2, style);
  }

  void draw_axes() {
    const double left = kLeft, right = chart_.width - kRight;
    const double bottom = chart_.height - kBottom, top = kTop;
    for (const double tick : x_.ticks()) {
      line(x_.place(tick), top, x_.place(tick), bottom, "stroke=\"#ddd\"");
      out_ += text(x_.place(tick), bottom + 18, "middle", fmt::format("{:.6g}", tick));
    }
    for (const double tick : y_.ticks()) {
      line(left, y_.place(tick), right, y_.place(tick), "stroke=\"#ddd\"");
      out_ += text(left - 6, y_.place(tick) + 4, "end", fmt::format("{:.6g}", tick));
    }
    line(left, bottom, right, bottom, "stroke=\"black\"");
    line(left, top, left, bottom, "stroke=\"black\"");
    out_ += text((left + right) / 2, chart_.height - 14, "middle", chart_.x.title);
    const double middle = (top + bottom) / 2;
    out_ += text(18, middle, "middle", chart_.y.title,
                 fmt::format(" transform=\"rotate(-90 18 {:.1f})\"", middle));
  }

  void draw_diagonal() {
    const double low = std::max(x_.low(), y_.low()), high = std::min(x_.high(), y_.high());
    if (low >= high) return;
    line(x_.place(low), y_.place(low), x_.place(high), y_.place(high),
         "stroke=\"#999\" stroke-dasharray=\"5 4\"");
  }

  void draw(const ChartSeries& series, std::size_t number) {
    const char* colour = kColours[number % kColours.size()];
    if (series.mark != ChartMark::kPoints) {
      out_ +=
          fmt::format("<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"2\" points=\"", colour);
      for (const ChartPoint& point : series.points)
        out_ += fmt::format("{:.1f},{:.1f} ", x_.place(point.x), y_.place(point.y));
      out_ += "\"/>\n";
    }
    if (series.mark == ChartMark::kLine) return;
    for (const ChartPoint& point : series.points)
      out_ += fmt::format(
          "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" fill=\"{}\" fill-opacity=\"0.7\"><title>{}"
          "</title></circle>\n",
          x_.place(point.x), y_.place(point.y), colour,
          escaped_html(point.label.empty() ? fmt::format("{:.6g}, {:.6g}", point.x, point.y)
                                           : point.label));
  }

  void draw_legend() {
    for (std::size_t s = 0; s < chart_.series.size(); ++s) {
      const double y = kTop + 14 + 16 * static_cast<double>(s);
      out_ += fmt::format("<circle cx=\"{}\" cy=\"{:.1f}\" r=\"4\" fill=\"{}\"/>\n", kLeft + 14,
                          y - 4, kColours[s % kColours.size()]);
      out_ += text(kLeft + 24, y, "start", chart_.series[s].name);
    }
  }

  const Chart& chart_;
  ChartScale x_, y_;
  std::string out_;
};

void require_drawable(const Chart& chart) {
  const auto check = [](const ChartSeries& series, std::size_t number, double value,
                        const ChartAxis& axis) {
    require(std::isfinite(value) && (!axis.logarithmic || value > 0), ErrorCode::kUsage,
            "point {} of series '{}' is at {} on the axis '{}'{}", number, series.name, value,
            axis.title, axis.logarithmic ? ", which is logarithmic" : "");
  };
  for (const ChartSeries& series : chart.series)
    for (std::size_t i = 0; i < series.points.size(); ++i) {
      check(series, i, series.points[i].x, chart.x);
      check(series, i, series.points[i].y, chart.y);
      if (!chart.diagonal) continue;
      check(series, i, series.points[i].y, chart.x);
      check(series, i, series.points[i].x, chart.y);
    }
}

}  // namespace

std::string to_svg(const Chart& chart) {
  require_drawable(chart);
  return Drawing(chart).svg();
}

}  // namespace sextant
