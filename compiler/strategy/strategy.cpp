// Text form of a strategy and its arithmetic with the batch.
#include "compiler/strategy/strategy.h"

#include "compiler/strategy/layer_counts.h"
#include "compiler/strategy/strategy_place.h"
#include "compiler/strategy/strategy_settings.h"
#include "core/base/check.h"
#include "core/base/divisors.h"
#include "core/base/nearest.h"
#include "core/text/split_text.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>
#include <set>

namespace sextant {
namespace {

// Every micro-batch of a step has its places in the issue order of the plan.
constexpr std::int64_t kMostMicroBatches = 1 << 16;

std::vector<std::string> known_keys() {
  std::vector<std::string> keys;
  for (const StrategySetting& setting : strategy_settings()) keys.emplace_back(setting.key);
  return keys;
}

struct GivenSetting {
  std::string key, value;
};

std::string axis_names(const Strategy& strategy) {
  std::string names;
  for (const MeshAxis& axis : mesh_axes(strategy))
    names += (names.empty() ? "[" : ", ") + axis.name;
  return names + "]";
}

// "key=value key=value", blanks between; a value may hold commas.
std::vector<GivenSetting> split_settings(std::string_view text) {
  std::vector<GivenSetting> settings;
  for (const std::string_view word : split_words(text)) {
    const std::size_t equals = word.find('=');
    require(equals != std::string_view::npos && equals > 0 && equals + 1 < word.size(),
            ErrorCode::kUsage, kInStrategy, "'{}' is not key=value", word);
    settings.push_back({std::string(word.substr(0, equals)), std::string(word.substr(equals + 1))});
  }
  return settings;
}

// The order of all axes from one that may leave some out: ep goes with the dp whose replicas it
// groups, others only where they have one member.
RankOrder whole_order(const Strategy& strategy, const std::vector<RankAxis>& given) {
  std::vector<RankAxis> axes = given;
  const auto is_given = [&](RankAxis axis) {
    return std::find(axes.begin(), axes.end(), axis) != axes.end();
  };
  if (!is_given(RankAxis::kEp) && is_given(RankAxis::kDp))
    axes.insert(std::find(axes.begin(), axes.end(), RankAxis::kDp), RankAxis::kEp);
  for (const RankAxis axis : kUsualOrder) {
    if (is_given(axis)) continue;
    require(extent_of(strategy, axis) == 1, ErrorCode::kUsage, kInStrategy,
            "order= leaves out {}, which has {} members: wanted its place among tp, cp, "
            "ep, dp and pp, from neighbouring ranks outwards",
            to_string(axis), extent_of(strategy, axis));
    axes.push_back(axis);
  }
  RankOrder order = kUsualOrder;
  std::copy(axes.begin(), axes.end(), order.begin());
  return order;
}

// A stage is one chunk of layers, except under the schedules made for several.
void require_chunks(const Strategy& strategy) {
  const std::int64_t chunks = strategy.virtual_stages;
  switch (strategy.schedule) {
    case Schedule::kGPipe:
    case Schedule::kOneFOneB:
    case Schedule::kZeroBubbleH1:
      require(chunks == 1, ErrorCode::kUsage, kInStrategy,
              "virtual={} with schedule={}: several chunks of layers per stage want "
              "schedule=interleaved, two of them schedule=zb-v",
              chunks, to_string(strategy.schedule));
      return;
    case Schedule::kInterleaved:
      require(chunks >= 2, ErrorCode::kUsage, kInStrategy,
              "schedule=interleaved wants virtual=2 or more chunks of layers per stage; "
              "with one chunk it is schedule=1f1b");
      return;
    case Schedule::kZeroBubbleV:
      require(chunks == 2, ErrorCode::kUsage, kInStrategy,
              "virtual={} with schedule=zb-v, which has two chunks of layers per stage", chunks);
      return;
  }
}

void require_pieces(const Strategy& strategy) {
  require(strategy.pieces == 1 || strategy.tp > 1, ErrorCode::kUsage, kInStrategy,
          "pieces={} with tp=1: products are cut so that their collectives over tp run "
          "beside them, and there are none",
          strategy.pieces);
}

// What the settings say together, beyond chunks.
void require_consistent(const Strategy& strategy) {
  require(strategy.dp % strategy.ep == 0, ErrorCode::kUsage, kInStrategy,
          "ep={} does not divide dp={}: experts are spread over data-parallel replicas",
          strategy.ep, strategy.dp);
  require_pieces(strategy);
  require_layer_list(strategy);
  const std::size_t axes = axes_of(strategy).count;
  for (const WordPin& pin : strategy.pins)
    require(pin.words.size() == axes, ErrorCode::kUsage, kInStrategy,
            "{}: {} words, wanted one for each axis of {}", to_string(pin), pin.words.size(),
            axis_names(strategy));
}

NdSbp words_of_pin(std::string_view pin, std::string_view text) {
  try {
    NdSbp words = parse_nd_sbp(text);
    require_clear_nesting(words);
    return words;
  } catch (const Error& error) {
    fail(ErrorCode::kUsage, kInStrategy, "pin={}: {}", pin, error.what());
  }
}

// A key, or a pin of one name: several names may be pinned, each with one choice of words.
std::string given_once(const GivenSetting& setting) {
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

std::string_view to_string(Precision precision) {
  return precision == Precision::kFp8 ? "fp8" : "compute";
}

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

std::string_view to_string(RankAxis axis) {
  switch (axis) {
    case RankAxis::kTp:
      return "tp";
    case RankAxis::kCp:
      return "cp";
    case RankAxis::kEp:
      return "ep";
    case RankAxis::kDp:
      return "dp";
    case RankAxis::kPp:
      return "pp";
  }
  return "?";
}

std::int64_t extent_of(const Strategy& strategy, RankAxis axis) {
  switch (axis) {
    case RankAxis::kTp:
      return strategy.tp;
    case RankAxis::kCp:
      return strategy.cp;
    case RankAxis::kEp:
      return strategy.ep;
    case RankAxis::kDp:
      return strategy.dp / strategy.ep;
    case RankAxis::kPp:
      return strategy.pp;
  }
  return 1;
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
  StrategyDraft draft;
  std::set<std::string> seen;
  for (const GivenSetting& given : split_settings(text)) {
    const std::string once = given_once(given);
    require(seen.insert(once).second, ErrorCode::kUsage, kInStrategy, "{} is given twice", once);
    const StrategySetting* const setting = find_strategy_setting(given.key);
    require(setting != nullptr, ErrorCode::kUsage, kInStrategy,
            "unknown key '{}'{}; known keys: {}", given.key, did_you_mean(given.key, known_keys()),
            comma_list(known_keys()));
    setting->read(draft, given.value);
  }
  Strategy& strategy = draft.strategy;
  if (strategy.schedule == Schedule::kZeroBubbleV && !seen.contains("virtual"))
    strategy.virtual_stages = 2;
  require_chunks(strategy);
  require(draft.first_layers.has_value() == draft.last_layers.has_value(), ErrorCode::kUsage,
          kInStrategy, "first_layers and last_layers are given together or not at all");
  require(!draft.first_layers || !seen.contains("layers"), ErrorCode::kUsage, kInStrategy,
          "layers= says all that first_layers and last_layers say: give one of them");
  if (draft.first_layers)
    strategy.layers = layers_of_outer_stages(strategy, *draft.first_layers, *draft.last_layers);
  if (!draft.order.empty()) strategy.order = whole_order(strategy, draft.order);
  require_consistent(strategy);
  if (std::count(strategy.layers.begin(), strategy.layers.end(), kEvenShare) ==
      std::ssize(strategy.layers))
    strategy.layers.clear();
  return strategy;
}

std::vector<std::string> settings_of(const Strategy& strategy) {
  std::vector<std::string> settings;
  for (const StrategySetting& setting : strategy_settings())
    if (setting.write != nullptr)
      settings.push_back(fmt::format("{}={}", setting.key, setting.write(strategy)));
  return settings;
}

std::string to_string(const Strategy& strategy) {
  static const Strategy usual;
  std::string text;
  for (const StrategySetting& setting : strategy_settings()) {
    if (setting.write == nullptr) continue;
    const std::string value = setting.write(strategy);
    if (setting.printed == StrategySetting::Printed::kAlways || value != setting.write(usual))
      text += fmt::format("{}{}={}", text.empty() ? "" : " ", setting.key, value);
  }
  for (const WordPin& pin : strategy.pins) text += " " + to_string(pin);
  return text;
}

WordPin parse_pin(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  require(colon != std::string_view::npos && colon > 0 && colon + 1 < text.size(),
          ErrorCode::kUsage, kInStrategy, "pin={}, wanted pin=NAME:(WORD,WORD)", text);
  WordPin pin{.name = std::string(text.substr(0, colon)),
              .input = std::nullopt,
              .words = words_of_pin(text, text.substr(colon + 1))};
  const std::size_t bracket = pin.name.rfind('[');
  if (pin.name.back() != ']' || bracket == std::string::npos) return pin;
  std::size_t input = 0;
  const char* const begin = pin.name.data() + bracket + 1;
  const char* const end = pin.name.data() + pin.name.size() - 1;
  const auto [after, failure] = std::from_chars(begin, end, input);
  require(failure == std::errc() && after == end && bracket > 0, ErrorCode::kUsage, kInStrategy,
          "pin={}: '{}' is no input of an operator, wanted NAME[0], NAME[1], ...", text, pin.name);
  pin.input = input;
  pin.name.resize(bracket);
  return pin;
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
