// Sums over ranks as means per rank.
#include "cli/sections/operator_section.h"

#include "cli/verbs.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace sextant {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kRowsShown = 20;

double per_rank(const OperatorSection& section, Duration sum) {
  return to_seconds(sum) / static_cast<double>(section.ranks);
}

double share(const OperatorSection& section, const OperatorUse& use) {
  return section.step_time.value == 0 ? 0
                                      : per_rank(section, use.time) / to_seconds(section.step_time);
}

// The rates that a kernel reaches; of communications, how long members wait for the last.
void add_row(const OperatorSection& section, const OperatorUse& use, TextTable& table) {
  const double seconds = to_seconds(use.time);
  const bool is_kernel = use.queue == QueueRole::kCompute && seconds > 0;
  table.add(
      {use.name, std::string(to_string(use.phase)),
       fmt::format("{:.1f}", static_cast<double>(use.acts) / static_cast<double>(section.ranks)),
       time_text(per_rank(section, use.time)), percent(share(section, use)),
       is_kernel && use.flops > 0 ? flops_rate_to_text(use.flops / seconds) : "",
       is_kernel ? bandwidth_to_text(static_cast<double>(use.bytes.value) / seconds) : "",
       is_kernel ? "" : time_text(per_rank(section, use.waiting))});
}

}  // namespace

void say(const OperatorSection& section, const Console& console) {
  TextTable table(
      {"operator", "phase", "acts", "time", "of the step", "FLOPs", "memory", "waiting"});
  const std::size_t shown = std::min(section.uses.size(), kRowsShown);
  for (std::size_t i = 0; i < shown; ++i) add_row(section, section.uses[i], table);
  console.say(table.text());
  if (shown == section.uses.size()) return;
  Duration rest;
  for (std::size_t i = shown; i < section.uses.size(); ++i) rest += section.uses[i].time;
  console.say(fmt::format("operators: {} more take {} together (means over ranks)",
                          section.uses.size() - shown, time_text(per_rank(section, rest))));
}

Json operators_json(const OperatorSection& section) {
  Json rows = Json::array();
  for (const OperatorUse& use : section.uses)
    rows.push_back(
        {{"name", use.name},
         {"kind", use.kind},
         {"phase", to_string(use.phase)},
         {"queue", to_string(use.queue)},
         {"acts", static_cast<double>(use.acts) / static_cast<double>(section.ranks)},
         {"time_s", per_rank(section, use.time)},
         {"waiting_s", per_rank(section, use.waiting)},
         {"flops", use.flops / static_cast<double>(section.ranks)},
         {"bytes", static_cast<double>(use.bytes.value) / static_cast<double>(section.ranks)}});
  return rows;
}

}  // namespace sextant
