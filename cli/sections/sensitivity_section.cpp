// A sentence per change, each with the value at which it was timed.
#include "cli/sections/sensitivity_section.h"

#include "core/text/counted_text.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <string>
#include <vector>

namespace sextant {
namespace {

using Json = nlohmann::ordered_json;

std::string line_of(const LinkChange& change) {
  const char* const direction = change.faster ? "faster" : "slower";
  if (!change.factor)
    return fmt::format("{} ({}): it wins at none of {} {} values up to factor {:g}", change.key,
                       change.link, kChangesEachWay, direction, kMostChange);
  return fmt::format("if {} ({}) were {:.3g} % {} ({}, --what-if {}={:.4g}x), it wins with {}",
                     change.key, change.link, 100 * std::abs(*change.factor - 1), direction,
                     bandwidth_to_text(change.bandwidth), change.key, *change.factor,
                     to_text(change.runner_up));
}

std::string line_of(const BatchChange& change) {
  if (change.best && change.runner_up)
    return fmt::format("if the global batch were {}, it wins with {} against {}",
                       change.global_batch, to_text(*change.runner_up), to_text(*change.best));
  return fmt::format("if the global batch were {}, it wins: the best plan cannot have that",
                     change.global_batch);
}

std::vector<std::string> batch_lines(const std::vector<BatchChange>& changes) {
  std::vector<std::string> lines;
  std::string tried;
  for (const BatchChange& change : changes) {
    if (change.runner_up_wins()) lines.push_back(line_of(change));
    tried += fmt::format("{}{}", tried.empty() ? "" : ", ", change.global_batch);
  }
  if (lines.empty() && !tried.empty())
    lines.push_back(fmt::format("global batch: at none of {} it wins", tried));
  return lines;
}

std::vector<std::string> memory_lines(const MemoryChange& memory, const SearchResult& result) {
  std::vector<std::string> lines;
  const std::string least =
      fmt::format("memory: the best plan fits in {} a device and no less", to_text(memory.least));
  if (memory.below) {
    const Candidate& next = result.plans[*memory.below];
    lines.push_back(fmt::format("{}; below, {} wins with {}", least, to_string(next.strategy),
                                to_text(next.step_time)));
  } else {
    lines.push_back(least + "; below, no simulated plan fits");
  }
  if (memory.above)
    lines.push_back(
        fmt::format("memory: with {} a device, {} wins with {}", to_text(memory.above->most_needed),
                    to_string(memory.above->strategy), to_text(memory.above->step_time)));
  return lines;
}

Json plan_json(const Candidate& plan) {
  return {{"strategy", to_string(plan.strategy)},
          {"step_time_s", to_seconds(plan.step_time)},
          {"memory_bytes", plan.most_needed.value}};
}

Json seconds_or_null(const std::optional<Duration>& time) {
  return time ? Json(to_seconds(*time)) : Json();
}

Json link_json(const LinkChange& change) {
  Json entry = {{"key", change.key},
                {"link", change.link},
                {"direction", change.faster ? "faster" : "slower"},
                {"factor", change.factor ? Json(*change.factor) : Json()}};
  if (!change.factor) return entry;
  entry["bandwidth_bytes_per_s"] = change.bandwidth;
  entry["best_step_time_s"] = to_seconds(change.best);
  entry["runner_up_step_time_s"] = to_seconds(change.runner_up);
  return entry;
}

}  // namespace

SensitivitySection sensitivity_section(const SearchProblem& problem, const SearchResult& result,
                                       const SearchLimits& limits) {
  return {memory_change(problem, result), sensitivity(problem, result, limits)};
}

void say(const SensitivitySection& section, const SearchResult& result, const Console& console) {
  if (section.others) {
    const Candidate& runner_up = result.plans[section.others->runner_up];
    console.say(fmt::format("what would make the runner-up win, {} with {}:",
                            to_string(runner_up.strategy), to_text(runner_up.step_time)));
    for (const LinkChange& change : section.others->links) console.say("  " + line_of(change));
    for (const std::string& line : batch_lines(section.others->batch)) console.say("  " + line);
  } else {
    console.say("what would make another plan win: only one was simulated");
  }
  for (const std::string& line : memory_lines(section.memory, result)) console.say("  " + line);
  console.say(
      fmt::format("  of {} alone, links with their plans as compiled here: in a changed "
                  "cluster a search may find a third",
                  counted(result.simulated, "simulated plan")));
}

Json sensitivity_json(const SensitivitySection& section, const SearchResult& result) {
  Json document = {{"of_simulated", result.simulated}};
  if (section.others) {
    document["runner_up"] = plan_json(result.plans[section.others->runner_up]);
    document["most_factor"] = kMostChange;
    document["links"] = Json::array();
    for (const LinkChange& change : section.others->links)
      document["links"].push_back(link_json(change));
    document["global_batch"] = Json::array();
    for (const BatchChange& change : section.others->batch)
      document["global_batch"].push_back(
          {{"samples", change.global_batch},
           {"best_step_time_s", seconds_or_null(change.best)},
           {"runner_up_step_time_s", seconds_or_null(change.runner_up)},
           {"runner_up_wins", change.runner_up_wins()}});
  }
  const MemoryChange& memory = section.memory;
  document["memory"] = {{"least_bytes", memory.least.value},
                        {"below", memory.below ? plan_json(result.plans[*memory.below]) : Json()},
                        {"above", memory.above ? plan_json(*memory.above) : Json()}};
  return document;
}

}  // namespace sextant
