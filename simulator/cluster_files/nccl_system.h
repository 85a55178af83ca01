// What NCCL's topology XML says of its hosts, before anybody decides what cluster that is.
#pragma once

#include "simulator/cluster_files/pcie_tree.h"
#include "simulator/cluster_files/xml_element.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace sextant {

struct Nvlink {
  std::string target;
  bool to_switch = false;
  std::int32_t lanes = 0;
  const XmlElement* element = nullptr;
};

struct NcclGpu {
  std::string bus_id;
  std::string pci_id;  // empty: not said
  std::int64_t sm = 0;
  std::vector<Nvlink> nvlinks;
};

struct NcclHost {
  std::vector<NcclGpu> gpus;
  std::size_t nics = 0;
  bool nics_have_speed = true;
  PcieTree pcie;
};

// Everything a system holds, by `host_hash`.
struct NcclSystem {
  std::map<std::string, NcclHost> hosts;
  std::vector<std::string> linked_to_self;    // bus ids of GPUs
  std::vector<std::string> unknown_pcie;      // bus ids of links without speed or width
  std::vector<std::string> emulated_bridges;  // bus ids
  std::vector<std::string> other_displays;    // bus ids of graphics that nobody computes on
  std::map<std::string, int> unread;          // "gpu.c2c" -> how many
};

// Attributes as NCCL reads and writes them (src/graph/xml.cc there). The system must outlive the
// result. Throws Error(kBadInput) by element for what cannot be meant, and for GPUs of vendors that
// NCCL does not run on.
NcclSystem read_nccl_system(const XmlElement& system);

}  // namespace sextant
