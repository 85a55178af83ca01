// Lines that other folders write, in one order.
#include "cli/sections/plan_notes.h"

#include "compiler/strategy/strategy_settings.h"

#include <nlohmann/json.hpp>

namespace sextant {

std::vector<std::string> plan_notes(const PlannedJob& planned, const RankUse& use) {
  std::vector<std::string> notes;
  if (!use.idle.empty()) notes.push_back(idle_text(use));
  const std::vector<std::string>& assumed = planned.plan.assumptions;
  notes.insert(notes.end(), assumed.begin(), assumed.end());
  return notes;
}

std::vector<std::string> check_notes(const PlannedJob& planned, const RankUse& use) {
  std::vector<std::string> notes = plan_notes(planned, use);
  for (const auto& lines : {settings_without_effect(planned.plan.strategy), crossing_texts(use)})
    notes.insert(notes.end(), lines.begin(), lines.end());
  return notes;
}

nlohmann::ordered_json axes_json(const RankUse& use) {
  nlohmann::ordered_json axes = nlohmann::ordered_json::array();
  for (const AxisReach& axis : use.axes)
    axes.push_back({{"axis", to_string(axis.axis)},
                    {"members", axis.members},
                    {"groups", axis.groups},
                    {"groups_across_nodes", axis.crossing},
                    {"most_nodes", axis.most_nodes}});
  return axes;
}

}  // namespace sextant
