// Rows and slices as JSON for the page of html_timeline_page.h, which draws them.

#include "simulator/reports/html_timeline.h"

#include "actor/protocol/program_tables.h"
#include "core/base/check.h"
#include "simulator/reports/html_timeline_page.h"
#include "simulator/reports/named_parts.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

namespace sextant {

namespace {

using Json = nlohmann::ordered_json;

// ---------------------------------------------------------------- rows

struct TimelineRow {
  const RankTimeline* timeline = nullptr;  // of the first
  std::vector<Rank> simulated;
  std::int64_t ranks = 0;
  Time end;
};

bool have_equal_times(const PhysicalGraph& graph, const RankTimeline& a, const RankTimeline& b) {
  if (graph.ranks[a.rank.index()].program != graph.ranks[b.rank.index()].program) return false;
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

std::vector<TimelineRow> rows_of(const PhysicalGraph& graph, const Timeline& timeline) {
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

// Indices of the rows to show, ascending.
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

// ---------------------------------------------------------------- slices

// Texts by number, each once.
class Texts {
 public:
  std::int64_t number_of(const std::string& text) {
    const auto [entry, is_new] = numbers_.try_emplace(text, numbers_.size());
    if (is_new) texts_.push_back(text);
    return static_cast<std::int64_t>(entry->second);
  }
  const std::vector<std::string>& all() const { return texts_; }

 private:
  std::map<std::string, std::size_t> numbers_;
  std::vector<std::string> texts_;
};

// Colours of the page follow this order.
std::int64_t colour_of(const Actor& actor) {
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

class TimelineLanes {
 public:
  TimelineLanes(const PhysicalGraph& graph, Texts& texts, Time origin)
      : graph_(graph), texts_(texts), origin_(origin) {}

  // Per queue in use: its name and, flat, begin and length in nanoseconds, text, colour, act.
  Json of(const RankTimeline& timeline) {
    std::map<QueueRole, std::vector<const TimedRun*>> queues;
    for (const TimedRun& run : timeline.runs) queues[run.queue].push_back(&run);
    Json lanes = Json::array();
    for (auto& [queue, runs] : queues) {
      std::stable_sort(runs.begin(), runs.end(),
                       [](const TimedRun* a, const TimedRun* b) { return a->begin < b->begin; });
      Json slices = Json::array();
      for (const TimedRun* run : runs) append(slices, timeline.rank, *run);
      lanes.push_back({{"queue", to_string(queue)}, {"slices", std::move(slices)}});
    }
    return lanes;
  }

 private:
  static double nanoseconds(Duration duration) {
    return static_cast<double>(duration.value) / 1000.0;
  }

  void append(Json& slices, Rank rank, const TimedRun& timed) {
    const RankProgram& program = graph_.program_of(rank);
    const Run& run = program.order[timed.run.index()];
    const Block& block = graph_.block_of(program.instances[run.instance.index()]);
    const Actor& actor = block.actors[static_cast<std::size_t>(run.first_actor)];
    const std::string name = actors_to_text(graph_, graph_.ranks[rank.index()].program,
                                            run.instance, run.first_actor, run.num_actors);
    slices.push_back(nanoseconds(timed.begin - origin_));
    slices.push_back(nanoseconds(timed.end - timed.begin));
    slices.push_back(texts_.number_of(name));
    slices.push_back(colour_of(actor));
    slices.push_back(run.act);
  }

  const PhysicalGraph& graph_;
  Texts& texts_;
  Time origin_;
};

Json parts_json(const StepParts& parts) {
  Json list = Json::array();
  for (const NamedPart& named : kNamedParts) {
    const StepParts::Spread& part = parts.*named.part;
    list.push_back(
        {{"name", named.name}, {"mean", part.mean_s}, {"min", part.min_s}, {"max", part.max_s}});
  }
  return list;
}

Json memory_json(const std::vector<MemoryTrack>& tracks) {
  Json list = Json::array();
  for (const MemoryTrack& track : tracks) {
    Json bytes = Json::array();
    for (const Bytes one : track.over_time) bytes.push_back(one.value);
    list.push_back({{"name", track.name}, {"bytes", std::move(bytes)}});
  }
  return list;
}

// As text inside a script element: nothing in it may end that.
std::string embedded(const Json& data) {
  std::string text = data.dump(-1, ' ', false, Json::error_handler_t::replace);
  for (std::size_t at = text.find('<'); at != std::string::npos; at = text.find('<', at))
    text.replace(at, 1, "\\u003c");
  return text;
}

}  // namespace

std::string to_html_timeline(const PhysicalGraph& graph, const Timeline& timeline,
                             const StepParts& parts, const HtmlTimelineOptions& options) {
  require(options.max_rows >= 1, ErrorCode::kUsage, "{} rows: at least 1", options.max_rows);
  const std::vector<TimelineRow> rows = rows_of(graph, timeline);
  const std::vector<std::size_t> shown = shown_rows(rows, options.max_rows);
  const Time origin = timeline.first_begin();
  Texts texts;
  TimelineLanes lanes(graph, texts, origin);
  Json shown_json = Json::array();
  for (const std::size_t index : shown)
    shown_json.push_back({{"label", label_of(graph, rows[index])},
                          {"ranks", rows[index].ranks},
                          {"lanes", lanes.of(*rows[index].timeline)}});
  const Time end = timeline.step_end.empty() ? origin : timeline.step_end.back();
  const Json data = {{"title", options.title},
                     {"notes", options.notes},
                     {"step_s", to_seconds(timeline.step_time())},
                     {"span_ns", static_cast<double>((end - origin).value) / 1000.0},
                     {"parts", parts_json(parts)},
                     {"memory", memory_json(options.memory)},
                     {"all_rows", rows.size()},
                     {"rows", std::move(shown_json)},
                     {"texts", texts.all()}};
  std::string page(kHtmlTimelinePage);
  constexpr std::string_view kPlace = "@DATA@";
  page.replace(page.find(kPlace), kPlace.size(), embedded(data));
  return page;
}

}  // namespace sextant
