// Times from the command line, as `run` prints them.
#include "cli/sections/data_section.h"

#include "core/base/check.h"
#include "core/text/quantity_text.h"
#include "io/training_host.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <utility>

namespace sextant {
namespace {

constexpr std::int32_t kMostRegisters = 64;

std::int32_t registers_of(std::string_view text) {
  std::int32_t registers = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, registers);
  require(error == std::errc() && stop == end && registers >= 1 && registers <= kMostRegisters,
          ErrorCode::kUsage, "--data-times: registers={}, wanted 1 to {}", text, kMostRegisters);
  return registers;
}

std::string limiting_text(const DataSection& section) {
  if (!section.schedule.limiting)
    return fmt::format("the step limits: data come in time, every {}",
                       to_text(section.schedule.step));
  const DataActorCost& actor = section.pipeline.actors[*section.schedule.limiting];
  const double longer = to_seconds(section.schedule.step) / to_seconds(section.step) - 1;
  return fmt::format("{} limits: a step every {}, {:.1f} % more than without waiting for data",
                     actor.name, to_text(section.schedule.step), 100 * longer);
}

}  // namespace

DataPipeline parse_data_times(std::string_view text, std::string_view input) {
  DataPipeline pipeline;
  while (!text.empty()) {
    const std::size_t space = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, space);
    text.remove_prefix(std::min(space + 1, text.size()));
    if (word.empty()) continue;
    const std::size_t equals = word.find('=');
    require(equals != std::string_view::npos && equals > 0, ErrorCode::kUsage,
            "--data-times: '{}', wanted ACTOR=TIME, as in \"read=1ms decode=40ms registers=2\"",
            word);
    const std::string key(word.substr(0, equals));
    if (key == "registers")
      pipeline.num_registers = registers_of(word.substr(equals + 1));
    else
      pipeline.actors.push_back({key == input ? key : fmt::format("{}.{}", input, key),
                                 parse_duration(word.substr(equals + 1))});
  }
  require(!pipeline.actors.empty(), ErrorCode::kUsage, "--data-times: no actor has a time");
  return pipeline;
}

DataSection data_section(std::string_view text, const PhysicalGraph& graph,
                         const Timeline& timeline, Duration step) {
  const std::string_view input = has_input(graph, "images") ? "images" : "tokens";
  const std::optional<StepReads> reads = reads_of(graph, timeline, input, step);
  require(reads.has_value(), ErrorCode::kUsage,
          "--data-times: this model reads neither images nor tokens");
  DataPipeline pipeline = parse_data_times(text, input);
  DataSchedule schedule = schedule_data(pipeline, *reads);
  return {std::move(pipeline), std::move(schedule), step};
}

void say(const DataSection& section, const Console& console) {
  TextTable table({"data actor", "a step", "busy"});
  for (std::size_t a = 0; a < section.pipeline.actors.size(); ++a)
    table.add({section.pipeline.actors[a].name, to_text(section.pipeline.actors[a].per_step),
               fmt::format("{:.0f} %", 100 * section.schedule.busy[a])});
  console.say(table.text());
  console.say(limiting_text(section));
}

nlohmann::ordered_json data_json(const DataSection& section) {
  nlohmann::ordered_json actors = nlohmann::ordered_json::array(), limiting;
  for (std::size_t a = 0; a < section.pipeline.actors.size(); ++a)
    actors.push_back({{"name", section.pipeline.actors[a].name},
                      {"step_s", to_seconds(section.pipeline.actors[a].per_step)},
                      {"busy", section.schedule.busy[a]}});
  if (section.schedule.limiting)
    limiting = section.pipeline.actors[*section.schedule.limiting].name;
  return {{"registers", section.pipeline.num_registers},
          {"step_time_s", to_seconds(section.schedule.step)},
          {"limiting", limiting},
          {"actors", actors}};
}

void add_data_slices(const DataSection& section, std::vector<TraceSlice>& slices) {
  if (slices.empty()) return;
  const Rank first = slices.front().rank;
  std::vector<TraceSlice> acts;
  for (const DataAct& act : section.schedule.acts)
    acts.push_back({first, QueueRole::kHost, section.pipeline.actors[act.actor].name, act.begin,
                    act.end, 0, static_cast<std::int32_t>(act.actor)});
  const auto behind = std::find_if(slices.begin(), slices.end(),
                                   [&](const TraceSlice& slice) { return slice.rank != first; });
  slices.insert(behind, acts.begin(), acts.end());
}

}  // namespace sextant
