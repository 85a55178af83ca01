// Text form of a strategy and its arithmetic with the batch.
#include "compiler/strategy.h"

#include "core/check.h"
#include "core/nearest.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <numeric>
#include <optional>
#include <set>

namespace sextant {
namespace {

// Above this a degree is a slip of the keyboard; products of three still fit 64 bits.
constexpr std::int64_t kLargestDegree = 1 << 20;

// Settings that the product names and this version can only keep at the value that changes nothing.
struct NeutralSetting {
  std::string_view key, neutral, meaning;
};
constexpr std::array kNeutralSettings = {
    NeutralSetting{"cp", "1", "context parallelism"},
    NeutralSetting{"ep", "1", "expert parallelism"},
    NeutralSetting{"sp", "off", "sequence parallelism"},
    NeutralSetting{"virtual", "1", "virtual stages"},
    NeutralSetting{"recompute", "none", "activation recomputation"},
    NeutralSetting{"order", "tp,cp,dp,pp", "another rank order"},
};

std::vector<std::string> known_keys() {
  std::vector<std::string> keys = {"dp",   "tp",           "pp",          "micro_batch", "schedule",
                                   "zero", "first_layers", "last_layers", "pin"};
  for (const NeutralSetting& setting : kNeutralSettings) keys.emplace_back(setting.key);
  return keys;
}

struct Setting {
  std::string key, value;
};

// "key=value key=value", blanks or commas between; a value may hold commas only for `order`.
std::vector<Setting> split_settings(std::string_view text) {
  std::vector<Setting> settings;
  std::size_t at = 0;
  while (true) {
    at = text.find_first_not_of(" \t\n", at);
    if (at == std::string_view::npos) return settings;
    const std::size_t end = std::min(text.find_first_of(" \t\n", at), text.size());
    const std::string_view word = text.substr(at, end - at);
    const std::size_t equals = word.find('=');
    require(equals != std::string_view::npos && equals > 0 && equals + 1 < word.size(),
            ErrorCode::kUsage, "strategy: '{}' is not key=value", word);
    settings.push_back({std::string(word.substr(0, equals)), std::string(word.substr(equals + 1))});
    at = end;
  }
}

std::int64_t positive(const Setting& setting) {
  std::int64_t value = 0;
  const char* const end = setting.value.data() + setting.value.size();
  const auto [after, failure] = std::from_chars(setting.value.data(), end, value);
  require(failure == std::errc() && after == end && value >= 1 && value <= kLargestDegree,
          ErrorCode::kUsage, "strategy: {}={}, wanted a whole number from 1 to {}", setting.key,
          setting.value, kLargestDegree);
  return value;
}

Schedule schedule_of(const Setting& setting) {
  for (const Schedule schedule : {Schedule::kGPipe, Schedule::kOneFOneB, Schedule::kZeroBubbleH1})
    if (setting.value == to_string(schedule)) return schedule;
  const bool planned = setting.value == "interleaved" || setting.value == "zb-v";
  fail(ErrorCode::kUsage, "strategy: schedule={} {}, wanted gpipe, 1f1b or zb-h1", setting.value,
       planned ? "is not in this version" : "is unknown");
}

int zero_of(const Setting& setting) {
  if (setting.value == "0") return 0;
  if (setting.value == "1") return 1;
  const bool planned = setting.value == "2" || setting.value == "3";
  fail(ErrorCode::kUsage, "strategy: zero={} {}, wanted 0 or 1", setting.value,
       planned ? "(gradients or parameters sharded) is not in this version" : "is unknown");
}

void require_neutral(const Setting& setting, const NeutralSetting& known) {
  require(setting.value == known.neutral, ErrorCode::kUsage,
          "strategy: {}={}: {} is not in this version, only {}={}", setting.key, setting.value,
          known.meaning, known.key, known.neutral);
}

// "NAME:WORDS" or "NAME[INPUT]:WORDS"; words are written without blanks.
WordPin pin_of(const Setting& setting) {
  const std::size_t colon = setting.value.rfind(':');
  require(colon != std::string::npos && colon > 0 && colon + 1 < setting.value.size(),
          ErrorCode::kUsage, "strategy: pin={}, wanted pin=NAME:(WORD,WORD)", setting.value);
  WordPin pin{.name = setting.value.substr(0, colon),
              .input = std::nullopt,
              .words = parse_nd_sbp(setting.value.substr(colon + 1))};
  require(pin.words.size() == 2, ErrorCode::kUsage,
          "strategy: pin={}: {} words, wanted one for each axis of [dp, tp]", setting.value,
          pin.words.size());
  const std::size_t bracket = pin.name.rfind('[');
  if (pin.name.back() != ']' || bracket == std::string::npos) return pin;
  std::size_t input = 0;
  const char* const begin = pin.name.data() + bracket + 1;
  const char* const end = pin.name.data() + pin.name.size() - 1;
  const auto [after, failure] = std::from_chars(begin, end, input);
  require(failure == std::errc() && after == end && bracket > 0, ErrorCode::kUsage,
          "strategy: pin={}: '{}' is no input of an operator, wanted NAME[0], NAME[1], ...",
          setting.value, pin.name);
  pin.input = input;
  pin.name.resize(bracket);
  return pin;
}

std::string list(const std::vector<std::int64_t>& values) {
  std::string text;
  for (const std::int64_t value : values)
    text += (text.empty() ? "" : ", ") + fmt::format("{}", value);
  return text;
}

std::vector<std::int64_t> divisors(std::int64_t number) {
  std::vector<std::int64_t> low, high;
  for (std::int64_t d = 1; d * d <= number; ++d) {
    if (number % d != 0) continue;
    low.push_back(d);
    if (d != number / d) high.push_back(number / d);
  }
  low.insert(low.end(), high.rbegin(), high.rend());
  return low;
}

}  // namespace

std::string_view to_string(Schedule schedule) {
  switch (schedule) {
    case Schedule::kGPipe:
      return "gpipe";
    case Schedule::kOneFOneB:
      return "1f1b";
    case Schedule::kZeroBubbleH1:
      return "zb-h1";
  }
  return "?";
}

Strategy parse_strategy(std::string_view text) {
  Strategy strategy;
  std::optional<std::int64_t> first, last;
  std::set<std::string> seen;
  for (const Setting& setting : split_settings(text)) {
    const bool is_new = seen.insert(setting.key).second;
    require(is_new || setting.key == "pin", ErrorCode::kUsage, "strategy: {} is given twice",
            setting.key);
    const auto neutral =
        std::find_if(kNeutralSettings.begin(), kNeutralSettings.end(),
                     [&](const NeutralSetting& known) { return known.key == setting.key; });
    if (neutral != kNeutralSettings.end())
      require_neutral(setting, *neutral);
    else if (setting.key == "dp")
      strategy.dp = positive(setting);
    else if (setting.key == "tp")
      strategy.tp = positive(setting);
    else if (setting.key == "pp")
      strategy.pp = positive(setting);
    else if (setting.key == "micro_batch")
      strategy.micro_batch = positive(setting);
    else if (setting.key == "schedule")
      strategy.schedule = schedule_of(setting);
    else if (setting.key == "zero")
      strategy.zero = zero_of(setting);
    else if (setting.key == "pin")
      strategy.pins.push_back(pin_of(setting));
    else if (setting.key == "first_layers")
      first = positive(setting);
    else if (setting.key == "last_layers")
      last = positive(setting);
    else
      fail(ErrorCode::kUsage, "strategy: unknown key '{}'{}; known keys: {}", setting.key,
           did_you_mean(setting.key, known_keys()), comma_list(known_keys()));
  }
  require(first.has_value() == last.has_value(), ErrorCode::kUsage,
          "strategy: first_layers and last_layers are given together or not at all");
  if (first) strategy.first_last_layers = {static_cast<int>(*first), static_cast<int>(*last)};
  return strategy;
}

std::string to_string(const Strategy& strategy) {
  std::string text =
      fmt::format("dp={} tp={} pp={} micro_batch={} schedule={} zero={}", strategy.dp, strategy.tp,
                  strategy.pp, strategy.micro_batch, to_string(strategy.schedule), strategy.zero);
  if (!strategy.first_last_layers.empty())
    text += fmt::format(" first_layers={} last_layers={}", strategy.first_last_layers[0],
                        strategy.first_last_layers[1]);
  for (const WordPin& pin : strategy.pins) text += " " + to_string(pin);
  return text;
}

std::string to_string(const WordPin& pin) {
  std::string words = to_string(pin.words);
  std::erase(words, ' ');
  return fmt::format("pin={}{}:{}", pin.name, pin.input ? fmt::format("[{}]", *pin.input) : "",
                     words);
}

std::int64_t num_micro_batches(const Strategy& strategy, std::int64_t global_batch) {
  require(global_batch >= 1, ErrorCode::kUsage, "global batch {}, wanted at least 1", global_batch);
  const std::int64_t samples = strategy.dp * strategy.micro_batch;
  if (global_batch % samples == 0) return global_batch / samples;
  std::vector<std::string> hints;
  if (global_batch % strategy.dp == 0)
    hints.push_back(fmt::format("micro_batch that would do with dp={}: {}", strategy.dp,
                                list(divisors(global_batch / strategy.dp))));
  else
    hints.push_back(fmt::format("dp that would do with any micro_batch that divides the rest: {}",
                                list(divisors(global_batch))));
  const std::int64_t below = global_batch / samples * samples;
  hints.push_back(
      below == 0 ? fmt::format("global batch that would do: {}", samples)
                 : fmt::format("global batch that would do: {} or {}", below, below + samples));
  std::string message = fmt::format("global batch {} is not divisible by dp {} x micro_batch {}",
                                    global_batch, strategy.dp, strategy.micro_batch);
  for (const std::string& hint : hints) message += "; " + hint;
  throw Error(ErrorCode::kInfeasible, message, hints);
}

}  // namespace sextant
