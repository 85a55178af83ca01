// Memory in use goes with both pictures.
#include "cli/sections/picture_section.h"

#include "cli/sections/memory_section.h"
#include "core/text/counted_text.h"
#include "io/gzip.h"
#include "simulator/reports/chrome_trace.h"
#include "simulator/reports/html_timeline.h"
#include "simulator/reports/perfetto_trace.h"

#include <fmt/core.h>

#include <algorithm>

namespace sextant {
namespace {

// Over the windows that the chart of `--memory` has too.
CounterTrack memory_track(Rank rank, const ProgramMemory& program, Time origin) {
  const auto windows = static_cast<std::int64_t>(program.over_time.size());
  CounterTrack track{rank, "memory in use (bytes)", {}};
  for (std::int64_t i = 0; i < windows; ++i) {
    const std::int64_t since = (program.end - program.begin).value / windows * i;
    track.samples.push_back({program.begin + Duration(since) - origin,
                             program.over_time[static_cast<std::size_t>(i)].value});
  }
  return track;
}

void write_trace(const std::string& file, const PhysicalGraph& graph, const MemorySection& memory,
                 const Timeline& timeline, const Simulation& simulation) {
  std::vector<CounterTrack> tracks = launches_in_flight(timeline);
  const Time origin = timeline.first_begin();
  for (const RankTimeline& rank : timeline.ranks)
    tracks.push_back(
        memory_track(rank.rank, memory.programs[graph.ranks[rank.rank].program.index()], origin));
  const std::string trace = is_native_trace(file) ? to_perfetto_trace(simulation, tracks)
                                                  : to_chrome_trace(simulation, tracks);
  write_file_whole(file, file.ends_with(".gz") ? gzip(trace) : trace);
}

void write_timeline(const PictureFiles& files, const PlannedJob& planned,
                    const PhysicalGraph& graph, const MemorySection& memory,
                    const Timeline& timeline, const Simulation& simulation) {
  HtmlTimelineOptions page;
  page.title =
      fmt::format("{} on {}, simulated", name_of(planned.job.model), planned.job.cluster.name);
  page.notes = {to_string(planned.plan.strategy),
                fmt::format("step {}; {} of {} simulated", to_text(simulation.step_time),
                            simulation.ranks_simulated, counted(graph.ranks.size(), "rank"))};
  page.notes.insert(page.notes.end(), files.notes.begin(), files.notes.end());
  for (const ProgramMemory& program : memory.programs)
    page.memory.push_back({program.program, program.over_time});
  write_file_whole(files.timeline, to_html_timeline(graph, timeline, simulation.parts, page));
}

}  // namespace

bool is_native_trace(const std::string& file) {
  return file.ends_with(".pftrace") || file.ends_with(".pftrace.gz");
}

void write_pictures(const PictureFiles& files, const PlannedJob& planned,
                    const ExpandedGraph& expanded, const Timeline& timeline,
                    const Simulation& simulation) {
  const MemorySection memory = memory_section(expanded, timeline);
  if (!files.trace.empty())
    write_trace(files.trace, expanded.graph(), memory, timeline, simulation);
  if (!files.timeline.empty())
    write_timeline(files, planned, expanded.graph(), memory, timeline, simulation);
}

}  // namespace sextant
