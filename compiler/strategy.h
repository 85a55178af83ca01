// The one-line recipe of a parallel run: "dp=2 tp=4 pp=2 micro_batch=1 schedule=1f1b zero=1".
#pragma once

#include "core/cluster.h"
#include "core/logical_graph.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

enum class Schedule : std::uint8_t { kGPipe, kOneFOneB, kZeroBubbleH1 };

std::string_view to_string(Schedule schedule);  // "gpipe", "1f1b", "zb-h1"

struct Strategy {
  std::int64_t dp = 1, tp = 1, pp = 1;
  std::int64_t micro_batch = 1;  // samples per data-parallel replica per act
  Schedule schedule = Schedule::kOneFOneB;
  int zero = 0;  // 0 or 1
  // Layers per stage when given by hand (G41, G43); empty: balanced, earlier stages get more.
  std::vector<int> first_last_layers;  // {first, last} counts of transformer layers, or empty
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
