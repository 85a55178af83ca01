// Small files as other programs write them, whole or in parts, for the tests of their readers.
#pragma once

#include "simulator/cluster_files/cluster_import.h"

#include <string>
#include <string_view>

namespace sextant::testing {

std::string replaced(std::string text, const std::string& from, const std::string& to);
// import_cluster of `text` as "lab.txt" throws Error(kBadInput) that names the file and has
// `message` in it.
void check_refused(const std::string& text, const std::string& message);
bool has_note(const ImportedCluster& imported, std::string_view part);

// NCCL topology: a PCIe function with a GPU, its NVLinks, a NIC with one port of 400 Gb/s, a system
// of such functions.
std::string gpu(int index, const std::string& nvlinks, const std::string& id = "0x2330");
std::string nvlink(const std::string& target, int count, const std::string& type);
std::string to_gpu(int index, int count);
std::string to_switches();  // 18 NVLinks
std::string nic();
std::string system_of(const std::string& functions);

// Three GPUs behind an NVSwitch and two NICs, of which one is near.
std::string switched_matrix();

// As nccl-tests -J writes it: seconds = fixed + bytes * factor / bus bandwidth, in microseconds.
struct MadeTest {
  std::string program = "all_reduce_perf";
  int processes = 1, gpus = 8, hosts = 1;
  double fixed = 20e-6, bus = 360e9, factor = 2.0 * 7 / 8;
  // A second protocol below 64 KiB: quicker to start, slower.
  double quick_fixed = 0, quick_bus = 0;
  std::string environment = "\"SHELL=bash\"";
  std::string device = "NVIDIA H100 80GB HBM3";
};
std::string text_of(const MadeTest& test);
// The same as it is printed. `name`: the line that newer versions name the program with.
std::string log_of(const MadeTest& test, const std::string& name);

// Three dimensions: Ring of 2, FullyConnected of 8, Switch of 4.
std::string astra_network();
// Whether this build reads YAML; says so where it does not.
bool reads_yaml();

std::string calculon_system();

}  // namespace sextant::testing
