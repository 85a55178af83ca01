// The models of the numerics law: small ones of every family, of odd extents.
#pragma once

#include "core/graphs/logical_graph.h"
#include "tests/conformance/training/training_runs.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

struct LawModel {
  std::string name;
  ModelBuilder build;
  int blocks = 1;          // between the first layer and the last: a stage needs one
  std::int64_t heads = 0;  // of queries
  // Of heads: tp divides them, or they divide tp and tp the heads; 0: anything does.
  std::int64_t groups = 0;
  // Statistics or capacities of a micro-batch: a reference must cut the batch alike.
  bool depends_on_micro_batch = false;
  bool has_kinks = false;  // relu: its gradient jumps where rounding changes a sign
  bool has_attention = false, has_experts = false;
  std::int64_t sequence = 0;  // positions that attention sees
};

// By family, fewest layers first: "gpt2" has two blocks.
const std::vector<LawModel>& law_models();
// Throws Error(kUsage) listing the names.
const LawModel& law_model(std::string_view name);

}  // namespace sextant
