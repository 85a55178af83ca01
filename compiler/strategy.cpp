// Text form of a strategy and its arithmetic with the batch.
#include "compiler/strategy.h"

#include "core/check.h"
#include "core/divisors.h"
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

// Every micro-batch of a step has its places in the issue order of the plan.
constexpr std::int64_t kMostMicroBatches = 1 << 16;
constexpr std::int64_t kMostPieces = 256;  // one operator joins them, which takes no more

constexpr std::array kPipelineSchedules = {Schedule::kGPipe, Schedule::kOneFOneB,
                                           Schedule::kInterleaved, Schedule::kZeroBubbleH1,
                                           Schedule::kZeroBubbleV};

std::vector<std::string> known_keys() {
  return {"dp",    "tp",      "pp",           "cp",          "cp_mode", "ep",
          "sp",    "virtual", "micro_batch",  "schedule",    "zero",    "recompute",
          "order", "pin",     "first_layers", "last_layers", "pieces"};
}

struct StrategySetting {
  std::string key, value;
};

std::string axis_names(const Strategy& strategy) {
  std::string names;
  for (const MeshAxis& axis : mesh_axes(strategy))
    names += (names.empty() ? "[" : ", ") + axis.name;
  return names + "]";
}

// "key=value key=value", blanks between; a value may hold commas.
std::vector<StrategySetting> split_settings(std::string_view text) {
  std::vector<StrategySetting> settings;
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

std::int64_t positive(const StrategySetting& setting, std::int64_t most = kLargestDegree) {
  std::int64_t value = 0;
  const char* const end = setting.value.data() + setting.value.size();
  const auto [after, failure] = std::from_chars(setting.value.data(), end, value);
  require(failure == std::errc() && after == end && value >= 1 && value <= most, ErrorCode::kUsage,
          "strategy: {}={}, wanted a whole number from 1 to {}", setting.key, setting.value, most);
  return value;
}

Schedule schedule_of(const StrategySetting& setting) {
  for (const Schedule schedule : kPipelineSchedules)
    if (setting.value == to_string(schedule)) return schedule;
  fail(ErrorCode::kUsage,
       "strategy: schedule={} is unknown, wanted gpipe, 1f1b, interleaved, zb-h1 or zb-v",
       setting.value);
}

int zero_of(const StrategySetting& setting) {
  const std::string& value = setting.value;
  require(value.size() == 1 && value[0] >= '0' && value[0] <= '3', ErrorCode::kUsage,
          "strategy: zero={} is unknown, wanted 0, 1, 2 or 3", value);
  return value[0] - '0';
}

ContextMode context_of(const StrategySetting& setting) {
  for (const ContextMode mode : {ContextMode::kRing, ContextMode::kAllToAll})
    if (setting.value == to_string(mode)) return mode;
  fail(ErrorCode::kUsage, "strategy: cp_mode={} is unknown, wanted ring or a2a", setting.value);
}

bool switch_of(const StrategySetting& setting) {
  require(setting.value == "on" || setting.value == "off", ErrorCode::kUsage,
          "strategy: {}={}, wanted on or off", setting.key, setting.value);
  return setting.value == "on";
}

Recompute recompute_of(const StrategySetting& setting) {
  using Kind = Recompute::Kind;
  for (const Kind kind : {Kind::kNone, Kind::kSelective, Kind::kFull})
    if (setting.value == to_string(Recompute{kind, 0})) return {kind, 0};
  int layers = 0;
  const char* const end = setting.value.data() + setting.value.size();
  const auto [after, failure] = std::from_chars(setting.value.data(), end, layers);
  require(failure == std::errc() && after == end && layers >= 1, ErrorCode::kUsage,
          "strategy: recompute={}, wanted none, selective, full or a number of layers of each "
          "stage",
          setting.value);
  return {Kind::kLayers, layers};
}

void require_order(const StrategySetting& setting) {
  require(setting.value == "tp,cp,dp,pp", ErrorCode::kUsage,
          "strategy: order={}: another rank order is not in this version, only order=tp,cp,dp,pp",
          setting.value);
}

// A stage is one chunk of layers, except under the schedules made for several.
void require_chunks(const Strategy& strategy) {
  const std::int64_t chunks = strategy.virtual_stages;
  switch (strategy.schedule) {
    case Schedule::kGPipe:
    case Schedule::kOneFOneB:
    case Schedule::kZeroBubbleH1:
      require(chunks == 1, ErrorCode::kUsage,
              "strategy: virtual={} with schedule={}: several chunks of layers per stage want "
              "schedule=interleaved, two of them schedule=zb-v",
              chunks, to_string(strategy.schedule));
      return;
    case Schedule::kInterleaved:
      require(chunks >= 2, ErrorCode::kUsage,
              "strategy: schedule=interleaved wants virtual=2 or more chunks of layers per stage; "
              "with one chunk it is schedule=1f1b");
      return;
    case Schedule::kZeroBubbleV:
      require(chunks == 2, ErrorCode::kUsage,
              "strategy: virtual={} with schedule=zb-v, which has two chunks of layers per stage",
              chunks);
      return;
  }
}

void require_pieces(const Strategy& strategy) {
  require(strategy.pieces == 1 || strategy.tp > 1, ErrorCode::kUsage,
          "strategy: pieces={} with tp=1: products are cut so that their collectives over tp run "
          "beside them, and there are none",
          strategy.pieces);
}

// What the settings say together.
void require_consistent(const Strategy& strategy) {
  require(strategy.dp % strategy.ep == 0, ErrorCode::kUsage,
          "strategy: ep={} does not divide dp={}: experts are spread over data-parallel replicas",
          strategy.ep, strategy.dp);
  require_chunks(strategy);
  require_pieces(strategy);
  const std::size_t axes = axes_of(strategy).count;
  for (const WordPin& pin : strategy.pins)
    require(pin.words.size() == axes, ErrorCode::kUsage,
            "strategy: {}: {} words, wanted one for each axis of {}", to_string(pin),
            pin.words.size(), axis_names(strategy));
}

NdSbp words_of_pin(const StrategySetting& setting, std::string_view text) {
  try {
    NdSbp words = parse_nd_sbp(text);
    require_clear_nesting(words);
    return words;
  } catch (const Error& error) {
    fail(ErrorCode::kUsage, "strategy: pin={}: {}", setting.value, error.what());
  }
}

// "NAME:WORDS" or "NAME[INPUT]:WORDS"; words are written without blanks.
WordPin pin_of(const StrategySetting& setting) {
  const std::size_t colon = setting.value.rfind(':');
  require(colon != std::string::npos && colon > 0 && colon + 1 < setting.value.size(),
          ErrorCode::kUsage, "strategy: pin={}, wanted pin=NAME:(WORD,WORD)", setting.value);
  WordPin pin{.name = setting.value.substr(0, colon),
              .input = std::nullopt,
              .words = words_of_pin(setting, setting.value.substr(colon + 1))};
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

// A key, or a pin of one name: several names may be pinned, each with one choice of words.
std::string given_once(const StrategySetting& setting) {
  if (setting.key != "pin") return setting.key;
  return "pin=" + setting.value.substr(0, setting.value.rfind(':'));
}

}  // namespace

std::string_view to_string(Schedule schedule) {
  switch (schedule) {
    case Schedule::kGPipe:
      return "gpipe";
    case Schedule::kOneFOneB:
      return "1f1b";
    case Schedule::kInterleaved:
      return "interleaved";
    case Schedule::kZeroBubbleH1:
      return "zb-h1";
    case Schedule::kZeroBubbleV:
      return "zb-v";
  }
  return "?";
}

std::string_view to_string(ContextMode mode) { return mode == ContextMode::kRing ? "ring" : "a2a"; }

std::string to_string(const Recompute& recompute) {
  switch (recompute.kind) {
    case Recompute::Kind::kNone:
      return "none";
    case Recompute::Kind::kSelective:
      return "selective";
    case Recompute::Kind::kFull:
      return "full";
    case Recompute::Kind::kLayers:
      return fmt::format("{}", recompute.layers);
  }
  return "?";
}

StrategyAxes axes_of(const Strategy& strategy) {
  StrategyAxes axes;
  std::size_t next = 1;
  if (strategy.ep > 1) axes.ep = next++;
  if (strategy.cp > 1) axes.cp = next++;
  if (strategy.key_head_parts > 1) axes.kv = next++;
  axes.tp = next++;
  axes.count = next;
  return axes;
}

std::vector<MeshAxis> mesh_axes(const Strategy& strategy) {
  std::vector<MeshAxis> axes = {{"dp", strategy.dp / strategy.ep}};
  if (strategy.ep > 1) axes.push_back({"ep", strategy.ep});
  if (strategy.cp > 1) axes.push_back({"cp", strategy.cp});
  if (strategy.key_head_parts > 1) axes.push_back({"kv", strategy.key_head_parts});
  axes.push_back({"tp", strategy.tp / strategy.key_head_parts});
  return axes;
}

Strategy parse_strategy(std::string_view text) {
  Strategy strategy;
  std::optional<std::int64_t> first, last;
  std::set<std::string> seen;
  for (const StrategySetting& setting : split_settings(text)) {
    const std::string once = given_once(setting);
    require(seen.insert(once).second, ErrorCode::kUsage, "strategy: {} is given twice", once);
    if (setting.key == "dp")
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
    else if (setting.key == "cp")
      strategy.cp = positive(setting);
    else if (setting.key == "cp_mode")
      strategy.context = context_of(setting);
    else if (setting.key == "ep")
      strategy.ep = positive(setting);
    else if (setting.key == "sp")
      strategy.sequence_parallel = switch_of(setting);
    else if (setting.key == "virtual")
      strategy.virtual_stages = positive(setting);
    else if (setting.key == "recompute")
      strategy.recompute = recompute_of(setting);
    else if (setting.key == "pieces")
      strategy.pieces = positive(setting, kMostPieces);
    else if (setting.key == "order")
      require_order(setting);
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
  if (strategy.schedule == Schedule::kZeroBubbleV && !seen.contains("virtual"))
    strategy.virtual_stages = 2;
  require_consistent(strategy);
  return strategy;
}

std::vector<std::string> settings_of(const Strategy& strategy) {
  std::vector<std::string> settings = {
      fmt::format("dp={}", strategy.dp),
      fmt::format("tp={}", strategy.tp),
      fmt::format("pp={}", strategy.pp),
      fmt::format("micro_batch={}", strategy.micro_batch),
      fmt::format("schedule={}", to_string(strategy.schedule)),
      fmt::format("zero={}", strategy.zero),
      fmt::format("cp={}", strategy.cp),
      fmt::format("cp_mode={}", to_string(strategy.context)),
      fmt::format("ep={}", strategy.ep),
      fmt::format("sp={}", strategy.sequence_parallel ? "on" : "off"),
      fmt::format("virtual={}", strategy.virtual_stages),
      fmt::format("recompute={}", to_string(strategy.recompute)),
      fmt::format("pieces={}", strategy.pieces),
  };
  if (!strategy.first_last_layers.empty()) {
    settings.push_back(fmt::format("first_layers={}", strategy.first_last_layers[0]));
    settings.push_back(fmt::format("last_layers={}", strategy.first_last_layers[1]));
  }
  return settings;
}

std::string to_string(const Strategy& strategy) {
  static const std::vector<std::string> defaults = settings_of(Strategy());
  constexpr std::size_t kAlways = 6;
  const std::vector<std::string> settings = settings_of(strategy);
  std::string text;
  for (std::size_t i = 0; i < settings.size(); ++i)
    if (i < kAlways || i >= defaults.size() || settings[i] != defaults[i])
      text += (text.empty() ? "" : " ") + settings[i];
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
  require(
      global_batch / samples <= kMostMicroBatches, ErrorCode::kInfeasible,
      "global batch {} with dp {} x micro_batch {} is a step of {} micro-batches, more than the "
      "{} that are planned: a larger micro_batch or dp, or a smaller global batch",
      global_batch, strategy.dp, strategy.micro_batch, global_batch / samples, kMostMicroBatches);
  if (global_batch % samples == 0) return global_batch / samples;
  std::vector<std::string> hints;
  if (global_batch % strategy.dp == 0)
    hints.push_back(fmt::format("micro_batch that would do with dp={}: {}", strategy.dp,
                                comma_list(divisors_of(global_batch / strategy.dp))));
  else
    hints.push_back(fmt::format("dp that would do with any micro_batch that divides the rest: {}",
                                comma_list(divisors_of(global_batch))));
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
