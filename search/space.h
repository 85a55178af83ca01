// The strategies that a search is over, before anything is known about the model.
#pragma once

#include "compiler/strategy.h"

#include <cstdint>
#include <string>
#include <vector>

namespace sextant {

// All dp x tp x pp = num_devices with dp | global_batch, every micro_batch that divides the rest,
// every schedule and ZeRO stage, in a fixed order. A choice that cannot differ is listed once: with
// pp=1 all schedules are one (1f1b), with dp=1 there is nothing to shard (zero=0).
std::vector<Strategy> enumerate_strategies(std::int64_t num_devices, std::int64_t global_batch);

// "tp=4": true for strategies that have this value. Throws Error(kUsage) when the text is not one
// setting of a strategy (parse_strategy says why).
class StrategyFilter {
 public:
  explicit StrategyFilter(const std::vector<std::string>& fixed);
  bool accepts(const Strategy& strategy) const;

 private:
  std::vector<std::string> words_;  // canonical "key=value"
};

}  // namespace sextant
