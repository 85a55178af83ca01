// Built-in clusters as people write them: "dgx-h100:nodes=4", "tpu-v5p:x=8,y=8,z=8".
#pragma once

#include "core/costs/cluster.h"

#include <string>
#include <string_view>
#include <vector>

namespace sextant {

// Throws Error(kUsage) for an unknown name or setting, with the nearest.
Cluster builtin_cluster(std::string_view argument);
std::vector<std::string> builtin_cluster_names();

}  // namespace sextant
