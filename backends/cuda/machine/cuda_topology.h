// What NCCL sees of this machine. Without CUDA headers.
#pragma once

#include <optional>
#include <string>

namespace sextant {

struct NcclTopology {
  std::string xml;  // as NCCL_TOPO_DUMP_FILE has it written
  std::string version;
};

// "2.28.9"; empty in a build without NCCL.
std::string nccl_version_text();

// Makes communicators of all cards once, which is when NCCL looks; nothing without NCCL, or with
// one card or none.
std::optional<NcclTopology> nccl_topology();

}  // namespace sextant
