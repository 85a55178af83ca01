// The cost and network models of this version: roofline, and alpha-beta rings over two tiers.
#pragma once

#include "core/cluster.h"
#include "core/cost_model.h"

#include <memory>
#include <string>
#include <string_view>

namespace sextant {

// t = kernel overhead + max(flops / (peak * efficiency), bytes / (bandwidth * efficiency)).
std::unique_ptr<CostModel> make_roofline(const Cluster& cluster, DType compute_dtype);

// Ring collectives: all_reduce 2(n-1)(alpha + S/(n B)), all_gather and reduce_scatter half of it;
// all_to_all and transfers by their largest per-device volume. The tier of a group is intra-node
// when all members share a node. Zero bytes cost latency only; a group of one costs nothing.
std::unique_ptr<NetworkModel> make_alpha_beta(const Cluster& cluster);

// CLUSTER: a file, or a built-in with a size: dgx-h100, dgx-a100, v100x8, cpu ("dgx-h100:nodes=4",
// "cpu:ranks=4"). Throws Error(kBadInput | kUsage) with file and key.
Cluster load_cluster(std::string_view cluster);
std::string to_json_text(const Cluster& cluster);
Cluster cluster_from_json(std::string_view text, std::string_view file_name);

}  // namespace sextant
