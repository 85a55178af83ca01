// The strategies that a search is over, as a tree: what is decided on each level, how many leaves
// are below, and which constraints the space has. Leaves are never listed.
#pragma once

#include "compiler/strategy/strategy.h"
#include "core/graphs/logical_graph.h"

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

// What of a model limits its strategies.
struct ModelFacts {
  std::int64_t blocks = 0;       // layers between the first and the last
  std::int64_t heads = 0;        // of attention: their greatest common divisor; 0: no attention
  std::int64_t key_heads = 0;    // of keys and values beside them: what can be exchanged
  std::int64_t sequence = 0;     // that attention sees, likewise
  std::int64_t experts = 0;      // 0: none
  bool has_tensor_dims = false;  // some parameter says where tensor parallelism splits it
  bool has_sequences = false;    // activations [batch, sequence, features]
};
ModelFacts facts_of(const LogicalGraph& training);

// Conditions on settings. They add up: a strategy has all values that are fixed and none that are
// forbidden.
class StrategyFilter {
 public:
  StrategyFilter() = default;
  // Texts "tp=4" or "tp=4 zero=1". Throws Error(kUsage) for text that is no setting, for a setting
  // that is fixed twice, and for a value that is fixed and forbidden.
  StrategyFilter(const std::vector<std::string>& fixed, const std::vector<std::string>& forbidden);

  bool allows(std::string_view key, std::string_view value) const;
  bool allows(std::string_view key, std::int64_t value) const {
    return !speaks_of(key) || allows(key, std::to_string(value));
  }
  // Whether some value of it is not allowed.
  bool speaks_of(std::string_view key) const {
    return !conditions_.empty() && (fixed_.contains(key) || forbidden_.contains(key));
  }
  // Of "recompute=7"; 0: no number is fixed.
  std::int64_t fixed_layers() const;
  bool meets_fixed(const std::string& key, const std::string& value) const;
  bool accepts(const Strategy& strategy) const;
  // Of the settings that the tree does not choose: a strategy that has them and is else the
  // default.
  const Strategy& base() const { return base_; }

  struct Condition {
    std::string option;  // "--fix", "--forbid"
    std::string text;    // "tp=4"
    std::string key;
  };
  const std::vector<Condition>& conditions() const { return conditions_; }

 private:
  std::map<std::string, std::string, std::less<>> fixed_;
  std::map<std::string, std::set<std::string, std::less<>>, std::less<>> forbidden_;
  std::vector<Condition> conditions_;
  Strategy base_;
};

// What a node of the tree has decided; all that is below it agrees with that.
enum class Level : std::uint8_t {
  kMesh,  // dp, tp, cp with its mode, ep, pp
  kMicroBatch,
  kSchedule,  // and chunks
  kRecompute,
  kSequence,  // sp
  kZero,
  kPieces,  // a leaf
};
std::string_view to_string(Level level);

struct SpaceNode {
  Level level = Level::kMesh;
  Strategy strategy;  // undecided settings have their defaults
};

// All dp x cp x tp x pp = devices. A choice that cannot differ is listed once: with pp=1 all
// schedules are one (1f1b), as are gpipe and 1f1b of one micro-batch; with dp=1 there is nothing to
// shard (zero=0), with tp=1 nothing to split along the sequence or to cut.
class StrategySpace {
 public:
  // Cuts of products beyond this only add latency.
  static constexpr std::int64_t kMostPieces = 8;

  StrategySpace(std::int64_t num_devices, std::int64_t global_batch, const ModelFacts& facts,
                const StrategyFilter& filter);

  std::vector<SpaceNode> meshes() const;
  // One level below; none of a leaf.
  std::vector<SpaceNode> children(const SpaceNode& node) const;
  std::int64_t count(const SpaceNode& node) const;  // leaves below it, or itself
  std::int64_t count() const;
  // What is open below the node of the settings that layers depend on, recomputation aside: with
  // each of their values, the strategy of the node.
  std::vector<Strategy> layer_choices(const SpaceNode& node) const;
  // The node's decisions are those of the strategy.
  bool contains(const SpaceNode& node, const Strategy& strategy) const;
  bool contains(const Strategy& strategy) const;

  // What the space is and what it leaves out, a sentence each.
  std::vector<std::string> constraints() const;
  // The values that a setting has in the space without conditions on it, for errors.
  std::vector<std::string> values_of(const std::string& key) const;

 private:
  bool allows_choice(const std::string& key, const std::string& value,
                     bool makes_no_difference) const;
  std::vector<std::int64_t> micro_batches(const Strategy& mesh) const;
  std::vector<Strategy> schedules(const Strategy& strategy) const;
  std::vector<Recompute> recomputes(const Strategy& strategy) const;
  std::vector<bool> sequence_parallel(const Strategy& strategy) const;
  std::vector<int> zeros(const Strategy& strategy) const;
  std::vector<std::int64_t> pieces(const Strategy& strategy) const;

  std::int64_t num_devices_, global_batch_;
  ModelFacts facts_;
  StrategyFilter filter_;
};

}  // namespace sextant
