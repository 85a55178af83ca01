// The one-line recipe of a parallel run: "dp=2 cp=2 tp=4 pp=2 micro_batch=1 schedule=1f1b zero=1".
#pragma once

#include "core/costs/cluster.h"
#include "core/graphs/logical_graph.h"
#include "core/tensors/placement.h"
#include "core/tensors/sbp.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

enum class Schedule : std::uint8_t {
  kGPipe,
  kOneFOneB,
  kInterleaved,  // 1F1B over `virtual_stages` chunks of layers per stage
  kZeroBubbleH1,
  kZeroBubbleV,  // two chunks per stage, the second on the way back
};

std::string_view to_string(Schedule schedule);  // "gpipe", "1f1b", "interleaved", "zb-h1", "zb-v"

// How attention sees the whole sequence when context parallelism splits it.
enum class ContextMode : std::uint8_t {
  kRing,      // keys and values pass from device to device
  kAllToAll,  // the sequence is exchanged for heads before attention and back after it
};
std::string_view to_string(ContextMode mode);  // "ring", "a2a"

// What backward computes again instead of keeping it: nothing, attention alone, every layer, or the
// first `layers` layers of each chunk.
struct Recompute {
  enum class Kind : std::uint8_t { kNone, kSelective, kFull, kLayers };
  Kind kind = Kind::kNone;
  int layers = 0;  // of kLayers, at least 1
  bool operator==(const Recompute&) const = default;
};
std::string to_string(const Recompute& recompute);  // "none", "selective", "full", "4"

// In which type products of linear layers take their operands.
enum class Precision : std::uint8_t {
  kCompute,  // that in which the model computes
  kFp8,      // 8 bits with a scale per tensor (compiler/training/eight_bit_products.h)
};
std::string_view to_string(Precision precision);  // "compute", "fp8"

// "pin=layer*.mlp.up:(S(0),B)" fixes the words of tensors on the mesh axes of the strategy,
// "pin=layer*.mlp.up[1]:(B,B)" those in which operators read an input. '*' stands for any
// characters.
struct WordPin {
  std::string name;
  std::optional<std::size_t> input;  // of the operators with this name; nothing: tensors
  NdSbp words;
  bool operator==(const WordPin&) const = default;
};
std::string to_string(const WordPin& pin);
// What stands behind "pin="; words are written without blanks. Throws Error(kUsage).
WordPin parse_pin(std::string_view text);

// The kinds of parallelism by which ranks are numbered.
enum class RankAxis : std::uint8_t { kTp, kCp, kEp, kDp, kPp };
std::string_view to_string(RankAxis axis);  // "tp", "cp", "ep", "dp", "pp"
// From the innermost, whose members are neighbouring ranks, to the outermost.
using RankOrder = std::array<RankAxis, 5>;
inline constexpr RankOrder kUsualOrder = {RankAxis::kTp, RankAxis::kCp, RankAxis::kEp,
                                          RankAxis::kDp, RankAxis::kPp};

struct Strategy {
  std::int64_t dp = 1, tp = 1, pp = 1;
  std::int64_t cp = 1;  // parts of every sequence
  ContextMode context = ContextMode::kRing;
  std::int64_t ep = 1;           // parts of the experts; divides dp, whose replicas it groups
  std::int64_t micro_batch = 1;  // samples per data-parallel replica per act
  Schedule schedule = Schedule::kOneFOneB;
  std::int64_t virtual_stages = 1;  // chunks of layers per stage
  bool sequence_parallel = false;   // Megatron's: activations between tp regions split over tp
  int zero = 0;                     // 0 to 3
  Recompute recompute;
  Precision precision = Precision::kCompute;
  std::int64_t pieces = 1;  // of every product whose sum is pending over tp
  // Blocks of every virtual stage in the order in which a micro-batch passes them (layer_counts.h);
  // kEvenShare: an even part of what the others leave. Empty: all are even.
  std::vector<int> layers;
  RankOrder order = kUsualOrder;
  std::vector<WordPin> pins;  // in the order given; repeatable
  // Parts of tp with key/value heads of their own: of the model and not of the user
  // (compiler/words/key_heads.h).
  std::int64_t key_head_parts = 1;
  bool operator==(const Strategy&) const = default;

  std::int64_t ranks() const { return dp * cp * tp * pp; }
};
inline constexpr int kEvenShare = 0;

// Members of an axis; of dp those that ep does not count.
std::int64_t extent_of(const Strategy& strategy, RankAxis axis);

// Position of every kind of parallelism among the axes of a stage's mesh, which are, outer to
// inner, dp, ep, cp, kv, tp; ep, cp and kv only where they are used. With ep the axis dp has dp /
// ep parts; with kv, whose parts are the key_head_parts of tp, the axis tp has the rest of them.
struct StrategyAxes {
  std::size_t dp = 0;
  std::optional<std::size_t> ep, cp, kv;
  std::size_t tp = 1;
  std::size_t count = 2;
  // All that tensor parallelism splits over, outer to inner.
  std::vector<std::size_t> tensor_parallel() const {
    return kv ? std::vector<std::size_t>{*kv, tp} : std::vector<std::size_t>{tp};
  }
};
StrategyAxes axes_of(const Strategy& strategy);
std::vector<MeshAxis> mesh_axes(const Strategy& strategy);

// The keys are those of strategy_settings.h; others are refused with the nearest valid one.
Strategy parse_strategy(std::string_view text);
// Settings beyond dp, tp, pp, micro_batch, schedule and zero only where they are not the default.
std::string to_string(const Strategy& strategy);
// Every setting, "key=value", defaults included; without pins.
std::vector<std::string> settings_of(const Strategy& strategy);

// Micro-batches per step and replica: global_batch / (dp * micro_batch). Throws Error(kInfeasible)
// listing the values that would divide, and for more than 65,536.
std::int64_t num_micro_batches(const Strategy& strategy, std::int64_t global_batch);

}  // namespace sextant
