// The path summed by part and by operator, and which queues have no slack.
#include "cli/sections/path_section.h"

#include "cli/verbs.h"
#include "core/text/counted_text.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

namespace sextant {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kNamesShown = 12;
constexpr std::array kParts = {PathPart::kCompute, PathPart::kCommunication, PathPart::kHost};

double share(Duration of, Duration step) {
  return step.value == 0 ? 0 : static_cast<double>(of.value) / static_cast<double>(step.value);
}

struct NamedSum {
  std::string name;
  std::int64_t launches = 0;
  Duration time;
};

// Names without the number of their layer: what repeats is one row.
std::string without_numbers(const std::string& name) {
  std::string out;
  for (const char c : name) {
    const bool is_digit = c >= '0' && c <= '9';
    if (!is_digit)
      out += c;
    else if (out.empty() || out.back() != '*')
      out += '*';
  }
  return out;
}

std::vector<NamedSum> by_name(const StepPath& path) {
  std::map<std::string, NamedSum> sums;
  for (const StepPath::Row& row : path.rows) {
    const std::string name =
        row.part == PathPart::kHost ? "(launch by the host)" : without_numbers(row.name);
    NamedSum& sum = sums[name];
    sum.name = name;
    ++sum.launches;
    sum.time += row.end - row.begin;
  }
  std::vector<NamedSum> list;
  for (auto& [name, sum] : sums) list.push_back(std::move(sum));
  std::stable_sort(list.begin(), list.end(),
                   [](const NamedSum& a, const NamedSum& b) { return a.time > b.time; });
  return list;
}

void say_names(const StepPath& path, const Console& console) {
  const std::vector<NamedSum> names = by_name(path);
  TextTable table({"on the critical path", "launches", "time", "share of the step"});
  for (std::size_t i = 0; i < std::min(names.size(), kNamesShown); ++i)
    table.add({names[i].name, fmt::format("{}", names[i].launches), to_text(names[i].time),
               percent(share(names[i].time, path.step_time))});
  console.say(table.text());
}

void say_slack(const StepPath& path, const Console& console) {
  TextTable table({"slack", "launches", "without slack", "least slack"});
  for (const StepPath::QueueSlack& queue : path.slack)
    table.add({fmt::format("rank {} {}", queue.rank.value, to_string(queue.queue)),
               fmt::format("{}", queue.launches), fmt::format("{}", queue.without_slack),
               to_text(queue.least)});
  console.say(table.text());
}

}  // namespace

void say(const StepPath& path, const Console& console) {
  std::string parts;
  for (const PathPart part : kParts) {
    Duration sum;
    for (const StepPath::Row& row : path.rows)
      if (row.part == part) sum += row.end - row.begin;
    parts += fmt::format("{}{} {}", parts.empty() ? "" : ", ", to_string(part),
                         percent(share(sum, path.step_time)));
  }
  console.say(fmt::format("critical path: {}; {}{}", counted(path.rows.size(), "launch"), parts,
                          path.steady ? "" : " (the step is not steady yet: slack ends with it)"));
  say_names(path, console);
  say_slack(path, console);
}

Json path_json(const StepPath& path) {
  Json rows = Json::array();
  for (const StepPath::Row& row : path.rows)
    rows.push_back({{"rank", row.rank.value},
                    {"queue", to_string(row.queue)},
                    {"name", row.name},
                    {"part", to_string(row.part)},
                    {"begin_s", to_seconds(row.begin)},
                    {"end_s", to_seconds(row.end)}});
  Json slack = Json::array();
  for (const StepPath::QueueSlack& queue : path.slack)
    slack.push_back({{"rank", queue.rank.value},
                     {"queue", to_string(queue.queue)},
                     {"launches", queue.launches},
                     {"without_slack", queue.without_slack},
                     {"least_slack_s", to_seconds(queue.least)}});
  return {{"steady", path.steady}, {"segments", std::move(rows)}, {"slack", std::move(slack)}};
}

}  // namespace sextant
