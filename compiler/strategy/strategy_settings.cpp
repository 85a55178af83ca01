// One row per setting; how each value is read stands above the table.
#include "compiler/strategy/strategy_settings.h"

#include "compiler/strategy/layer_counts.h"
#include "compiler/strategy/strategy_place.h"
#include "core/base/check.h"
#include "core/text/split_text.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>

namespace sextant {
namespace {

using Printed = StrategySetting::Printed;

// Above this a degree is a slip of the keyboard; products of three still fit 64 bits.
constexpr std::int64_t kLargestDegree = 1 << 20;
constexpr std::int64_t kMostPieces = 256;  // one operator joins them, which takes no more

std::int64_t whole_number(std::string_view key, std::string_view text,
                          std::int64_t most = kLargestDegree) {
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [after, failure] = std::from_chars(text.data(), end, value);
  require(failure == std::errc() && after == end && value >= 1 && value <= most, ErrorCode::kUsage,
          kInStrategy, "{}={}, wanted a whole number from 1 to {}", key, text, most);
  return value;
}

Schedule schedule_of(std::string_view text) {
  for (const Schedule schedule : {Schedule::kGPipe, Schedule::kOneFOneB, Schedule::kInterleaved,
                                  Schedule::kZeroBubbleH1, Schedule::kZeroBubbleV})
    if (text == to_string(schedule)) return schedule;
  fail(ErrorCode::kUsage, kInStrategy,
       "schedule={} is unknown, wanted gpipe, 1f1b, interleaved, zb-h1 or zb-v", text);
}

int zero_of(std::string_view text) {
  require(text.size() == 1 && text[0] >= '0' && text[0] <= '3', ErrorCode::kUsage, kInStrategy,
          "zero={} is unknown, wanted 0, 1, 2 or 3", text);
  return text[0] - '0';
}

ContextMode context_of(std::string_view text) {
  for (const ContextMode mode : {ContextMode::kRing, ContextMode::kAllToAll})
    if (text == to_string(mode)) return mode;
  fail(ErrorCode::kUsage, kInStrategy, "cp_mode={} is unknown, wanted ring or a2a", text);
}

bool is_on(std::string_view key, std::string_view text) {
  require(text == "on" || text == "off", ErrorCode::kUsage, kInStrategy, "{}={}, wanted on or off",
          key, text);
  return text == "on";
}

Recompute recompute_of(std::string_view text) {
  using Kind = Recompute::Kind;
  for (const Kind kind : {Kind::kNone, Kind::kSelective, Kind::kFull})
    if (text == to_string(Recompute{kind, 0})) return {kind, 0};
  int layers = 0;
  const char* const end = text.data() + text.size();
  const auto [after, failure] = std::from_chars(text.data(), end, layers);
  require(failure == std::errc() && after == end && layers >= 1, ErrorCode::kUsage, kInStrategy,
          "recompute={}, wanted none, selective, full or a number of layers of each "
          "stage",
          text);
  return {Kind::kLayers, layers};
}

Precision precision_of(std::string_view text) {
  for (const Precision precision : {Precision::kCompute, Precision::kFp8})
    if (text == to_string(precision)) return precision;
  fail(ErrorCode::kUsage, kInStrategy, "precision={} is unknown, wanted compute or fp8", text);
}

std::vector<RankAxis> order_of(std::string_view text) {
  std::vector<RankAxis> order;
  for (const std::string_view name : split_text(text, ',')) {
    const auto axis = std::find_if(kUsualOrder.begin(), kUsualOrder.end(),
                                   [&](RankAxis known) { return to_string(known) == name; });
    require(axis != kUsualOrder.end(), ErrorCode::kUsage, kInStrategy,
            "order={}: '{}' is no axis, wanted tp, cp, ep, dp and pp, from neighbouring "
            "ranks outwards",
            text, name);
    require(std::find(order.begin(), order.end(), *axis) == order.end(), ErrorCode::kUsage,
            kInStrategy, "order={} names {} twice", text, name);
    order.push_back(*axis);
  }
  return order;
}

std::string order_text(const Strategy& strategy) {
  std::string text;
  for (const RankAxis axis : strategy.order)
    text += (text.empty() ? "" : ",") + std::string(to_string(axis));
  return text;
}

// The axes that have more than one member, as they stand in `order`.
std::vector<RankAxis> used_axes(const Strategy& strategy, const RankOrder& order) {
  std::vector<RankAxis> used;
  for (const RankAxis axis : order)
    if (extent_of(strategy, axis) > 1) used.push_back(axis);
  return used;
}

std::string idle_order(const Strategy& strategy) {
  const std::vector<RankAxis> used = used_axes(strategy, strategy.order);
  if (used.size() < 2) return "there are no two axes to order";
  if (used == used_axes(strategy, kUsualOrder)) return "the axes in use stand as they always do";
  return "";
}

std::string without(bool is_missing, std::string_view setting) {
  return is_missing ? std::string(setting) : "";
}

std::vector<StrategySetting> all_settings() {
  using Draft = StrategyDraft;
  using Text = std::string_view;
  return {
      {.key = "dp",
       .values = "1, 2, ...",
       .meaning = "data-parallel replicas",
       .printed = Printed::kAlways,
       .read = [](Draft& to, Text value) { to.strategy.dp = whole_number("dp", value); },
       .write = [](const Strategy& from) { return fmt::format("{}", from.dp); }},
      {.key = "tp",
       .values = "1, 2, ...",
       .meaning = "parts of every layer's matrices",
       .printed = Printed::kAlways,
       .read = [](Draft& to, Text value) { to.strategy.tp = whole_number("tp", value); },
       .write = [](const Strategy& from) { return fmt::format("{}", from.tp); }},
      {.key = "pp",
       .values = "1, 2, ...",
       .meaning = "stages of the pipeline",
       .printed = Printed::kAlways,
       .read = [](Draft& to, Text value) { to.strategy.pp = whole_number("pp", value); },
       .write = [](const Strategy& from) { return fmt::format("{}", from.pp); }},
      {.key = "micro_batch",
       .values = "1, 2, ...",
       .meaning = "samples per replica that pass the stages together",
       .printed = Printed::kAlways,
       .read = [](Draft& to,
                  Text value) { to.strategy.micro_batch = whole_number("micro_batch", value); },
       .write = [](const Strategy& from) { return fmt::format("{}", from.micro_batch); }},
      {.key = "schedule",
       .values = "gpipe, 1f1b, interleaved, zb-h1 or zb-v",
       .meaning = "order of forward and backward on a stage",
       .printed = Printed::kAlways,
       .read = [](Draft& to, Text value) { to.strategy.schedule = schedule_of(value); },
       .write = [](const Strategy& from) { return std::string(to_string(from.schedule)); },
       .choices = {"gpipe", "1f1b", "interleaved", "zb-h1", "zb-v"}},
      {.key = "zero",
       .values = "0, 1, 2 or 3",
       .meaning = "what dp divides: nothing, the optimizer's state, gradients too, parameters too",
       .printed = Printed::kAlways,
       .read = [](Draft& to, Text value) { to.strategy.zero = zero_of(value); },
       .write = [](const Strategy& from) { return fmt::format("{}", from.zero); },
       .idle = [](const Strategy& in) { return without(in.dp == 1, "dp=1"); },
       .choices = {"0", "1", "2", "3"}},
      {.key = "cp",
       .values = "1, 2, ...",
       .meaning = "parts of every sequence",
       .read = [](Draft& to, Text value) { to.strategy.cp = whole_number("cp", value); },
       .write = [](const Strategy& from) { return fmt::format("{}", from.cp); }},
      {.key = "cp_mode",
       .values = "ring or a2a",
       .meaning = "keys and values go round, or the sequence is exchanged for heads",
       .read = [](Draft& to, Text value) { to.strategy.context = context_of(value); },
       .write = [](const Strategy& from) { return std::string(to_string(from.context)); },
       .idle = [](const Strategy& in) { return without(in.cp == 1, "cp=1"); },
       .choices = {"ring", "a2a"}},
      {.key = "ep",
       .values = "1, 2, ...",
       .meaning = "replicas of dp over which experts are spread; divides dp",
       .read = [](Draft& to, Text value) { to.strategy.ep = whole_number("ep", value); },
       .write = [](const Strategy& from) { return fmt::format("{}", from.ep); }},
      {.key = "sp",
       .values = "on or off",
       .meaning = "what tp leaves whole of the activations is split along the sequence",
       .read = [](Draft& to, Text value) { to.strategy.sequence_parallel = is_on("sp", value); },
       .write =
           [](const Strategy& from) { return std::string(from.sequence_parallel ? "on" : "off"); },
       .idle = [](const Strategy& in) { return without(in.tp == 1, "tp=1"); },
       .choices = {"off", "on"}},
      {.key = "virtual",
       .values = "1, 2, ...",
       .meaning = "chunks of layers per stage, of schedule=interleaved and zb-v (2)",
       .read = [](Draft& to,
                  Text value) { to.strategy.virtual_stages = whole_number("virtual", value); },
       .write = [](const Strategy& from) { return fmt::format("{}", from.virtual_stages); }},
      {.key = "recompute",
       .values = "none, selective, full or a number of layers",
       .meaning = "what backward computes again: attention, all, the first layers of each chunk",
       .read = [](Draft& to, Text value) { to.strategy.recompute = recompute_of(value); },
       .write = [](const Strategy& from) { return to_string(from.recompute); }},
      {.key = "precision",
       .values = "compute or fp8",
       .meaning = "operands of linear layers' products: as the model computes, or in 8 bits",
       .read = [](Draft& to, Text value) { to.strategy.precision = precision_of(value); },
       .write = [](const Strategy& from) { return std::string(to_string(from.precision)); },
       .choices = {"compute", "fp8"}},
      {.key = "pieces",
       .values = "1 to 256",
       .meaning = "of products whose sum is pending over tp, to hide the reductions",
       .read = [](Draft& to,
                  Text value) { to.strategy.pieces = whole_number("pieces", value, kMostPieces); },
       .write = [](const Strategy& from) { return fmt::format("{}", from.pieces); }},
      {.key = "layers",
       .values = "balanced, or a number for each stage like 7,8,*,8",
       .meaning = "blocks of every virtual stage as a micro-batch passes them; * is an even share",
       .read = [](Draft& to, Text value) { to.strategy.layers = parse_layers(value); },
       .write = [](const Strategy& from) { return layers_to_text(from.layers); },
       .idle =
           [](const Strategy& in) {
             return without(in.pp * in.virtual_stages == 1, "one stage has all layers");
           }},
      {.key = "order",
       .values = "tp, cp, ep, dp and pp in any order, with commas",
       .meaning = "how ranks are numbered, from neighbours outwards: which axis stays in a node",
       .read = [](Draft& to, Text value) { to.order = order_of(value); },
       .write = order_text,
       .idle = idle_order},
      {.key = "pin",
       .values = "NAME:(WORD,WORD) or NAME[INPUT]:(WORD,WORD)",
       .meaning = "words of tensors by name; repeatable",
       .printed = Printed::kRepeated,
       .read = [](Draft& to, Text value) { to.strategy.pins.push_back(parse_pin(value)); }},
      {.key = "first_layers",
       .values = "1, 2, ...",
       .meaning = "blocks of the first stage, with last_layers: layers=FIRST,*,LAST",
       .printed = Printed::kNever,
       .read =
           [](Draft& to, Text value) {
             to.first_layers = static_cast<int>(whole_number("first_layers", value));
           }},
      {.key = "last_layers",
       .values = "1, 2, ...",
       .meaning = "blocks of the last stage, with first_layers",
       .printed = Printed::kNever,
       .read =
           [](Draft& to, Text value) {
             to.last_layers = static_cast<int>(whole_number("last_layers", value));
           }},
  };
}

}  // namespace

std::span<const StrategySetting> strategy_settings() {
  static const std::vector<StrategySetting> settings = all_settings();
  return settings;
}

const StrategySetting* find_strategy_setting(std::string_view key) {
  for (const StrategySetting& setting : strategy_settings())
    if (setting.key == key) return &setting;
  return nullptr;
}

std::string default_of(const StrategySetting& setting) {
  return setting.write == nullptr ? "" : setting.write(Strategy());
}

std::vector<std::string> settings_without_effect(const Strategy& strategy) {
  std::vector<std::string> idle;
  for (const StrategySetting& setting : strategy_settings()) {
    if (setting.idle == nullptr) continue;
    const std::string value = setting.write(strategy);
    const std::string reason = setting.idle(strategy);
    if (value != default_of(setting) && !reason.empty())
      idle.push_back(fmt::format("{}={} has no effect: {}", setting.key, value, reason));
  }
  return idle;
}

std::string strategy_settings_help() {
  std::string text;
  for (const StrategySetting& setting : strategy_settings()) {
    const std::string otherwise = default_of(setting);
    text += fmt::format("  {:<12} {}{}: {}\n", setting.key, setting.values,
                        otherwise.empty() ? "" : " (" + otherwise + ")", setting.meaning);
  }
  return text;
}

}  // namespace sextant
