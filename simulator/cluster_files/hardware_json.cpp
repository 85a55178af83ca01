// Systems of Calculon and devices of LLMCompass: analytical models like ours, so most of what they
// say has a place here; the rest stands in the notes. Their numbers are their authors' choices.
#include "core/base/check.h"
#include "core/tensors/placement.h"
#include "core/text/json_reader.h"
#include "simulator/cluster_files/importers.h"
#include "simulator/cluster_files/known_devices.h"
#include "simulator/clusters/published.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>

namespace sextant {

namespace {

// "a100.json: mem1.GiB", without the folders.
std::string source_of(const JsonCursor& cursor) {
  const std::string place = cursor.place();
  const std::size_t file_end = std::min(place.find(": "), place.size());
  return place.substr(place.substr(0, file_end).find_last_of('/') + 1);
}

// A number of the file with its key as the source; refused where it is not above zero (`least` 0:
// not below).
Sourced number(const JsonCursor& cursor, double factor, bool may_be_zero = false) {
  const double value = cursor.real() * factor;
  if (!(value > 0 || (may_be_zero && value == 0)) || !(value < 1e300))
    cursor.refuse(fmt::format("found {}, wanted a number {}", cursor.real(),
                              may_be_zero ? "of zero or above" : "above zero"));
  return assumed(value, source_of(cursor));
}

Sourced share(const JsonCursor& cursor) {
  Sourced found = number(cursor, 1);
  if (found.value > 1) cursor.refuse(fmt::format("found {}, wanted at most 1", found.value));
  return found;
}

Bytes bytes(const JsonCursor& cursor, double unit) {
  const double value = number(cursor, unit).value;
  if (value > 9.2e18) cursor.refuse(fmt::format("{} B are more than 2^63-1", value));
  return Bytes(static_cast<std::int64_t>(value));
}

// Overheads that neither program has.
DeviceKind device_without_overheads(const ImportSource& source) {
  DeviceKind device = assumed_device(source.base != nullptr ? source.base->device : device_of_sm(0),
                                     "not in the file");
  device.peaks.clear();
  device.memory_source.clear();
  device.measured.reset();
  device.matmul_tile = assumed(0, "not in the file");
  device.matmul_units = assumed(0, "not in the file");
  return device;
}

// ---------------------------------------------------------------- Calculon

// Efficiencies are steps by size, largest first: [[128, 0.95], [16, 0.9], ...]. Ours are those of
// large operators.
Sourced best_step(const JsonCursor& cursor) {
  double largest = -1;
  std::optional<Sourced> best;
  for (const JsonCursor& step : cursor.elements()) {
    const auto pair = step.elements();
    if (pair.size() != 2) step.refuse("wanted [size, efficiency]");
    if (pair[0].real() <= largest) continue;
    largest = pair[0].real();
    best = share(pair[1]);
  }
  if (!best) cursor.refuse("is empty, or has no size of zero or above");
  return *best;
}

void read_calculon_matrix(const JsonCursor& matrix, DeviceKind& device,
                          std::vector<std::string>& notes) {
  for (const std::string& dtype : matrix.keys()) {
    const JsonCursor entry = matrix.at(dtype);
    const auto ours = dtype == "float16"    ? std::optional(DType::kF16)
                      : dtype == "bfloat16" ? std::optional(DType::kBF16)
                      : dtype == "float32"  ? std::optional(DType::kF32)
                      : dtype == "float64"  ? std::optional(DType::kF64)
                                            : std::nullopt;
    if (!ours) {
      notes.push_back(fmt::format("matrix.{}: no such dtype here, left out", dtype));
      continue;
    }
    device.peaks.push_back({*ours, number(entry.at("tflops"), kTera)});
    device.matmul_efficiency = best_step(entry.at("gflops_efficiency"));
  }
  if (device.peaks.empty()) matrix.refuse("no dtype that is known here");
}

NetworkLink calculon_link(const JsonCursor& network, std::string name) {
  NetworkLink link;
  link.name = std::move(name);
  link.bandwidth = number(network.at("bandwidth"), kGiga);
  link.latency = number(network.at("latency"), 1, true);
  link.efficiency = share(network.at("efficiency"));
  return link;
}

void read_calculon_networks(const JsonCursor& networks, Cluster& cluster,
                            std::vector<std::string>& notes) {
  const auto tiers = networks.elements();
  if (tiers.empty()) networks.refuse("is empty");
  std::int64_t inside = 1;
  for (std::size_t i = 0; i < tiers.size(); ++i) {
    const JsonCursor size = tiers[i].at("size");
    const std::int64_t devices = size.integer_between(1, kMostDevices);
    if (devices % inside != 0 || (i > 0 && devices <= inside))
      size.refuse(
          fmt::format("found {}, wanted a larger multiple of the {} inside", devices, inside));
    const NetworkLink link = calculon_link(tiers[i], fmt::format("network{}", i));
    if (i == 0) {
      cluster.devices_per_node = devices;
      cluster.intra_node = link;
      if (const auto usage = tiers[i].find("processor_usage")) {
        const double taken = number(*usage, 1, true).value;
        if (taken >= 1) usage->refuse(fmt::format("found {}, wanted below 1", taken));
        cluster.device.compute_beside_communication =
            assumed(1 - taken, "1 - " + source_of(*usage));
      }
    } else {
      if (i == 1) cluster.inter_node = link;
      if (i > 1) cluster.outer_tiers.push_back({cluster.nodes, link});
      cluster.nodes = devices / cluster.devices_per_node;
    }
    inside = devices;
  }
  notes.emplace_back("networks[].ops, must_be_filled: traffic is planned here, not scaled");
  if (tiers.size() > 1)
    notes.emplace_back("networks[].processor_usage: that of the first is used for all");
}

// ---------------------------------------------------------------- LLMCompass

double product_of(const JsonCursor& object, std::initializer_list<std::string_view> keys) {
  double product = 1;
  for (const std::string_view key : keys) product *= number(object.at(key), 1).value;
  return product;
}

DType compass_dtype(const JsonCursor& cursor) {
  if (cursor.text() == "fp16") return DType::kF16;
  if (cursor.text() == "bf16") return DType::kBF16;
  if (cursor.text() == "fp32") return DType::kF32;
  cursor.refuse(fmt::format("found '{}', wanted fp16, bf16 or fp32", cursor.text()));
}

// Multiply-adds of all arrays in a cycle, two FLOPs each.
void read_compass_compute(const JsonCursor& device_json, DeviceKind& device) {
  const JsonCursor chiplet = device_json.at("compute_chiplet"), core = chiplet.at("core");
  const JsonCursor array = core.at("systolic_array");
  const double cores =
      product_of(device_json, {"compute_chiplet_count"}) * product_of(chiplet, {"core_count"});
  const double arrays = cores * product_of(core, {"sublane_count"});
  const double rate = product_of(device_json, {"frequency_Hz"}) * arrays *
                      product_of(array, {"array_width", "array_height", "mac_per_cycle"}) * 2;
  device.peaks.push_back({compass_dtype(array.at("data_type")),
                          assumed(rate, source_of(array) + ", at frequency_Hz on all cores")});
  device.matmul_units = assumed(cores, source_of(chiplet.at("core_count")));
  device.matmul_tile = assumed(128, "not in the file");
}

void read_compass_links(const JsonCursor& root, Cluster& cluster) {
  const JsonCursor interconnect = root.at("interconnect"), link_json = interconnect.at("link");
  NetworkLink& link = cluster.intra_node;
  link.name = link_json.at("name").text();
  if (link.name.empty()) link_json.at("name").refuse("the name is empty");
  link.bandwidth = number(link_json.at("bandwidth_per_direction_byte"),
                          product_of(interconnect, {"link_count_per_device"}));
  link.bandwidth.source += " x link_count_per_device";
  link.latency = number(link_json.at("latency_second"), 1, true);
  const double flit = product_of(link_json, {"flit_size_byte"});
  const double header = number(link_json.at("header_size_byte"), 1, true).value;
  const double payload = product_of(link_json, {"max_payload_size_byte"});
  static_cast<void>(flit);
  link.efficiency = assumed(payload / (payload + header),
                            source_of(link_json) + ": payload of a packet with its header");
  const JsonCursor topology = interconnect.at("topology");
  if (topology.text() == "FC")
    link.wiring = Wiring::kFullyConnected;
  else if (topology.text() == "RING")
    link.wiring = Wiring::kRing;
  else
    topology.refuse(fmt::format("found '{}', wanted FC or RING", topology.text()));
}

}  // namespace

ImportedCluster import_calculon(const ImportSource& source) {
  const JsonDocument document(source.text, source.file);
  const JsonCursor root = document.root();
  ImportedCluster imported{.cluster = {}, .format = "Calculon system", .notes = {}};
  DeviceKind& device = imported.cluster.device;
  device = device_without_overheads(source);
  device.name = "Calculon device";
  read_calculon_matrix(root.at("matrix"), device, imported.notes);
  const JsonCursor memory = root.at("mem1");
  device.memory = bytes(memory.at("GiB"), 1024.0 * 1024.0 * 1024.0);
  device.memory_bandwidth = number(memory.at("GBps"), kGiga);
  device.memory_efficiency = best_step(memory.at("MB_efficiency"));
  read_calculon_networks(root.at("networks"), imported.cluster, imported.notes);
  for (const char* const key : {"vector", "mem2", "processing_mode"})
    if (root.contains(key)) imported.notes.push_back(fmt::format("{}: has no place here", key));
  imported.notes.emplace_back(
      "gflops_efficiency, MB_efficiency: that of the largest size, not the steps below");
  return imported;
}

ImportedCluster import_llmcompass(const ImportSource& source) {
  const JsonDocument document(source.text, source.file);
  const JsonCursor root = document.root(), device_json = root.at("device");
  ImportedCluster imported{.cluster = {}, .format = "LLMCompass hardware", .notes = {}};
  Cluster& cluster = imported.cluster;
  DeviceKind& device = cluster.device;
  device = device_without_overheads(source);
  device.name = root.at("name").text();
  if (device.name.empty()) root.at("name").refuse("the name is empty");
  cluster.devices_per_node = root.at("device_count").integer_between(1, kMostDevices);
  read_compass_compute(device_json, device);
  device.memory = bytes(device_json.at("memory").at("total_capacity_GB"), kGiga);
  const JsonCursor io = device_json.at("io");
  device.memory_bandwidth = assumed(
      product_of(
          io, {"memory_channel_active_count", "pin_count_per_channel", "bandwidth_per_pin_bit"}) /
          8,
      source_of(io) + ": channels x pins x bits");
  read_compass_links(root, cluster);
  imported.notes.emplace_back(
      "device.compute_chiplet: systolic arrays at full rate; vector units, SRAM, register files "
      "and "
      "the global buffer have no place here");
  imported.notes.emplace_back("efficiencies and overheads are not in the file: assumed");
  return imported;
}

}  // namespace sextant
