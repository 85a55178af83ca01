// The machine rooms behind the collections: built-in clusters with the network that a row names.
#pragma once

#include "core/costs/cluster.h"

#include <cstdint>
#include <string_view>

namespace sextant {

// GPU types as the collections write them: "A100-SXM", "a100_40gb", "H200", ... Nodes have eight
// devices. `inter_node` is the row's text, "8x HDR200 IB per node", "800Gb/s per node"; what it
// does not say stays as the built-in cluster has it. Throws Error(kBadInput) for another GPU.
Cluster laboratory(std::string_view gpu_type, std::string_view inter_node, std::int64_t gpus);

// Bytes per second and GPU of eight in a node; 0: the text says nothing about a rate.
double bandwidth_per_gpu(std::string_view inter_node);

}  // namespace sextant
