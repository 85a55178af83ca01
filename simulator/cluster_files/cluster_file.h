// CLUSTER arguments: built-in machine rooms and JSON files, every number with its provenance.
#pragma once

#include "core/costs/cluster.h"

#include <string>
#include <string_view>
#include <vector>

namespace sextant {

// CLUSTER: a file of ours or of another program (cluster_import.h), or a built-in with a size:
// "dgx-h100:nodes=4", "cpu:ranks=4,cores=2" for ranks that share cores, "tpu-v5p:x=8,y=8,z=8",
// "hgx-h200:nodes=64,leaf=16,oversubscription=2". Throws Error(kUsage) for an unknown name or
// setting (with the nearest) and Error(kBadInput) with file and key for a file that cannot be
// understood.
Cluster load_cluster(std::string_view cluster);

std::string to_json_text(const Cluster& cluster);
Cluster cluster_from_json(std::string_view text, std::string_view file_name);

// One message per broken rule of simulator/clusters/cluster_rules.h; empty means valid.
std::vector<std::string> validate(const Cluster& cluster);

}  // namespace sextant
