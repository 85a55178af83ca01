// Rows are ranks with equal times; of many, some.
#include "cli/pages/page_units.h"
#include "cli/pages/time_part.h"
#include "core/text/counted_text.h"
#include "io/pages/lanes.h"
#include "simulator/reports/timeline_rows.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sextant {
namespace {

constexpr std::int64_t kRowsOnPage = 16;
// Kernels of a row from which on a closer look at some of them is drawn too; how many, and beside
// how many rows.
constexpr std::size_t kManyKernels = 240, kKernelsLookedAt = 48, kRowsLookedAt = 4;
// In the order of kLaunchColours.
constexpr std::array<int, kLaunchColours.size()> kPageColours = {kGreyColour, 0, 5, 1, 6, 2, 3, 4};

std::size_t lane_of(QueueRole queue) {
  if (queue == QueueRole::kCompute) return 0;
  return queue == QueueRole::kCollective ? 1 : 2;
}

// A communication is drawn from when its last member is there: those that wait for it may wait for
// most of a step.
Time first_arrival(const Timeline& timeline) {
  Time first = timeline.step_end.empty() ? Time() : timeline.step_end.back();
  for (const RankTimeline& rank : timeline.ranks)
    for (const TimedRun& run : rank.runs) first = std::min(first, run.arrived);
  return first;
}

LaneRow lane_row(const PlanView& plan, const TimelineRow& row, Time origin, double unit_s) {
  std::array<Lane, 3> lanes = {Lane{"compute", true, {}}, Lane{"collectives", false, {}},
                               Lane{"transfers and copies", false, {}}};
  for (const TimedRun& run : row.timeline->runs) {
    const Actor& actor = first_actor(plan.graph(), row.timeline->rank, run.run);
    lanes[lane_of(run.queue)].slices.push_back({to_seconds(run.arrived - origin) / unit_s,
                                                to_seconds(run.end - origin) / unit_s,
                                                kPageColours[launch_colour(actor)]});
  }
  LaneRow made{label_of(plan.graph(), row), {}};
  for (Lane& lane : lanes)
    if (lane.is_main || !lane.slices.empty()) made.lanes.push_back(std::move(lane));
  return made;
}

std::vector<LegendEntry> colours_in(const std::vector<LaneRow>& rows) {
  std::vector<LegendEntry> entries;
  for (std::size_t i = 0; i < kLaunchColours.size(); ++i) {
    const bool is_used = std::any_of(rows.begin(), rows.end(), [&](const LaneRow& row) {
      return std::any_of(row.lanes.begin(), row.lanes.end(), [&](const Lane& lane) {
        return std::any_of(lane.slices.begin(), lane.slices.end(),
                           [&](const LaneSlice& slice) { return slice.colour == kPageColours[i]; });
      });
    });
    if (is_used) entries.push_back({std::string(kLaunchColours[i]), kPageColours[i]});
  }
  return entries;
}

LanesPicture whole_step(const PlanView& plan, const std::vector<TimelineRow>& rows) {
  const Time origin = first_arrival(plan.timeline);
  const Time end = plan.timeline.step_end.empty() ? origin : plan.timeline.step_end.back();
  const double span_s = std::max(to_seconds(end - origin), 1e-12);
  const AxisUnit unit = time_unit(span_s);
  LanesPicture picture;
  picture.description =
      fmt::format("what {} of ranks do in a step of {}", counted(rows.size(), "class", "classes"),
                  to_text(plan.simulation.step_time));
  picture.axis = fmt::format("time in the step ({})", unit.name);
  picture.end = span_s / unit.size;
  for (const std::size_t index : shown_rows(rows, kRowsOnPage))
    picture.rows.push_back(lane_row(plan, rows[index], origin, unit.size));
  picture.colours = colours_in(picture.rows);
  return picture;
}

// Kernels of the first row in the order of time; the first lane has them.
std::vector<LaneSlice> kernels_in_order(const LanesPicture& picture) {
  std::vector<LaneSlice> kernels = picture.rows.front().lanes.front().slices;
  std::sort(kernels.begin(), kernels.end(),
            [](const LaneSlice& a, const LaneSlice& b) { return a.begin < b.begin; });
  return kernels;
}

// The middle kernels of the first row, of many, and what others do meanwhile.
std::optional<LanesPicture> closer_look(LanesPicture picture) {
  if (picture.rows.empty()) return std::nullopt;
  const std::vector<LaneSlice> kernels = kernels_in_order(picture);
  if (kernels.size() < kManyKernels) return std::nullopt;
  const std::size_t first = (kernels.size() - kKernelsLookedAt) / 2;
  picture.description = "the middle kernels of the first row, and what others do meanwhile";
  picture.begin = kernels[first].begin;
  picture.end = kernels[first + kKernelsLookedAt].begin;
  if (!(picture.begin < picture.end)) return std::nullopt;
  if (picture.rows.size() > kRowsLookedAt) picture.rows.resize(kRowsLookedAt);
  picture.colours.clear();
  return picture;
}

}  // namespace

PagePart timeline_part(const PlanView& plan) {
  const std::vector<TimelineRow> rows = timeline_rows(plan.graph(), plan.timeline);
  const LanesPicture whole = whole_step(plan, rows);
  Markup body = paragraph(
      "A row for ranks with equal times: kernels on the wide lane, collectives and transfers on "
      "the narrow ones, from when all their members are there. What is pale is busy for less than "
      "half of that time.");
  body += figure_of(lanes_picture(whole) + left_out(rows.size(), whole.rows.size(), "row"),
                    {plan.simulated()});
  if (const auto closer = closer_look(whole)) {
    body += text_element("h4", "", "A closer look, at the middle kernels of the first row");
    body += figure_of(lanes_picture(*closer), {plan.simulated()});
  }
  return {"Timeline", body};
}

}  // namespace sextant
