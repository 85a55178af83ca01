// What pictures of a timeline have in common: ranks with equal times as one row, which rows to show
// of many, and the colours of launches.
#pragma once

#include "core/base/ids.h"
#include "core/base/units.h"
#include "core/graphs/physical_graph.h"
#include "simulator/steps/timeline.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

struct TimelineRow {
  const RankTimeline* timeline = nullptr;  // of the first
  std::vector<Rank> simulated;
  std::int64_t ranks = 0;
  Time end;
};

// In the order of the timeline, which must outlive them.
std::vector<TimelineRow> timeline_rows(const PhysicalGraph& graph, const Timeline& timeline);

// Indices of at most `most` rows, ascending: the first, the last, those that end last, and others
// evenly.
std::vector<std::size_t> shown_rows(const std::vector<TimelineRow>& rows, std::int64_t most);

// "rank 0 and 7 like it · stage 0"
std::string label_of(const PhysicalGraph& graph, const TimelineRow& row);

// What launches are told apart by.
inline constexpr std::array<std::string_view, 8> kLaunchColours = {
    "data",      "forward",    "recompute",     "backward (input)", "backward (weight)",
    "optimizer", "collective", "transfer, copy"};
// A place in it.
std::size_t launch_colour(const Actor& actor);
// Of the first actor of a run.
const Actor& first_actor(const PhysicalGraph& graph, Rank rank, RunId run);

}  // namespace sextant
