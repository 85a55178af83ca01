// Which program wrote a file, by its content, and the cluster that it describes.
#pragma once

#include "core/costs/cluster.h"
#include "simulator/cluster_files/importers.h"

#include <string>
#include <string_view>

namespace sextant {

// Cluster files, NCCL topology and graph XML, `nvidia-smi topo -m`, nccl-tests JSON and logs,
// ASTRA-sim network YAML, Calculon and LLMCompass JSON. A cluster without a name gets that of the
// file. Throws Error(kBadInput) with the file and the key.
ImportedCluster import_cluster(std::string_view text, const std::string& file,
                               const Cluster* base = nullptr);

}  // namespace sextant
