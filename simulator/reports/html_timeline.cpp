// Rows and slices as JSON for the page of html_timeline_page.h, which draws them.

#include "simulator/reports/html_timeline.h"

#include "actor/protocol/program_tables.h"
#include "core/base/check.h"
#include "core/text/json_text.h"
#include "simulator/reports/html_timeline_page.h"
#include "simulator/reports/named_parts.h"
#include "simulator/reports/timeline_rows.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>

namespace sextant {

namespace {

using Json = nlohmann::ordered_json;

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
    const Run& run = graph_.program_of(rank).order[timed.run];
    const std::string name = actors_to_text(graph_, graph_.ranks[rank].program, run.instance,
                                            run.first_actor, run.num_actors);
    slices.push_back(nanoseconds(timed.begin - origin_));
    slices.push_back(nanoseconds(timed.end - timed.begin));
    slices.push_back(texts_.number_of(name));
    slices.push_back(launch_colour(first_actor(graph_, rank, timed.run)));
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
  std::string text = lenient_json_text(data);
  for (std::size_t at = text.find('<'); at != std::string::npos; at = text.find('<', at))
    text.replace(at, 1, "\\u003c");
  return text;
}

}  // namespace

std::string to_html_timeline(const PhysicalGraph& graph, const Timeline& timeline,
                             const StepParts& parts, const HtmlTimelineOptions& options) {
  require(options.max_rows >= 1, ErrorCode::kUsage, "{} rows: at least 1", options.max_rows);
  const std::vector<TimelineRow> rows = timeline_rows(graph, timeline);
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
                     {"colours", kLaunchColours},
                     {"all_rows", rows.size()},
                     {"rows", std::move(shown_json)},
                     {"texts", texts.all()}};
  std::string page(kHtmlTimelinePage);
  constexpr std::string_view kPlace = "@DATA@";
  page.replace(page.find(kPlace), kPlace.size(), embedded(data));
  return page;
}

}  // namespace sextant
