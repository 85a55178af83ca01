// NCCL's topology as a cluster: which link joins the GPUs of a node, and what the NICs leave each.
// Its graphs, which say less.
#include "core/base/check.h"
#include "core/base/nearest.h"
#include "simulator/cluster_files/importers.h"
#include "simulator/cluster_files/known_devices.h"
#include "simulator/cluster_files/nccl_system.h"
#include "simulator/cluster_files/wiring_from_lanes.h"
#include "simulator/cluster_files/xml_element.h"
#include "simulator/clusters/published.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sextant {

namespace {

constexpr std::int64_t kMostLanes = 1024, kMostGpusOfGraph = 4096;

std::string count_text(std::size_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

// What NVLinks make of GPUs: nothing where they do not join all of them. `sm`: the compute
// capability that says how fast they are.
class NvlinkWiring {
 public:
  NvlinkWiring(std::vector<NcclGpu> gpus, std::int64_t sm, std::vector<std::string>& notes)
      : gpus_(std::move(gpus)), sm_(sm), notes_(notes) {}

  std::optional<NetworkLink> link() {
    drop_links_to_nowhere();
    std::size_t to_switches = 0, to_gpus = 0;
    for (const NcclGpu& gpu : gpus_)
      for (const Nvlink& nvlink : gpu.nvlinks) ++(nvlink.to_switch ? to_switches : to_gpus);
    if (to_switches + to_gpus == 0) {
      notes_.emplace_back(
          "no NVLinks in the file, which NCCL finds on the machine: GPUs are joined by PCIe");
      return std::nullopt;
    }
    return to_switches > 0 ? switched() : cabled();
  }

 private:
  // A machine of which a process sees some GPUs has links to the others in its file.
  void drop_links_to_nowhere() {
    std::vector<std::string> missing;
    for (NcclGpu& gpu : gpus_)
      std::erase_if(gpu.nvlinks, [&](const Nvlink& nvlink) {
        if (nvlink.to_switch || index_of(nvlink.target)) return false;
        missing.push_back(nvlink.target);
        return true;
      });
    std::sort(missing.begin(), missing.end());
    missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
    if (!missing.empty())
      notes_.push_back("NVLinks lead to what is no GPU of the file, left out: " +
                       comma_list(missing));
  }

  std::optional<NetworkLink> switched() {
    std::int64_t fewest = kMostLanes * kMostLanes;
    for (const NcclGpu& gpu : gpus_) {
      std::int64_t lanes = 0;
      for (const Nvlink& nvlink : gpu.nvlinks) lanes += nvlink.to_switch ? nvlink.lanes : 0;
      if (lanes == 0) {
        notes_.push_back(fmt::format(
            "the GPU at {} has no NVLink to a switch: GPUs are joined by PCIe", gpu.bus_id));
        return std::nullopt;
      }
      fewest = std::min(fewest, lanes);
    }
    return nvlink_link(
        static_cast<double>(fewest) * rate(), Provenance::kPublished,
        fmt::format("{} NVLinks of {} to switches in the file", fewest, bandwidth_to_text(rate())),
        sm_);
  }

  std::optional<NetworkLink> cabled() {
    const LaneTable lanes = lane_table();
    if (!joins_all(lanes)) {
      notes_.push_back(fmt::format("NVLinks join only some GPUs ({}): all are joined by PCIe",
                                   islands_text(lanes)));
      return std::nullopt;
    }
    const std::int64_t most = most_lanes(lanes);
    return nvlink_link(
        static_cast<double>(most) * rate(), Provenance::kPublished,
        fmt::format("{} NVLinks of {} per GPU in the file", most, bandwidth_to_text(rate())), sm_,
        cables_of(lanes));
  }

  LaneTable lane_table() {
    const std::size_t count = gpus_.size();
    LaneTable lanes(count, std::vector<std::int32_t>(count));
    for (std::size_t a = 0; a < count; ++a)
      for (const Nvlink& nvlink : gpus_[a].nvlinks)
        lanes[a][*index_of(nvlink.target)] += nvlink.lanes;
    for (std::size_t a = 0; a < count; ++a)
      for (std::size_t b = 0; b < a; ++b) {
        // A file may list a link at one end only.
        if (lanes[a][b] != 0 && lanes[b][a] != 0 && lanes[a][b] != lanes[b][a])
          gpus_[a].nvlinks.front().element->refuse(
              fmt::format("{} NVLinks from {} to {}, but {} back", lanes[a][b], gpus_[a].bus_id,
                          gpus_[b].bus_id, lanes[b][a]));
        lanes[a][b] = lanes[b][a] = std::max(lanes[a][b], lanes[b][a]);
      }
    return lanes;
  }

  std::optional<std::size_t> index_of(const std::string& bus_id) const {
    for (std::size_t i = 0; i < gpus_.size(); ++i)
      if (gpus_[i].bus_id == bus_id) return i;
    return std::nullopt;
  }

  double rate() const { return nvlink_rate(sm_); }

  std::vector<NcclGpu> gpus_;
  std::int64_t sm_;
  std::vector<std::string>& notes_;
};

bool is_on_switches(const NcclHost& host) {
  return std::all_of(host.gpus.begin(), host.gpus.end(), [](const NcclGpu& gpu) {
    return std::any_of(gpu.nvlinks.begin(), gpu.nvlinks.end(),
                       [](const Nvlink& nvlink) { return nvlink.to_switch; });
  });
}

NetworkLink pcie_of(const NcclHost& host) {
  const PcieRate rate = host.pcie.between_gpus();
  return pcie_link(rate.value, rate.is_assumed ? Provenance::kAssumed : Provenance::kPublished,
                   rate.is_assumed ? "PCIe of unknown speed or width: 8 GT/s, 16 lanes"
                                   : "narrowest PCIe between GPUs in the file");
}

class SystemImport {
 public:
  SystemImport(const NcclSystem& system, const ImportSource& source)
      : system_(system), source_(source) {
    for (const auto& [hash, host] : system.hosts)
      if (!host.gpus.empty()) hosts_.push_back(&host);
    require(!hosts_.empty(), ErrorCode::kBadInput, "{}: system: no GPU", source.file);
  }

  ImportedCluster take() {
    imported_.format = "NCCL topology";
    Cluster& cluster = imported_.cluster;
    set_nodes();
    cluster.device = device();
    sm_ = gpus_.front().sm > 0 ? gpus_.front().sm : sm_of_device(cluster.device).value_or(0);
    say_what_is_left_out();
    const auto nvlinks = NvlinkWiring(gpus_, sm_, notes_).link();
    cluster.intra_node = nvlinks ? *nvlinks : pcie_of(*hosts_.front());
    set_nics();
    return std::move(imported_);
  }

 private:
  // NCCL writes several hosts into one file where NVLink switches join them: one domain, which is a
  // node here, whatever its hosts have each. Other hosts are nodes, and those are equal.
  void set_nodes() {
    Cluster& cluster = imported_.cluster;
    const bool is_domain = hosts_.size() > 1 &&
                           std::all_of(hosts_.begin(), hosts_.end(),
                                       [](const NcclHost* host) { return is_on_switches(*host); });
    for (const NcclHost* const host : hosts_) {
      if (is_domain || host == hosts_.front())
        gpus_.insert(gpus_.end(), host->gpus.begin(), host->gpus.end());
      require(is_domain || host->gpus.size() == gpus_.size(), ErrorCode::kBadInput,
              "{}: system: hosts with {} and {} GPUs: wanted equal nodes", source_.file,
              gpus_.size(), host->gpus.size());
    }
    cluster.nodes = is_domain ? 1 : static_cast<std::int64_t>(hosts_.size());
    cluster.devices_per_node = static_cast<std::int64_t>(gpus_.size());
    if (!is_domain) hosts_.resize(1);
    if (is_domain)
      notes_.push_back(
          fmt::format("{} hosts on the switches of one NVLink domain are one node", hosts_.size()));
  }

  // Devices must be of one kind, or we would have to say which are which.
  DeviceKind device() {
    if (source_.base != nullptr) return source_.base->device;
    const NcclGpu& gpu = gpus_.front();
    for (const NcclGpu& other : gpus_)
      if (other.pci_id != gpu.pci_id)
        fail(ErrorCode::kBadInput, "{}: GPUs of two kinds, {} and {}: give --base for the devices",
             source_.file, gpu.pci_id, other.pci_id);
    if (auto known = device_of_pci_id(gpu.pci_id)) return *known;
    notes_.push_back(fmt::format(
        "{}: its numbers are assumptions",
        gpu.pci_id.empty() ? std::string("no device id says which GPU this is")
                           : fmt::format("the device id {} has no built-in GPU", gpu.pci_id)));
    return device_of_sm(gpu.sm);
  }

  void set_nics() {
    double total = 0;
    std::size_t nics = 0;
    bool is_known = true, all_have_speed = true;
    for (const NcclHost* const host : hosts_) {
      const PcieRate rate = host->pcie.to_nics();
      total += rate.value;
      is_known = is_known && !rate.is_assumed;
      all_have_speed = all_have_speed && host->nics_have_speed;
      nics += host->nics;
    }
    if (nics == 0) {
      notes_.emplace_back("no NIC: a cluster of one node only");
      return;
    }
    if (!all_have_speed)
      notes_.emplace_back("NICs without a speed are taken to be as fast as their PCIe");
    imported_.cluster.inter_node =
        nic_link(total / static_cast<double>(gpus_.size()),
                 is_known && all_have_speed ? Provenance::kPublished : Provenance::kAssumed,
                 fmt::format("{} shared by {} in the file", count_text(nics, "NIC"),
                             count_text(gpus_.size(), "GPU")),
                 sm_);
  }

  void say_what_is_left_out() {
    for (const std::string& bus_id : system_.linked_to_self)
      notes_.push_back(
          fmt::format("an NVLink leads from the GPU at {} to itself: left out", bus_id));
    if (!system_.unknown_pcie.empty())
      notes_.push_back(
          "PCIe of unknown speed or width counts as 8 GT/s or 16 lanes, as NCCL "
          "takes it: " +
          comma_list(system_.unknown_pcie));
    if (!system_.emulated_bridges.empty())
      notes_.push_back("emulated bridges carry whatever is below them: " +
                       comma_list(system_.emulated_bridges));
    if (!system_.other_displays.empty())
      notes_.push_back("graphics of other vendors, left out: " +
                       comma_list(system_.other_displays));
    std::vector<std::string> unread;
    for (const auto& [name, count] : system_.unread)
      unread.push_back(fmt::format("{} ({})", name, count));
    if (!unread.empty()) notes_.push_back("elements that are not read: " + comma_list(unread));
  }

  const NcclSystem& system_;
  const ImportSource& source_;
  std::vector<const NcclHost*> hosts_;  // whose NICs a node has
  std::vector<NcclGpu> gpus_;           // of a node
  std::int64_t sm_ = 0;
  ImportedCluster imported_;
  std::vector<std::string>& notes_ = imported_.notes;
};

// ---------------------------------------------------------------- graphs

// What NCCL found for rings (pattern 4): channels, each with the order of the GPUs and a speed in
// GB/s.
ImportedCluster cluster_of_graphs(const XmlElement& graphs, const ImportSource& source) {
  for (const XmlElement& graph : graphs.children) {
    if (graph.name != "graph" || graph.at("pattern") != "4") continue;
    const std::int64_t channels = graph.integer("nchannels", 1, 1024);
    double speed = 0;
    const std::string& text = graph.at("speedintra");
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), speed);
    if (error != std::errc() || end != text.data() + text.size() || !(speed > 0) || speed > 1e6)
      graph.refuse(fmt::format("speedintra is '{}', wanted GB/s above zero", text));
    std::int64_t gpus = 0;
    for (const XmlElement& channel : graph.children) {
      if (channel.name != "channel") continue;
      const auto in_channel =
          std::count_if(channel.children.begin(), channel.children.end(),
                        [](const XmlElement& member) { return member.name == "gpu"; });
      if (gpus != 0 && in_channel != gpus)
        channel.refuse(fmt::format("{} GPUs, but {} in another channel", in_channel, gpus));
      gpus = in_channel;
    }
    if (gpus < 1 || gpus > kMostGpusOfGraph)
      graph.refuse(fmt::format("{} GPUs in a channel, wanted 1 to {}", gpus, kMostGpusOfGraph));
    ImportedCluster imported{.cluster = {}, .format = "NCCL graph", .notes = {}};
    Cluster& cluster = imported.cluster;
    cluster.devices_per_node = gpus;
    cluster.device = source.base != nullptr ? source.base->device : device_of_sm(0);
    const std::string type = graph.find("typeintra").value_or("?");
    cluster.intra_node = pcie_link(
        static_cast<double>(channels) * speed * kGiga, Provenance::kCalibrated,
        fmt::format("{} ring channels of {} GB/s over {} in the file", channels, speed, type));
    cluster.intra_node.name = type == "NVL" ? "nvlink" : "pcie";
    imported.notes.emplace_back(
        "a graph has the rings that NCCL chose, not the machine: no GPU kinds, wires or NICs");
    return imported;
  }
  graphs.refuse("no graph of rings (pattern 4)");
}

}  // namespace

ImportedCluster import_nccl_xml(const ImportSource& source) {
  const std::vector<XmlElement> roots = parse_xml(source.text, source.file);
  for (const XmlElement& root : roots) {
    if (root.name == "system") return SystemImport(read_nccl_system(root), source).take();
    if (root.name == "graphs") return cluster_of_graphs(root, source);
  }
  fail(ErrorCode::kBadInput, "{}: XML without NCCL's 'system' or 'graphs' at its root{}",
       source.file, roots.empty() ? "" : fmt::format(", but '{}'", roots.front().name));
}

}  // namespace sextant
