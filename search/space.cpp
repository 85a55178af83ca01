// Enumeration by divisors, and the comparison of settings by their canonical words.

#include "search/space.h"

#include "core/check.h"
#include "core/divisors.h"

#include <algorithm>

namespace sextant {

namespace {

std::vector<Schedule> schedules_for(std::int64_t pp) {
  if (pp == 1) return {Schedule::kOneFOneB};
  return {Schedule::kGPipe, Schedule::kOneFOneB, Schedule::kZeroBubbleH1};
}

}  // namespace

std::vector<Strategy> enumerate_strategies(std::int64_t num_devices, std::int64_t global_batch) {
  std::vector<Strategy> strategies;
  for (const std::int64_t pp : divisors_of(num_devices)) {
    for (const std::int64_t tp : divisors_of(num_devices / pp)) {
      const std::int64_t dp = num_devices / pp / tp;
      if (global_batch % dp != 0) continue;
      for (const std::int64_t micro_batch : divisors_of(global_batch / dp))
        for (const Schedule schedule : schedules_for(pp))
          for (const int zero : {0, 1}) {
            if (zero == 1 && dp == 1) continue;
            Strategy strategy;
            strategy.dp = dp;
            strategy.tp = tp;
            strategy.pp = pp;
            strategy.micro_batch = micro_batch;
            strategy.schedule = schedule;
            strategy.zero = zero;
            strategies.push_back(strategy);
          }
    }
  }
  return strategies;
}

StrategyFilter::StrategyFilter(const std::vector<std::string>& fixed) {
  for (const std::string& text : fixed) {
    const std::string key = text.substr(0, text.find('='));
    // Its canonical form: the word of the same key in the strategy that the text alone describes.
    const std::vector<std::string> words = settings_of(parse_strategy(text));
    const auto word = std::find_if(words.begin(), words.end(), [&](const std::string& candidate) {
      return candidate.substr(0, candidate.find('=')) == key;
    });
    require(word != words.end(), ErrorCode::kUsage,
            "'{}' cannot be fixed: wanted one of the strategy's settings", text);
    for (const std::string& before : words_)
      require(before.substr(0, before.find('=')) != key, ErrorCode::kUsage,
              "'{}' is fixed twice: {} and {}", key, before, *word);
    words_.push_back(*word);
  }
}

bool StrategyFilter::accepts(const Strategy& strategy) const {
  const std::vector<std::string> words = settings_of(strategy);
  return std::all_of(words_.begin(), words_.end(), [&](const std::string& fixed) {
    return std::find(words.begin(), words.end(), fixed) != words.end();
  });
}

}  // namespace sextant
