// A table by time, and what it is the front of.
#include "cli/sections/front_section.h"

#include "cli/verbs.h"
#include "core/text/counted_text.h"
#include "search/search/pareto.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace sextant {
namespace {

using Json = nlohmann::ordered_json;

std::string signed_share(double part, double whole) {
  return fmt::format("{:+.1f} %", 100 * (part / whole - 1));
}

std::string scope_of(const SearchResult& result) {
  if (result.complete())
    return "of the other strategies of the space none belongs here: what was cut by the bound "
           "cannot beat the plans of this table in both";
  return fmt::format("{} open and may belong here; --time-limit searches on",
                     counted(result.open, "strategy is", "strategies are"));
}

}  // namespace

void say_front(const SearchResult& result, const Console& console) {
  const std::vector<std::size_t> front = pareto_front(result.plans);
  const Candidate& fastest = result.plans[front.front()];
  TextTable table(
      {"time against memory", "step", "against the fastest", "memory", "against the fastest"});
  for (const std::size_t i : front) {
    const Candidate& plan = result.plans[i];
    table.add({to_string(plan.strategy), to_text(plan.step_time),
               i == front.front()
                   ? ""
                   : signed_share(to_seconds(plan.step_time), to_seconds(fastest.step_time)),
               to_text(plan.most_needed),
               i == front.front() ? ""
                                  : signed_share(static_cast<double>(plan.most_needed.value),
                                                 static_cast<double>(fastest.most_needed.value))});
  }
  console.say(table.text());
  console.say(fmt::format("{} of {}, which no other one beats in time and memory; {}", front.size(),
                          counted(result.simulated, "simulated plan"), scope_of(result)));
}

Json front_json(const SearchResult& result) {
  Json plans = Json::array();
  for (const std::size_t i : pareto_front(result.plans)) {
    const Candidate& plan = result.plans[i];
    plans.push_back({{"strategy", to_string(plan.strategy)},
                     {"step_time_s", to_seconds(plan.step_time)},
                     {"memory_bytes", plan.most_needed.value}});
  }
  return {{"plans", plans},
          {"of_simulated", result.simulated},
          {"open", result.open},
          {"complete", result.complete()}};
}

}  // namespace sextant
