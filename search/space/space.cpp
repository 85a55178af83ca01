// The tree of choices, and the comparison of settings by their canonical words.

#include "search/space/space.h"

#include "core/base/check.h"
#include "core/base/divisors.h"
#include "core/base/nearest.h"
#include "core/graphs/operator.h"
#include "core/text/counted_text.h"
#include "core/text/split_text.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace sextant {

namespace {

constexpr std::int64_t kPieces[] = {1, 2, 4, StrategySpace::kMostPieces};
constexpr std::int64_t kEighths = 8;
constexpr std::size_t kSequenceDim = 1, kHeadsDim = 2;

const std::vector<std::string>& keys_of_tree() {
  static const std::vector<std::string> keys = {
      "dp",       "tp",      "pp", "cp",        "cp_mode", "ep",    "micro_batch",
      "schedule", "virtual", "sp", "recompute", "zero",    "pieces"};
  return keys;
}

std::string key_of(const std::string& setting) { return setting.substr(0, setting.find('=')); }
std::string value_of(const std::string& setting) { return setting.substr(setting.find('=') + 1); }

std::string setting_of(const Strategy& strategy, const std::string& key) {
  for (const std::string& setting : settings_of(strategy))
    if (key_of(setting) == key) return setting;
  return "";
}

// What a strategy with one setting has to have besides, to be one.
std::string companions(const std::string& key, const std::string& value) {
  if (key == "ep") return " dp=" + value;
  if (key == "pieces" && value != "1") return " tp=2";
  if (key == "schedule" && value == "interleaved") return " virtual=2";
  if (key == "virtual" && value != "1") return " schedule=interleaved";
  return "";
}

// "tp=4" as the strategy says it: one way of writing each value.
std::string canonical_setting(const std::string& text) {
  const std::string key = key_of(text);
  const Strategy strategy = parse_strategy(text + companions(key, value_of(text)));
  const std::string setting = setting_of(strategy, key);
  return setting.empty() ? text : setting;
}

bool is_in_tree(const std::string& key) {
  const auto& keys = keys_of_tree();
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

Strategy with_micro_batch(Strategy strategy, std::int64_t micro_batch) {
  strategy.micro_batch = micro_batch;
  return strategy;
}

}  // namespace

ModelFacts facts_of(const LogicalGraph& training) {
  ModelFacts facts;
  facts.blocks = std::max(training.num_layers() - 2, 0);
  std::set<std::pair<std::int64_t, std::int64_t>> sequences;  // of inputs: [batch, sequence]
  for (const LogicalOp& op : training.ops()) {
    if (is_attention(op.role) && op.phase == Phase::kForward) {
      const Shape& queries = training.tensor(op.inputs[0]).type.shape;
      if (queries.rank() <= kHeadsDim) continue;
      facts.heads = std::gcd(facts.heads, queries[kHeadsDim]);
      const Shape& keys = training.tensor(op.inputs[1]).type.shape;
      facts.key_heads = std::gcd(facts.key_heads, std::gcd(queries[kHeadsDim], keys[kHeadsDim]));
      facts.sequence = std::gcd(facts.sequence, queries[kSequenceDim]);
    }
    if (op.inputs.empty() && training.registry().get(op.kind).on_host) {
      const Shape& shape = training.tensor(op.outputs[0]).type.shape;
      if (shape.rank() > kSequenceDim) sequences.insert({shape[0], shape[kSequenceDim]});
    }
    if (!op.parameter) continue;
    facts.has_tensor_dims = facts.has_tensor_dims || op.parameter->tensor_parallel_dim;
    if (const auto dim = op.parameter->expert_parallel_dim)
      facts.experts = std::gcd(facts.experts, training.tensor(op.outputs[0]).type.shape[*dim]);
  }
  for (const LogicalTensor& tensor : training.tensors()) {
    const Shape& shape = tensor.type.shape;
    if (shape.rank() > kSequenceDim + 1 && tensor.role == TensorRole::kActivation &&
        is_floating(tensor.type.dtype) && sequences.count({shape[0], shape[kSequenceDim]}) != 0)
      facts.has_sequences = true;
  }
  return facts;
}

namespace {

// "dp=8 tp=1" are two settings, as in a strategy.
std::vector<std::string> single_settings(const std::vector<std::string>& texts) {
  std::vector<std::string> settings;
  for (const std::string& text : texts) {
    const std::vector<std::string_view> words = split_words(text);
    settings.insert(settings.end(), words.begin(), words.end());
    if (words.empty()) settings.push_back(text);  // refused by who reads it
  }
  return settings;
}

}  // namespace

StrategyFilter::StrategyFilter(const std::vector<std::string>& fixed,
                               const std::vector<std::string>& forbidden) {
  std::string outside;  // settings that the tree does not choose
  for (const std::string& text : single_settings(fixed)) {
    const std::string key = key_of(text);
    if (!is_in_tree(key)) {
      outside += (outside.empty() ? "" : " ") + text;
      continue;
    }
    const std::string setting = canonical_setting(text);
    const auto [place, is_new] = fixed_.emplace(key, value_of(setting));
    require(is_new, ErrorCode::kUsage, "'{}' is fixed twice: {}={} and {}", key, key, place->second,
            setting);
    conditions_.push_back({"--fix", setting, key});
  }
  base_ = parse_strategy(outside);
  for (const std::string& text : single_settings(forbidden)) {
    const std::string key = key_of(text);
    const std::string setting = is_in_tree(key) ? canonical_setting(text) : text;
    if (!is_in_tree(key)) parse_strategy(text);
    require(is_in_tree(key), ErrorCode::kUsage,
            "--forbid {}: the search does not choose {}, so there is nothing to forbid; it chooses "
            "{}",
            text, key, comma_list(keys_of_tree()));
    const auto given = fixed_.find(key);
    require(given == fixed_.end() || given->second != value_of(setting), ErrorCode::kUsage,
            "--fix {} and --forbid {} contradict each other", setting, setting);
    forbidden_[key].insert(value_of(setting));
    conditions_.push_back({"--forbid", setting, key});
  }
}

bool StrategyFilter::allows(std::string_view key, std::string_view value) const {
  if (conditions_.empty()) return true;
  if (const auto given = fixed_.find(key); given != fixed_.end()) return given->second == value;
  const auto out = forbidden_.find(key);
  return out == forbidden_.end() || !out->second.contains(value);
}

bool StrategyFilter::meets_fixed(const std::string& key, const std::string& value) const {
  const auto given = fixed_.find(key);
  return given == fixed_.end() || given->second == value;
}

std::int64_t StrategyFilter::fixed_layers() const {
  const auto given = fixed_.find("recompute");
  if (given == fixed_.end()) return 0;
  return parse_strategy("recompute=" + given->second).recompute.layers;
}

bool StrategyFilter::accepts(const Strategy& strategy) const {
  for (const std::string& setting : settings_of(strategy))
    if (!allows(key_of(setting), value_of(setting))) return false;
  return true;
}

std::string_view to_string(Level level) {
  switch (level) {
    case Level::kMesh:
      return "mesh";
    case Level::kMicroBatch:
      return "micro_batch";
    case Level::kSchedule:
      return "schedule";
    case Level::kRecompute:
      return "recompute";
    case Level::kSequence:
      return "sp";
    case Level::kZero:
      return "zero";
    case Level::kPieces:
      return "pieces";
  }
  return "?";
}

StrategySpace::StrategySpace(std::int64_t num_devices, std::int64_t global_batch,
                             const ModelFacts& facts, const StrategyFilter& filter)
    : num_devices_(num_devices), global_batch_(global_batch), facts_(facts), filter_(filter) {}

// Where a choice makes no difference its default stands for all: only who fixes another value means
// strategies in which it does.
bool StrategySpace::allows_choice(const std::string& key, const std::string& value,
                                  bool makes_no_difference) const {
  return makes_no_difference ? filter_.meets_fixed(key, value) : filter_.allows(key, value);
}

std::vector<SpaceNode> StrategySpace::meshes() const {
  std::vector<SpaceNode> nodes;
  const auto add = [&](const Strategy& mesh) {
    const bool allowed =
        filter_.allows("dp", mesh.dp) && filter_.allows("ep", mesh.ep) &&
        allows_choice("cp_mode", std::string(to_string(mesh.context)), mesh.cp == 1);
    if (allowed && !micro_batches(mesh).empty()) nodes.push_back({Level::kMesh, mesh});
  };
  for (const std::int64_t pp : divisors_of(num_devices_)) {
    if (!filter_.allows("pp", pp) || (pp > 1 && pp > facts_.blocks)) continue;
    for (const std::int64_t tp : divisors_of(num_devices_ / pp)) {
      if (!filter_.allows("tp", tp)) continue;
      if (facts_.heads > 0 && facts_.heads % tp != 0) continue;
      if (tp > 1 && !facts_.has_tensor_dims) continue;
      for (const std::int64_t cp : divisors_of(num_devices_ / pp / tp)) {
        if (!filter_.allows("cp", cp)) continue;
        if (cp > 1 && (facts_.sequence == 0 || facts_.sequence % cp != 0)) continue;
        const std::int64_t dp = num_devices_ / pp / tp / cp;
        if (global_batch_ % dp != 0) continue;
        for (const std::int64_t ep : divisors_of(dp)) {
          if (ep > 1 && (facts_.experts == 0 || facts_.experts % ep != 0)) continue;
          Strategy mesh = filter_.base();
          mesh.dp = dp;
          mesh.tp = tp;
          mesh.pp = pp;
          mesh.cp = cp;
          mesh.ep = ep;
          add(mesh);
          if (cp == 1 || facts_.key_heads % (cp * tp) != 0) continue;
          mesh.context = ContextMode::kAllToAll;
          add(mesh);
        }
      }
    }
  }
  return nodes;
}

std::vector<std::int64_t> StrategySpace::micro_batches(const Strategy& mesh) const {
  std::vector<std::int64_t> sizes;
  for (const std::int64_t size : divisors_of(global_batch_ / mesh.dp)) {
    if (!filter_.allows("micro_batch", size)) continue;
    if (!schedules(with_micro_batch(mesh, size)).empty()) sizes.push_back(size);
  }
  return sizes;
}

std::vector<Strategy> StrategySpace::schedules(const Strategy& strategy) const {
  std::vector<Strategy> list;
  const std::int64_t micro_batches = global_batch_ / strategy.dp / strategy.micro_batch;
  const auto add = [&](Schedule schedule, std::int64_t chunks) {
    if (!allows_choice("schedule", std::string(to_string(schedule)), strategy.pp == 1)) return;
    if (!filter_.allows("virtual", chunks)) return;
    Strategy next = strategy;
    next.schedule = schedule;
    next.virtual_stages = chunks;
    // Of each setting there is a value unless some are not allowed.
    if (filter_.conditions().empty() ||
        (!recomputes(next).empty() && !sequence_parallel(next).empty() && !zeros(next).empty() &&
         !pieces(next).empty()))
      list.push_back(std::move(next));
  };
  add(Schedule::kOneFOneB, 1);
  if (strategy.pp == 1) return list;
  if (micro_batches > 1) add(Schedule::kGPipe, 1);
  add(Schedule::kZeroBubbleH1, 1);
  if (2 * strategy.pp <= facts_.blocks) add(Schedule::kZeroBubbleV, 2);
  if (micro_batches % strategy.pp != 0 || facts_.blocks % strategy.pp != 0) return list;
  for (const std::int64_t chunks : divisors_of(facts_.blocks / strategy.pp))
    if (chunks > 1) add(Schedule::kInterleaved, chunks);
  return list;
}

std::vector<Recompute> StrategySpace::recomputes(const Strategy& strategy) const {
  using Kind = Recompute::Kind;
  std::vector<Recompute> list;
  const auto add = [&](Recompute recompute) {
    if (!filter_.speaks_of("recompute") || filter_.allows("recompute", to_string(recompute)))
      list.push_back(recompute);
  };
  add({Kind::kNone, 0});
  if (facts_.heads > 0) add({Kind::kSelective, 0});
  const std::int64_t all = strategy.pp * strategy.virtual_stages;
  const std::int64_t most = (facts_.blocks + all - 1) / all;
  // Eighths: a layer more or less changes time and memory by little.
  std::vector<std::int64_t> counts;
  for (std::int64_t eighths = 1; eighths <= kEighths; ++eighths)
    counts.push_back((most * eighths + kEighths - 1) / kEighths);
  if (const std::int64_t fixed = filter_.fixed_layers(); fixed > 0 && fixed <= most)
    counts.push_back(fixed);
  std::sort(counts.begin(), counts.end());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  for (const std::int64_t layers : counts)
    if (layers > 0) add({Kind::kLayers, static_cast<int>(layers)});
  add({Kind::kFull, 0});
  return list;
}

std::vector<bool> StrategySpace::sequence_parallel(const Strategy& strategy) const {
  std::vector<bool> list;
  if (filter_.allows("sp", std::string("off"))) list.push_back(false);
  if (strategy.tp > 1 && facts_.has_sequences && filter_.allows("sp", std::string("on")))
    list.push_back(true);
  return list;
}

std::vector<int> StrategySpace::zeros(const Strategy& strategy) const {
  std::vector<int> list;
  for (int zero = 0; zero <= (strategy.dp > 1 ? 3 : 0); ++zero)
    if (filter_.allows("zero", zero)) list.push_back(zero);
  return list;
}

std::vector<std::int64_t> StrategySpace::pieces(const Strategy& strategy) const {
  std::vector<std::int64_t> list;
  for (const std::int64_t pieces : kPieces)
    if ((pieces == 1 || strategy.tp > 1) && filter_.allows("pieces", pieces))
      list.push_back(pieces);
  return list;
}

std::vector<SpaceNode> StrategySpace::children(const SpaceNode& node) const {
  std::vector<SpaceNode> list;
  const auto add = [&](Level level, Strategy strategy) {
    list.push_back({level, std::move(strategy)});
  };
  Strategy next = node.strategy;
  switch (node.level) {
    case Level::kMesh:
      for (const std::int64_t size : micro_batches(node.strategy))
        add(Level::kMicroBatch, with_micro_batch(node.strategy, size));
      break;
    case Level::kMicroBatch:
      for (Strategy& strategy : schedules(node.strategy))
        add(Level::kSchedule, std::move(strategy));
      break;
    case Level::kSchedule:
      for (const Recompute& recompute : recomputes(node.strategy)) {
        next.recompute = recompute;
        add(Level::kRecompute, next);
      }
      break;
    case Level::kRecompute:
      for (const bool on : sequence_parallel(node.strategy)) {
        next.sequence_parallel = on;
        add(Level::kSequence, next);
      }
      break;
    case Level::kSequence:
      for (const int zero : zeros(node.strategy)) {
        next.zero = zero;
        add(Level::kZero, next);
      }
      break;
    case Level::kZero:
      for (const std::int64_t count : pieces(node.strategy)) {
        next.pieces = count;
        add(Level::kPieces, next);
      }
      break;
    case Level::kPieces:
      break;
  }
  return list;
}

std::int64_t StrategySpace::count(const SpaceNode& node) const {
  const auto number = [](const auto& list) { return static_cast<std::int64_t>(list.size()); };
  const Strategy& strategy = node.strategy;
  std::int64_t below = 1;
  switch (node.level) {
    case Level::kMesh:
    case Level::kMicroBatch: {
      below = 0;
      for (const SpaceNode& child : children(node)) below += count(child);
      return below;
    }
    case Level::kSchedule:
      below *= number(recomputes(strategy));
      [[fallthrough]];
    case Level::kRecompute:
      below *= number(sequence_parallel(strategy));
      [[fallthrough]];
    case Level::kSequence:
      below *= number(zeros(strategy));
      [[fallthrough]];
    case Level::kZero:
      below *= number(pieces(strategy));
      [[fallthrough]];
    case Level::kPieces:
      return below;
  }
  return below;
}

std::vector<Strategy> StrategySpace::layer_choices(const SpaceNode& node) const {
  std::vector<bool> sequences = {node.strategy.sequence_parallel};
  std::vector<std::int64_t> cuts = {node.strategy.pieces};
  if (node.level < Level::kSequence) sequences = sequence_parallel(node.strategy);
  if (node.level < Level::kPieces) cuts = pieces(node.strategy);
  std::vector<Strategy> choices;
  for (const bool on : sequences)
    for (const std::int64_t count : cuts) {
      choices.push_back(node.strategy);
      choices.back().sequence_parallel = on;
      choices.back().pieces = count;
    }
  return choices;
}

std::int64_t StrategySpace::count() const {
  std::int64_t all = 0;
  for (const SpaceNode& mesh : meshes()) all += count(mesh);
  return all;
}

bool StrategySpace::contains(const SpaceNode& node, const Strategy& strategy) const {
  const Strategy& own = node.strategy;
  const auto agrees = [&](Level level) {
    switch (level) {
      case Level::kMesh:
        return own.dp == strategy.dp && own.tp == strategy.tp && own.pp == strategy.pp &&
               own.cp == strategy.cp && own.ep == strategy.ep && own.context == strategy.context;
      case Level::kMicroBatch:
        return own.micro_batch == strategy.micro_batch;
      case Level::kSchedule:
        return own.schedule == strategy.schedule && own.virtual_stages == strategy.virtual_stages;
      case Level::kRecompute:
        return own.recompute == strategy.recompute;
      case Level::kSequence:
        return own.sequence_parallel == strategy.sequence_parallel;
      case Level::kZero:
        return own.zero == strategy.zero;
      case Level::kPieces:
        return own.pieces == strategy.pieces;
    }
    return false;
  };
  for (int level = 0; level <= static_cast<int>(node.level); ++level)
    if (!agrees(static_cast<Level>(level))) return false;
  return true;
}

bool StrategySpace::contains(const Strategy& strategy) const {
  std::vector<SpaceNode> level = meshes();
  while (!level.empty()) {
    const auto found = std::find_if(level.begin(), level.end(), [&](const SpaceNode& node) {
      return contains(node, strategy);
    });
    if (found == level.end()) return false;
    if (found->level == Level::kPieces) return true;
    const SpaceNode node = *found;
    level = children(node);
  }
  return false;
}

std::vector<std::string> StrategySpace::values_of(const std::string& key) const {
  const StrategySpace free(num_devices_, global_batch_, facts_, StrategyFilter());
  std::vector<std::string> values;
  const auto note = [&](const Strategy& strategy) {
    const std::string value = value_of(setting_of(strategy, key));
    if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
  };
  for (const SpaceNode& mesh : free.meshes()) {
    note(mesh.strategy);
    if (key == "dp" || key == "tp" || key == "pp" || key == "cp" || key == "ep" || key == "cp_mode")
      continue;
    for (const SpaceNode& sized : free.children(mesh)) {
      note(sized.strategy);
      if (key == "micro_batch") continue;
      for (const SpaceNode& scheduled : free.children(sized)) {
        Strategy strategy = scheduled.strategy;
        note(strategy);
        if (key == "recompute")
          for (const Recompute& one : free.recomputes(strategy))
            strategy.recompute = one, note(strategy);
        if (key == "sp")
          for (const bool on : free.sequence_parallel(strategy))
            strategy.sequence_parallel = on, note(strategy);
        if (key == "zero")
          for (const int zero : free.zeros(strategy)) strategy.zero = zero, note(strategy);
        if (key == "pieces")
          for (const std::int64_t one : free.pieces(strategy))
            strategy.pieces = one, note(strategy);
      }
    }
  }
  std::sort(values.begin(), values.end(), [](const std::string& a, const std::string& b) {
    return std::pair(a.size(), a) < std::pair(b.size(), b);
  });
  return values;
}

std::vector<std::string> StrategySpace::constraints() const {
  std::vector<std::string> sentences;
  sentences.push_back(fmt::format("dp x cp x tp x pp = {}; dp x micro_batch divides {}",
                                  counted(num_devices_, "device"), global_batch_));
  if (facts_.heads > 0)
    sentences.push_back(fmt::format(
        "tp divides {}; cp divides {}, with cp_mode=a2a cp x tp divides {}",
        counted(facts_.heads, "head"), counted(facts_.sequence, "position"),
        facts_.key_heads == facts_.heads ? "the heads"
                                         : counted(facts_.key_heads, "key/value head")));
  if (facts_.experts > 0)
    sentences.push_back(fmt::format("ep divides dp and {}", counted(facts_.experts, "expert")));
  sentences.push_back(
      fmt::format("pp x virtual is at most {}, interleaved: divides them; pieces is 1, 2, 4 or 8; "
                  "recompute=K goes by eighths of a chunk's layers",
                  counted(facts_.blocks, "layer")));
  sentences.push_back(
      "outside: idle devices, uneven stages, other orders of the mesh axes, pins, padded heads");
  return sentences;
}

}  // namespace sextant
