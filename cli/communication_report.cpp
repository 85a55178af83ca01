// A row per queue and kind, predicted beside measured.
#include "cli/communication_report.h"

#include "cli/console.h"
#include "simulator/recordings/recording.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>
#include <vector>

namespace sextant {
namespace {

using Json = nlohmann::ordered_json;
using Row = CommunicationUse::Row;

std::string of_seconds(double seconds) { return to_text(duration_from_seconds(seconds)); }

void add_fields(const CommunicationTimes& times, Json& json) {
  json["launches"] = times.launches;
  json["in_progress_s"] = times.in_progress_s;
  json["exposed_s"] = times.exposed_s;
  json["waiting_s"] = times.waiting_s;
}

CommunicationTimes times_from(const JsonCursor& json) {
  return {json.at("launches").real(), json.at("in_progress_s").real(), json.at("exposed_s").real(),
          json.at("waiting_s").real()};
}

QueueRole queue_named(const JsonCursor& json) {
  const std::optional<QueueRole> queue = queue_of(json.text());
  if (!queue) json.refuse("'" + json.text() + "' is no queue");
  return *queue;
}

// Rows of either side, the other's zero where it has none; in the order of the measured ones.
std::vector<std::pair<Row, Row>> rows_of_both(const CommunicationComparison& both) {
  const auto other_of = [](const Row& row, const std::vector<Row>& rows) {
    const auto found = std::find_if(rows.begin(), rows.end(), [&](const Row& other) {
      return other.queue == row.queue && other.kind == row.kind;
    });
    return std::pair(found != rows.end(),
                     found != rows.end() ? *found : Row{row.queue, row.kind, {}});
  };
  std::vector<std::pair<Row, Row>> rows;
  for (const Row& measured : both.measured.rows)
    rows.emplace_back(other_of(measured, both.predicted.rows).second, measured);
  for (const Row& predicted : both.predicted.rows)
    if (const auto [has, measured] = other_of(predicted, both.measured.rows); !has)
      rows.emplace_back(predicted, measured);
  return rows;
}

std::string slowdown_text(const CommunicationUse& use) {
  return use.slowdown ? fmt::format("{:.2f}", *use.slowdown) : "n/a";
}

void say_slowdown(const CommunicationComparison& both, const Console& console) {
  const CommunicationUse& measured = both.measured;
  console.say(
      fmt::format("computation beside communication: {} (predicted {}), at {} of its time "
                  "alone (predicted {})",
                  of_seconds(measured.beside_s), of_seconds(both.predicted.beside_s),
                  slowdown_text(measured), slowdown_text(both.predicted)));
  if (measured.slowdown && measured.compared_s < 0.995 * measured.beside_s)
    console.say(
        fmt::format("of the measured, {:.0f} % is of launches that also run without "
                    "communication beside them: those tell the slow-down",
                    100 * measured.compared_s / measured.beside_s));
  if (!measured.slowdown && measured.beside_s > 0)
    console.say(
        "no launch that runs beside communication has its like without: nothing tells the "
        "slow-down");
}

}  // namespace

Json to_json(const CommunicationUse& use) {
  Json json;
  add_fields(use.all, json);
  json["computation_beside_s"] = use.beside_s;
  json["compared_s"] = use.compared_s;
  json["slowdown"] = use.slowdown ? Json(*use.slowdown) : Json();
  Json rows = Json::array();
  for (const Row& row : use.rows) {
    rows.push_back({{"queue", to_string(row.queue)}, {"kind", row.kind}});
    add_fields(row.times, rows.back());
  }
  json["rows"] = std::move(rows);
  return json;
}

CommunicationUse communication_use_from_json(const JsonCursor& json) {
  CommunicationUse use;
  use.all = times_from(json);
  use.beside_s = json.at("computation_beside_s").real();
  use.compared_s = json.at("compared_s").real();
  if (const auto slowdown = json.find_value("slowdown")) use.slowdown = slowdown->real();
  for (const JsonCursor& row : json.at("rows").elements())
    use.rows.push_back({queue_named(row.at("queue")), row.at("kind").text(), times_from(row)});
  return use;
}

void say(const CommunicationComparison& both, const Console& console) {
  if (both.measured.rows.empty() && both.predicted.rows.empty()) return;
  TextTable table({"communication", "launches", "predicted", "measured", "error",
                   "exposed, predicted", "exposed, measured", "error", "waiting"});
  const auto add = [&](const std::string& name, const CommunicationTimes& predicted,
                       const CommunicationTimes& measured) {
    table.add({name, fmt::format("{:.0f}", std::max(measured.launches, predicted.launches)),
               of_seconds(predicted.in_progress_s), of_seconds(measured.in_progress_s),
               both.error_text(predicted.in_progress_s, measured.in_progress_s),
               of_seconds(predicted.exposed_s), of_seconds(measured.exposed_s),
               both.error_text(predicted.exposed_s, measured.exposed_s),
               of_seconds(measured.waiting_s)});
  };
  add("all", both.predicted.all, both.measured.all);
  for (const auto& [predicted, measured] : rows_of_both(both))
    add(fmt::format("{}: {}", to_string(predicted.queue), predicted.kind), predicted.times,
        measured.times);
  console.say(table.text());
  say_slowdown(both, console);
}

Json to_json(const CommunicationComparison& both) {
  return {{"mode", both.mode},
          {"predicted", to_json(both.predicted)},
          {"measured", to_json(both.measured)}};
}

}  // namespace sextant
