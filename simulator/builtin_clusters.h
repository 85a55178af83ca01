// Machine rooms that need no file. Rates are those of the vendors' data sheets; efficiencies and
// overheads are assumptions and say so.
#pragma once

#include "core/cluster.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace sextant {

struct BuiltinCluster {
  std::string name;
  std::string summary;
  std::string size_setting;  // "nodes" or "ranks"
  std::int64_t default_size = 1;
  std::function<Cluster(std::int64_t size)> make;
};

const std::vector<BuiltinCluster>& builtin_clusters();  // sorted by name

}  // namespace sextant
