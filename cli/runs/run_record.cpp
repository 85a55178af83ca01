// JSON of run records and the small statistics behind them.
#include "cli/runs/run_record.h"

#include "actor/protocol/program_tables.h"
#include "cli/communication_report.h"
#include "cli/layer_names.h"
#include "core/base/check.h"
#include "core/text/json_reader.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <limits>

namespace sextant {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kRunRecordSchema = "sextant.run_record.v1";

std::string hex(std::uint64_t value) { return fmt::format("{:016x}", value); }

std::uint64_t from_hex(const JsonCursor& value) {
  const std::string& text = value.text();
  if (text.empty() || text.find_first_not_of("0123456789abcdef") != std::string::npos ||
      text.size() > 16)
    value.refuse("'" + text + "' is not a hexadecimal hash");
  return std::stoull(text, nullptr, 16);
}

Json optional_json(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

std::optional<double> optional_at(const JsonCursor& root, const char* key) {
  const auto value = root.find_value(key);
  return value ? std::optional(value->real()) : std::nullopt;
}

// JSON has no number for a loss that is none.
double loss_at(const JsonCursor& root, const char* key) {
  return optional_at(root, key).value_or(std::numeric_limits<double>::quiet_NaN());
}

// Before the keys: another version may have others.
void require_schema(const JsonCursor& root) {
  const auto schema = root.find("schema");
  if (schema && schema->text() != kRunRecordSchema)
    schema->refuse(
        fmt::format("'{}' is not {}, which this program reads", schema->text(), kRunRecordSchema));
}

RunEnd parse_end(const JsonCursor& value) {
  for (const RunEnd end : {RunEnd::kComplete, RunEnd::kInterrupted, RunEnd::kFailed})
    if (value.text() == to_string(end)) return end;
  value.refuse("'" + value.text() + "' is not one of complete, interrupted, failed");
}

}  // namespace

std::string_view to_string(RunEnd end) {
  switch (end) {
    case RunEnd::kComplete:
      return "complete";
    case RunEnd::kInterrupted:
      return "interrupted";
    case RunEnd::kFailed:
      return "failed";
  }
  return "?";
}

std::string to_json_text(const RunRecord& record) {
  Json issued = Json::array();
  for (const IssueHash& hash : record.issued) {
    Json queues = Json::array();
    for (const std::uint64_t queue : hash.per_queue) queues.push_back(hex(queue));
    issued.push_back({{"queues", queues}, {"edges", hex(hash.edges)}});
  }
  const Json json = {
      {"schema", kRunRecordSchema},
      {"plan_hash", record.plan_hash},
      {"strategy", record.strategy},
      {"backend", record.backend},
      {"devices", record.devices},
      {"planned_device", record.planned_device},
      {"is_planned_device", record.is_planned_device},
      {"queues", record.queues},
      {"kernels", record.kernels},
      {"seed", record.seed},
      {"end", to_string(record.end)},
      {"first_step", record.first_step},
      {"steps", record.steps},
      {"asked_steps", record.asked_steps},
      {"skipped_steps", record.skipped_steps},
      {"dropped_choices", record.dropped_choices},
      {"choices", record.choices},
      {"warm_up_steps", record.warm_up_steps},
      {"step_time_s", record.step_time_s},
      {"step_time_quartiles_s", {record.step_time_quartiles_s[0], record.step_time_quartiles_s[1]}},
      {"first_loss", record.first_loss},
      {"last_loss", record.last_loss},
      {"issued", issued},
      {"operator_time_s", record.operator_time_s},
      {"kind_time_s", record.kind_time_s},
      {"communication", record.communication ? to_json(*record.communication) : Json()},
      {"others_share", optional_json(record.others_share)},
      {"yardstick_s", optional_json(record.yardstick_s)}};
  return json.dump(1) + "\n";
}

RunRecord run_record_from_json(std::string_view text, std::string_view file_name) {
  const JsonDocument document(text, std::string(file_name));
  const JsonCursor root = document.root();
  require_schema(root);
  RunRecord record;
  record.plan_hash = root.at("plan_hash").text();
  record.strategy = root.at("strategy").text();
  record.backend = root.at("backend").text();
  if (root.contains("devices")) record.devices = root.at("devices").text();
  record.queues = root.at("queues").text();
  record.kernels = root.at("kernels").text();
  record.seed = static_cast<std::uint64_t>(root.at("seed").integer());
  record.steps = root.at("steps").integer();
  record.asked_steps = record.steps;
  // Records of earlier versions do not have these.
  if (root.contains("first_step")) record.first_step = root.at("first_step").integer();
  if (root.contains("end")) record.end = parse_end(root.at("end"));
  if (root.contains("asked_steps")) record.asked_steps = root.at("asked_steps").integer();
  if (root.contains("skipped_steps")) record.skipped_steps = root.at("skipped_steps").integer();
  if (root.contains("dropped_choices"))
    record.dropped_choices = root.at("dropped_choices").integer();
  if (root.contains("choices")) record.choices = root.at("choices").integer();
  if (root.contains("planned_device")) record.planned_device = root.at("planned_device").text();
  if (root.contains("is_planned_device"))
    record.is_planned_device = root.at("is_planned_device").boolean();
  record.warm_up_steps = root.at("warm_up_steps").integer();
  record.step_time_s = root.at("step_time_s").real();
  if (const auto quartiles = root.find("step_time_quartiles_s")) {
    const std::vector<JsonCursor> both = quartiles->elements();
    if (both.size() != 2) quartiles->refuse("wanted two quartiles");
    for (std::size_t i = 0; i < 2; ++i) record.step_time_quartiles_s[i] = both[i].real();
  }
  record.first_loss = loss_at(root, "first_loss");
  record.last_loss = loss_at(root, "last_loss");
  for (const JsonCursor& rank : root.at("issued").elements()) {
    IssueHash hash;
    for (const JsonCursor& queue : rank.at("queues").elements())
      hash.per_queue.push_back(from_hex(queue));
    hash.edges = from_hex(rank.at("edges"));
    record.issued.push_back(hash);
  }
  const auto read_times = [&](const char* key, std::map<std::string, double>& times) {
    for (const std::string& name : root.at(key).keys()) times[name] = root.at(key).at(name).real();
  };
  read_times("operator_time_s", record.operator_time_s);
  if (root.contains("kind_time_s")) read_times("kind_time_s", record.kind_time_s);
  if (const auto communication = root.find_value("communication"))
    record.communication = communication_use_from_json(*communication);
  record.others_share = optional_at(root, "others_share");
  record.yardstick_s = optional_at(root, "yardstick_s");
  return record;
}

std::string run_name(const PhysicalGraph& graph, Rank rank, RunId id) {
  const Run& run = graph.program_of(rank).order[id];
  return run_name(graph, rank, id, run.first_actor, run.num_actors);
}

std::string run_name(const PhysicalGraph& graph, Rank rank, RunId id, std::int32_t first_actor,
                     std::int32_t num_actors) {
  const Run& run = graph.program_of(rank).order[id];
  return without_layer_number(
      actors_to_text(graph, graph.ranks[rank].program, run.instance, first_actor, num_actors));
}

}  // namespace sextant
