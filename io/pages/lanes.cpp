// Slices become columns, neighbouring columns of a look one piece, pieces of a look one path.
#include "io/pages/lanes.h"

#include "core/base/check.h"
#include "io/pages/chart_scale.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <map>
#include <utility>

namespace sextant {
namespace {

constexpr std::size_t kColumns = 1600;
constexpr double kMainHeight = 14, kOtherHeight = 7, kLaneGap = 1;

// Share of a column that each colour fills; grey is the last.
using ColumnShares = std::array<float, kPaletteSize + 1>;

std::size_t share_index(int colour) {
  return static_cast<std::size_t>(colour < 0 ? kPaletteSize : colour % kPaletteSize);
}

std::vector<ColumnShares> column_shares(const Lane& lane, double begin, double end) {
  std::vector<ColumnShares> columns(kColumns, ColumnShares{});
  const double scale = static_cast<double>(kColumns) / (end - begin);
  for (const LaneSlice& slice : lane.slices) {
    const double from = std::max(0.0, (slice.begin - begin) * scale);
    const double to = std::min(static_cast<double>(kColumns), (slice.end - begin) * scale);
    for (auto column = static_cast<std::size_t>(from);
         static_cast<double>(column) < to && column < kColumns; ++column) {
      const double first = std::max(from, static_cast<double>(column));
      const double last = std::min(to, static_cast<double>(column + 1));
      columns[column][share_index(slice.colour)] += static_cast<float>(last - first);
    }
  }
  return columns;
}

// How a column is drawn: nothing, or a colour, full or pale.
struct Look {
  int colour = -2;
  bool is_pale = false;
  auto operator<=>(const Look&) const = default;
  bool is_drawn() const { return colour != -2; }
};

Look look_of(const ColumnShares& shares) {
  float sum = 0;
  for (const float share : shares) sum += share;
  if (sum <= 0) return {};
  const auto most = std::max_element(shares.begin(), shares.end()) - shares.begin();
  return {most == kPaletteSize ? kGreyColour : static_cast<int>(most), sum < 0.5F};
}

std::map<Look, std::string> lane_paths(const Lane& lane, double begin, double end, double top,
                                       double height) {
  std::map<Look, std::string> paths;
  const std::vector<ColumnShares> columns = column_shares(lane, begin, end);
  for (std::size_t first = 0; first < kColumns;) {
    const Look look = look_of(columns[first]);
    std::size_t next = first + 1;
    while (next < kColumns && look_of(columns[next]) == look) ++next;
    if (look.is_drawn())
      paths[look] += fmt::format("M{} {}h{}v{}H{}z", first, top, next - first, height, first);
    first = next;
  }
  return paths;
}

double height_of(const Lane& lane) { return lane.is_main ? kMainHeight : kOtherHeight; }

Markup row_picture(const LaneRow& row, double begin, double end) {
  Markup shapes;
  double top = 0;
  for (const Lane& lane : row.lanes) {
    Markup lane_shapes = text_element("title", "", lane.name);
    for (const auto& [look, path] : lane_paths(lane, begin, end, top, height_of(lane)))
      lane_shapes += element(
          "path", {{"class", "slice " + colour_class(look.colour) + (look.is_pale ? " pale" : "")},
                   {"d", path}});
    shapes += element("g", "", lane_shapes);
    top += height_of(lane) + kLaneGap;
  }
  const double height = std::max(top, 1.0);
  return element("svg",
                 {{"viewBox", fmt::format("0 0 {} {}", kColumns, height)},
                  {"preserveAspectRatio", "none"},
                  {"aria-hidden", "true"},
                  {"style", fmt::format("height:{}px", height)}},
                 shapes);
}

Markup axis_labels(double begin, double end) {
  ChartRange range;
  range.add(begin);
  range.add(end);
  const ChartScale scale(false, range, 0, 100, true);
  Markup labels;
  for (const double tick : scale.ticks())
    labels += element("span", {{"style", fmt::format("left:{:.2f}%", scale.place(tick))}},
                      Markup(fmt::format("{:.6g}", tick)));
  return element("div", "x-labels", labels);
}

}  // namespace

Markup lanes_picture(const LanesPicture& lanes) {
  require(std::isfinite(lanes.begin) && std::isfinite(lanes.end) && lanes.begin < lanes.end,
          ErrorCode::kUsage, "lanes from {} to {} have no room", lanes.begin, lanes.end);
  Markup rows;
  for (const LaneRow& row : lanes.rows)
    rows += text_element("div", "lane-label", row.label) +
            element("div", "lane-box", row_picture(row, lanes.begin, lanes.end));
  rows += element("div", "lane-label", Markup()) + axis_labels(lanes.begin, lanes.end) +
          element("div", "lane-label", Markup()) + text_element("div", "x-title", lanes.axis);
  return element("div", {{"class", "lanes"}, {"role", "img"}, {"aria-label", lanes.description}},
                 rows) +
         legend(lanes.colours);
}

}  // namespace sextant
