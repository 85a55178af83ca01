// A simulated step as one HTML page that needs nothing else: rows of ranks over time, to zoom into,
// with the parts of the step. Ranks with equal times share a row.
#pragma once

#include "core/graphs/physical_graph.h"
#include "simulator/modes/simulate.h"
#include "simulator/steps/timeline.h"

#include <cstdint>
#include <string>
#include <vector>

namespace sextant {

// Bytes in use over the step, in equal windows.
struct MemoryTrack {
  std::string name;  // of the program: "stage 0"
  std::vector<Bytes> over_time;
};

struct HtmlTimelineOptions {
  std::string title;
  std::vector<std::string> notes;  // lines under it
  std::vector<MemoryTrack> memory;
  // Of ranks whose times differ so many get a row: the first, the last, those that end last, and
  // others evenly. The page says how many there are.
  std::int64_t max_rows = 512;
};

// Throws Error(kUsage) when `max_rows` is below 1.
std::string to_html_timeline(const PhysicalGraph& graph, const Timeline& timeline,
                             const StepParts& parts, const HtmlTimelineOptions& options);

}  // namespace sextant
