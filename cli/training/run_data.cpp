// Options of data that a model cannot use are refused here.
#include "cli/training/run_data.h"

#include "compiler/expand/data_actors.h"
#include "core/base/check.h"
#include "core/base/nearest.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <vector>

namespace sextant {
namespace {

std::int64_t data_registers(const RunArguments& arguments) {
  return arguments.registers.value_or(kDefaultDataRegisters);
}

}  // namespace

std::unique_ptr<SampleData> open_run_data(const PhysicalGraph& graph, const DataOptions& options) {
  const bool has_tokens = has_input(graph, "tokens"), has_images = has_input(graph, "images");
  require(
      !options.path.empty() || !has_tokens, ErrorCode::kUsage,
      "--data is needed: a text or token file or a folder of them, or `random` for uniform ids");
  const bool is_of_file = !options.path.empty() && options.path != kRandomData;
  require(is_of_file || (options.format.empty() && options.order.empty()), ErrorCode::kUsage,
          "--data-format and --data-order are of a file; there is none");
  require(options.path.empty() || has_tokens || (has_images && is_of_file), ErrorCode::kUsage,
          "--data {}: this model reads no tokens; leave it out", options.path);
  if (!is_of_file) return nullptr;
  std::unique_ptr<SampleData> data = open_data(options);
  require(reads(graph, *data), ErrorCode::kUsage,
          "--data {0}: holds {1}, and this model reads no {1} but {2}", options.path,
          data->main_input(), has_tokens ? "tokens" : "images");
  require_enough(graph, *data);
  return data;
}

std::string data_hash(const SampleData* data) {
  return data == nullptr ? kRandomData : data->fingerprint();
}

void add_data_actors_for(const SampleData* data, const RunArguments& arguments,
                         PhysicalGraph& graph) {
  const std::vector<std::string> kinds =
      data == nullptr ? std::vector<std::string>() : data->stage_kinds();
  require(!kinds.empty() || !arguments.registers, ErrorCode::kUsage,
          "--registers {}: registers of the actors that read, decode and augment images; there are "
          "none",
          arguments.registers.value_or(0));
  if (kinds.empty()) return;
  const std::int64_t registers = data_registers(arguments);
  require(registers >= 1 && registers <= kMostDataRegisters, ErrorCode::kUsage,
          "--registers {}: wanted 1 to {}", registers, kMostDataRegisters);
  add_data_actors(graph, data->main_input(), kinds, static_cast<std::int32_t>(registers));
}

TrainingHost training_host(const SampleData* data, const RunSetup& setup) {
  const std::uint64_t seed = setup.common.seed;
  const std::int64_t registers = data_registers(setup.arguments);
  return data == nullptr
             ? TrainingHost(seed, setup.room_for_data)
             : TrainingHost(*data, seed, setup.room_for_data, static_cast<std::int32_t>(registers));
}

void say_synthetic_inputs(const PhysicalGraph& graph, const SampleData* data, Bytes room,
                          const Console& console) {
  const std::vector<std::string> names = synthetic_inputs(graph, data);
  if (names.empty()) return;
  console.say("synthetic data for " + comma_list(names) + ": every step reads the same batch");
  const Bytes size = synthetic_bytes(graph, data);
  if (size > room)
    console.note(
        fmt::format("a batch of it takes {}, this machine has room for {} beside the "
                    "plan: what is beyond that is drawn anew in every step, which waits "
                    "for it",
                    to_text(size), to_text(room)));
}

void say_data(const DataTimes& times, const Console& console) {
  if (times.actors.empty()) return;
  TextTable table({"data actor", "an act", "busy"});
  for (const DataActorTime& actor : times.actors)
    table.add({actor.name, to_text(duration_from_seconds(actor.act_s)),
               fmt::format("{:.0f} %", 100 * actor.busy)});
  console.say(table.text());
  console.say(verdict_of(times).text);
}

void add_data(const DataTimes& times, const RunArguments& arguments,
              nlohmann::ordered_json& document) {
  if (times.actors.empty()) return;
  document["data"] = to_json(times);
  document["data"]["registers"] = data_registers(arguments);
}

}  // namespace sextant
