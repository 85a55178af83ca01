// A plan file: the few kilobytes from which the physical graph is expanded again, byte for byte.
#pragma once

#include "compiler/expand/expand.h"
#include "compiler/strategy/strategy.h"
#include "compiler/training/training_graph.h"
#include "core/base/dtype.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

// What the search that found a plan knows of the rest: each strategy of its space has one fate.
struct SearchCertificate {
  double lower_bound_s = 0;  // no strategy of the space is faster
  double gap = 0;            // (step - lower bound) / step
  std::int64_t counted = 0, simulated = 0, cut_by_memory = 0, cut_by_bound = 0, refused = 0,
               open = 0;
  bool operator==(const SearchCertificate&) const = default;
};

struct Plan {
  int version = 1;
  std::string model;       // MODEL argument it was made from
  std::string model_text;  // canonical text of the model (models/model_config.h), for rebuilding
  std::string model_hash;
  std::string cluster;       // CLUSTER argument
  std::string cluster_text;  // canonical cluster JSON: the cost snapshot
  std::string cluster_hash;
  Strategy strategy;
  std::int64_t global_batch = 1;
  std::int64_t sequence = 0;
  DType compute_dtype = DType::kF32;
  ExpandOptions expand;  // its schedule is the strategy's
  OptimizerOptions optimizer;
  std::optional<Bytes> memory = {};  // that a device may give it, where that is less than it has
  std::vector<std::string> assumptions;  // of the model, where it says otherwise or nothing
  double predicted_step_time_s = 0;
  std::optional<SearchCertificate> certificate = {};  // of plans that a search made
};

std::string to_json_text(const Plan& plan);
// Throws Error(kBadInput) with file, line and column or key; another version is refused by number,
// and so is a plan whose texts are not those its hashes were taken of.
Plan plan_from_json(std::string_view text, std::string_view file_name);

// Throws Error(kBadInput) naming both when the plan was made for another model or another cluster.
void require_same_model(const Plan& plan, std::string_view model, std::string_view model_text);
void require_same_cluster(const Plan& plan, std::string_view cluster,
                          std::string_view cluster_text);

// 64-bit FNV-1a as 16 hex digits: identity of texts inside plans.
std::string text_hash(std::string_view text);

}  // namespace sextant
