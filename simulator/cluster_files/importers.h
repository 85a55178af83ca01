// Clusters from files that other programs write. Each reader takes what its file says, with the
// place in it as the source, and names in `notes` what it had to assume and what it left out.
#pragma once

#include "core/costs/cluster.h"

#include <string>
#include <string_view>
#include <vector>

namespace sextant {

struct ImportedCluster {
  Cluster cluster;
  std::string format;              // "NCCL topology", for people
  std::vector<std::string> notes;  // what is assumed, what is left out
};

// What a reader gets. `base` has what the file does not say, devices above all; nothing: known GPUs
// by their names, and assumptions.
struct ImportSource {
  std::string_view text;
  std::string file;
  const Cluster* base = nullptr;
};

// All throw Error(kBadInput) naming the file and the place in it.

// XML of NCCL_TOPO_FILE and NCCL_TOPO_DUMP_FILE (root `system`), or of NCCL_GRAPH_DUMP_FILE (root
// `graphs`): GPUs, NVLinks, PCIe widths and speeds, NICs.
ImportedCluster import_nccl_xml(const ImportSource& source);
// The table of `nvidia-smi topo -m`.
ImportedCluster import_topology_matrix(const ImportSource& source);
// JSON of nccl-tests (-J): the base, or the GPUs it names, with the link's algorithms calibrated.
ImportedCluster import_nccl_tests(const ImportSource& source);
// What nccl-tests prints, as a log: the same.
ImportedCluster import_nccl_log(const ImportSource& source);
// YAML of ASTRA-sim's analytical network. Throws Error(kUsage) in a build without yaml-cpp.
ImportedCluster import_astra_network(const ImportSource& source);
// JSON of Calculon's systems.
ImportedCluster import_calculon(const ImportSource& source);
// JSON of LLMCompass.
ImportedCluster import_llmcompass(const ImportSource& source);

}  // namespace sextant
