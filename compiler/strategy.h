// The one-line recipe of a parallel run: "dp=2 tp=4 pp=2 micro_batch=1 schedule=1f1b zero=1".
#pragma once

#include "core/cluster.h"
#include "core/logical_graph.h"
#include "core/sbp.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

enum class Schedule : std::uint8_t { kGPipe, kOneFOneB, kZeroBubbleH1 };

std::string_view to_string(Schedule schedule);  // "gpipe", "1f1b", "zb-h1"

// "pin=layer*.mlp.up:(S(0),B)" fixes the words of tensors on [dp, tp],
// "pin=layer*.mlp.up[1]:(B,B)" those in which operators read an input. '*' stands for any
// characters.
struct WordPin {
  std::string name;
  std::optional<std::size_t> input;  // of the operators with this name; nothing: tensors
  NdSbp words;
  bool operator==(const WordPin&) const = default;
};
std::string to_string(const WordPin& pin);

struct Strategy {
  std::int64_t dp = 1, tp = 1, pp = 1;
  std::int64_t micro_batch = 1;  // samples per data-parallel replica per act
  Schedule schedule = Schedule::kOneFOneB;
  int zero = 0;  // 0 or 1
  // Layers per stage when given by hand (G41, G43); empty: balanced, earlier stages get more.
  std::vector<int> first_last_layers;  // {first, last} counts of transformer layers, or empty
  std::vector<WordPin> pins;           // in the order given; repeatable
  bool operator==(const Strategy&) const = default;

  std::int64_t ranks() const { return dp * tp * pp; }
};

// Unknown keys are refused with the nearest valid one, values that the product names but this
// version does not have (interleaved, zb-v, cp, ep, sp, recompute) by name.
Strategy parse_strategy(std::string_view text);
std::string to_string(const Strategy& strategy);

// Micro-batches per step and replica: global_batch / (dp * micro_batch). Throws Error(kInfeasible)
// listing the values that would divide.
std::int64_t num_micro_batches(const Strategy& strategy, std::int64_t global_batch);

}  // namespace sextant
