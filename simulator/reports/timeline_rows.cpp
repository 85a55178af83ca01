// Few timelines are compared in full: only those with equal fingerprints.
#include "simulator/reports/timeline_rows.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

namespace sextant {
namespace {

bool have_equal_times(const PhysicalGraph& graph, const RankTimeline& a, const RankTimeline& b) {
  if (graph.ranks[a.rank].program != graph.ranks[b.rank].program) return false;
  return std::equal(a.runs.begin(), a.runs.end(), b.runs.begin(), b.runs.end(),
                    [](const TimedRun& x, const TimedRun& y) {
                      return std::tie(x.run, x.queue, x.begin, x.end) ==
                             std::tie(y.run, y.queue, y.begin, y.end);
                    });
}

// So that only few timelines need to be compared in full.
std::size_t fingerprint(const RankTimeline& timeline) {
  std::size_t hash = timeline.runs.size();
  for (const TimedRun& run : timeline.runs)
    hash = hash * 1'000'003 + static_cast<std::size_t>(run.begin.value * 31 + run.end.value);
  return hash;
}

}  // namespace

std::vector<TimelineRow> timeline_rows(const PhysicalGraph& graph, const Timeline& timeline) {
  std::vector<TimelineRow> rows;
  std::map<std::size_t, std::vector<std::size_t>> alike;  // rows by fingerprint
  for (const RankTimeline& rank : timeline.ranks) {
    std::vector<std::size_t>& candidates = alike[fingerprint(rank)];
    const auto same = std::find_if(candidates.begin(), candidates.end(), [&](std::size_t row) {
      return have_equal_times(graph, *rows[row].timeline, rank);
    });
    const std::size_t index = same == candidates.end() ? rows.size() : *same;
    if (index == rows.size()) {
      rows.push_back({&rank, {}, 0, Time()});
      for (const TimedRun& run : rank.runs) rows[index].end = std::max(rows[index].end, run.end);
      candidates.push_back(index);
    }
    TimelineRow& row = rows[index];
    row.simulated.push_back(rank.rank);
    row.ranks += rank.ranks;
  }
  return rows;
}

std::vector<std::size_t> shown_rows(const std::vector<TimelineRow>& rows, std::int64_t most) {
  std::vector<std::size_t> all(rows.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  const auto limit = static_cast<std::size_t>(most);
  if (rows.size() <= limit) return all;
  std::vector<std::size_t> latest = all;
  std::stable_sort(latest.begin(), latest.end(),
                   [&](std::size_t a, std::size_t b) { return rows[a].end > rows[b].end; });
  std::set<std::size_t> shown;
  for (std::size_t i = 0; i < limit / 4; ++i) shown.insert(latest[i]);
  for (std::size_t i = 0; shown.size() < limit && i < limit; ++i)
    shown.insert(i * (rows.size() - 1) / std::max<std::size_t>(limit - 1, 1));
  // What the even ones shared with the latest leaves room for more of those.
  for (std::size_t i = 0; shown.size() < limit; ++i) shown.insert(latest[i]);
  return {shown.begin(), shown.end()};
}

std::string label_of(const PhysicalGraph& graph, const TimelineRow& row) {
  std::string label = fmt::format("rank {}", row.simulated.front().value);
  if (row.ranks > 1) label += fmt::format(" and {} like it", row.ranks - 1);
  const std::string& program = graph.program_of(row.simulated.front()).name;
  return program.empty() ? label : label + " · " + program;
}

std::size_t launch_colour(const Actor& actor) {
  if (actor.queue == QueueRole::kCollective) return 6;
  if (actor.queue != QueueRole::kCompute) return 7;
  switch (actor.phase) {
    case Phase::kData:
      return 0;
    case Phase::kForward:
      return 1;
    case Phase::kRecompute:
      return 2;
    case Phase::kInputGrad:
      return 3;
    case Phase::kWeightGrad:
      return 4;
    case Phase::kOptimizer:
      return 5;
    case Phase::kCommunication:
      return 7;
  }
  return 0;
}

const Actor& first_actor(const PhysicalGraph& graph, Rank rank, RunId id) {
  const RankProgram& program = graph.program_of(rank);
  const Run& run = program.order[id];
  const Block& block = graph.block_of(program.instances[run.instance]);
  return block.actors[static_cast<std::size_t>(run.first_actor)];
}

}  // namespace sextant
