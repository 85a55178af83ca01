// Spaces small enough to compile strategies of them one by one: what searches are held against.
#pragma once

#include "core/costs/cluster.h"
#include "models/model.h"
#include "search/search/search.h"
#include "search/space/space.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sextant::small_spaces {

struct SearchInstance {
  std::string name;
  ModelConfig model;
  Cluster cluster;
  std::int64_t global_batch;
  DType dtype;
};

ModelConfig small_gpt(std::int64_t layers, std::int64_t heads);
// Smaller, so that every leaf can be compiled.
ModelConfig tiny_gpt();

// A tight GPU, so that memory matters: a fraction of what the small model takes on one device.
Cluster tight(std::string_view cluster, std::int64_t memory);
// Four H100 of which the last two are A100.
Cluster mixed_cluster();
// Products and all else ten times as fast as the peak says, where they were measured.
Cluster measured_cluster();

std::vector<SearchInstance> instances();
std::vector<SearchInstance> tiny_instances();

// `instance` outlives it.
SearchProblem problem_of(const SearchInstance& instance);
StrategySpace space_of(const SearchInstance& instance, const StrategyFilter& filter = {});
std::vector<Strategy> leaves_of(const StrategySpace& space);

// Every strategy has one fate.
void check_fates(const SearchResult& result);

}  // namespace sextant::small_spaces
