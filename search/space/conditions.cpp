// Conditions are tried one by one on the whole space: it is cheap to count.
#include "search/space/conditions.h"

#include "core/base/check.h"
#include "core/base/nearest.h"
#include "core/text/counted_text.h"

#include <algorithm>
#include <string>
#include <vector>

namespace sextant {

Cluster limited(const Cluster& cluster, const std::optional<Bytes>& memory) {
  Cluster result = cluster;
  if (!memory) return result;
  Bytes most = result.device.memory;
  for (const OtherDevices& other : result.other_devices) most = std::max(most, other.device.memory);
  require(*memory <= most, ErrorCode::kUsage, "--memory {}: the devices of {} have {}",
          to_text(*memory), cluster.name, to_text(most));
  result.device.memory = std::min(result.device.memory, *memory);
  for (OtherDevices& other : result.other_devices)
    other.device.memory = std::min(other.device.memory, *memory);
  return result;
}

void refuse_empty_space(std::int64_t num_devices, std::int64_t global_batch,
                        const ModelFacts& facts, const StrategyFilter& filter) {
  const auto space_with = [&](const StrategyFilter& conditions) {
    return StrategySpace(num_devices, global_batch, facts, conditions);
  };
  const StrategySpace everything = space_with(StrategyFilter());
  require(!everything.meshes().empty(), ErrorCode::kInfeasible,
          "no strategy for {} and global batch {}: no dp x cp x tp x pp divides them",
          counted(num_devices, "device"), global_batch);
  std::string all;
  for (const StrategyFilter::Condition& condition : filter.conditions()) {
    const bool fixes = condition.option == "--fix";
    const std::vector<std::string> alone = {condition.text}, none;
    const StrategyFilter only(fixes ? alone : none, fixes ? none : alone);
    require(!space_with(only).meshes().empty(), ErrorCode::kUsage,
            "{} {}: no strategy of this model on these devices is left; {} can be {}",
            condition.option, condition.text, condition.key,
            comma_list(everything.values_of(condition.key)));
    all += (all.empty() ? "" : " ") + condition.option + " " + condition.text;
  }
  fail(ErrorCode::kUsage, "{}: each is possible, but no strategy meets all of them", all);
}

}  // namespace sextant
