// What a chart must show whatever its values are: every point inside the frame, every text whole.

#include "io/svg_chart.h"

#include "core/base/error.h"

#include <doctest/doctest.h>

#include <cmath>
#include <regex>
#include <vector>

namespace sextant::svg_chart_test {
namespace {

struct Pixel {
  double x = 0, y = 0;
};

std::vector<Pixel> circles(const std::string& svg) {
  const std::regex circle("<circle cx=\"([-0-9.]+)\" cy=\"([-0-9.]+)\" r=\"3.5\"");
  std::vector<Pixel> found;
  for (auto it = std::sregex_iterator(svg.begin(), svg.end(), circle); it != std::sregex_iterator();
       ++it)
    found.push_back({std::stod((*it)[1]), std::stod((*it)[2])});
  return found;
}

Chart chart_of(std::vector<ChartPoint> points, bool logarithmic) {
  Chart chart;
  chart.title = "time";
  chart.x = {"size", logarithmic};
  chart.y = {"seconds", logarithmic};
  chart.series = {{"ours", std::move(points)}};
  return chart;
}

}  // namespace

TEST_CASE("points lie inside the frame, larger values further right and higher") {
  for (const bool logarithmic : {false, true})
    for (const double scale : {1e-9, 1.0, 3e14}) {
      const Chart chart =
          chart_of({{1 * scale, 2 * scale}, {10 * scale, 30 * scale}, {500 * scale, 31 * scale}},
                   logarithmic);
      const std::vector<Pixel> found = circles(to_svg(chart));
      REQUIRE(found.size() == 3);
      for (std::size_t i = 0; i < 3; ++i) {
        CHECK(found[i].x > 0);
        CHECK(found[i].x < chart.width);
        CHECK(found[i].y > 0);
        CHECK(found[i].y < chart.height);
        if (i == 0) continue;
        CHECK(found[i].x > found[i - 1].x);
        CHECK(found[i].y < found[i - 1].y + 1e-9);
      }
    }
}

TEST_CASE("one point, no points and equal points still make a chart") {
  CHECK(circles(to_svg(chart_of({{3, 3}}, true))).size() == 1);
  CHECK(circles(to_svg(chart_of({{0, 0}, {0, 0}}, false))).size() == 2);
  CHECK(to_svg(chart_of({}, false)).find("</svg>") != std::string::npos);
}

TEST_CASE("titles and labels keep their letters") {
  Chart chart = chart_of({{1, 1, "a < b & \"c\""}}, false);
  CHECK(to_svg(chart).find("a &lt; b &amp; &quot;c&quot;") != std::string::npos);
}

TEST_CASE("a point without a place is refused by name") {
  CHECK_THROWS_WITH_AS(to_svg(chart_of({{1, 1}, {0, 1}}, true)),
                       doctest::Contains("point 1 of series 'ours' is at 0"), Error);
  CHECK_THROWS_AS(to_svg(chart_of({{NAN, 1}}, false)), Error);
  CHECK_THROWS_AS(to_svg(chart_of({{1, INFINITY}}, false)), Error);
}

TEST_CASE("the diagonal of equal values passes through points whose values are equal") {
  Chart chart = chart_of({{1, 1}, {40, 2}}, false);
  chart.diagonal = true;
  chart.width = chart.height = 600;
  const std::string svg = to_svg(chart);
  const std::regex diagonal(
      "<line x1=\"([-0-9.]+)\" y1=\"([-0-9.]+)\" x2=\"([-0-9.]+)\" y2=\"([-0-9.]+)\" "
      "stroke=\"#999\"");
  std::smatch found;
  REQUIRE(std::regex_search(svg, found, diagonal));
  const double x1 = std::stod(found[1]), y1 = std::stod(found[2]);
  const double x2 = std::stod(found[3]), y2 = std::stod(found[4]);
  const Pixel point = circles(svg)[0];
  CHECK(std::abs((point.x - x1) * (y2 - y1) - (point.y - y1) * (x2 - x1)) / (x2 - x1) < 0.2);
}

}  // namespace sextant::svg_chart_test
