// NCCL's topology: a tree of CPUs, PCIe bridges and functions, with NVLinks under GPUs and networks
// under NICs. Attributes as NCCL reads and writes them (src/graph/xml.cc there); like NCCL, a PCIe
// speed or width that is not known is taken for 8 GT/s and 16 lanes.
#include "core/base/check.h"
#include "simulator/cluster_files/importers.h"
#include "simulator/cluster_files/known_devices.h"
#include "simulator/cluster_files/wiring_from_lanes.h"
#include "simulator/cluster_files/xml_element.h"
#include "simulator/clusters/published.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <utility>

namespace sextant {

namespace {

constexpr std::int64_t kMostLanes = 1024, kMostGpusOfGraph = 4096;

struct Nvlink {
  std::string target;
  bool to_switch = false;
  std::int32_t lanes = 0;
  const XmlElement* element = nullptr;
};

struct Gpu {
  std::string bus_id;
  std::string pci_id;  // empty: not said
  std::int64_t sm = 0;
  double pcie = 0;  // B/s on the way to the CPU
  std::vector<Nvlink> nvlinks;
};

struct Nic {
  std::string name;
  double rate = 0;  // B/s
  bool has_speed = false;
};

struct Host {
  std::vector<Gpu> gpus;
  std::vector<Nic> nics;
};

// Everything a system holds, by host: `host_hash` tells hosts of one NVLink domain apart.
struct System {
  std::map<std::string, Host> hosts;
  bool pcie_assumed = false;
  bool class_missing = false;
  std::vector<std::string> linked_to_self;  // bus ids of GPUs
};

// "16 GT/s", "16.0 GT/s PCIe" -> 16.
double transfers_per_second(const XmlElement& element, bool& assumed) {
  const std::string text = element.find("link_speed").value_or("");
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool known = error == std::errc() && std::string_view(end).substr(0, 5) == " GT/s";
  if (known && (!(value > 0) || value > 1000))
    element.refuse(fmt::format("link_speed is '{}', wanted GT/s above zero", text));
  assumed = assumed || !known;
  return known ? value : 8;
}

// One direction, after the line code: 8b/10b up to 5 GT/s, 128b/130b from 8.
double pcie_rate(const XmlElement& element, bool& assumed) {
  const double transfers = transfers_per_second(element, assumed);
  std::int64_t width = 0;
  if (element.find("link_width") && !element.find("link_width")->empty())
    width = element.integer("link_width", 0, 64);
  assumed = assumed || width == 0;
  if (width == 0) width = 16;
  const double code = transfers < 8 ? 0.8 : 128.0 / 130.0;
  return transfers * kGiga * code * static_cast<double>(width) / 8;
}

class Reader {
 public:
  System read(const XmlElement& system) {
    for (const XmlElement& child : system.children)
      if (child.name == "cpu") walk_all(child, 0, host_of(child));
    return std::move(system_);
  }

 private:
  Host& host_of(const XmlElement& cpu) { return system_.hosts[cpu.find("host_hash").value_or("")]; }

  void walk_all(const XmlElement& parent, double rate, Host& host) {
    for (const XmlElement& child : parent.children) {
      if (child.name == "pci") walk_function(child, rate, host);
      if (child.name == "nic") add_networks(child, rate, host);
      if (child.name == "gpu") add_gpu(child, nullptr, rate, host);
    }
  }

  // A bridge, a GPU or a NIC; `above` is what the way to the CPU leaves, 0 at the CPU itself.
  void walk_function(const XmlElement& pci, double above, Host& host) {
    const double own = pcie_rate(pci, system_.pcie_assumed);
    const double rate = above > 0 ? std::min(above, own) : own;
    const auto has = [&pci](std::string_view name) {
      return std::any_of(pci.children.begin(), pci.children.end(),
                         [&](const XmlElement& child) { return child.name == name; });
    };
    const std::string type = pci.find("class").value_or("").substr(0, 4);
    if (has("pci") || has("gpu") || has("nic")) {
      for (const XmlElement& child : pci.children) {
        if (child.name == "pci") walk_function(child, rate, host);
        if (child.name == "nic") add_networks(child, rate, host);
        if (child.name == "gpu") add_gpu(child, &pci, rate, host);
      }
    } else if (type.empty()) {
      pci.refuse(
          "has no class, so it may be a GPU, a NIC or a bridge: NCCL looks that up on the machine; "
          "the file that NCCL_TOPO_DUMP_FILE makes it write there says all");
    } else if (type == "0x03" || type == "0x12") {  // display controllers, accelerators
      add_gpu(XmlElement{.name = "gpu", .place = pci.place, .attributes = {}, .children = {}}, &pci,
              rate, host);
    } else if (type == "0x02") {  // network controllers
      host.nics.push_back({pci.find("busid").value_or("?"), rate, false});
    }
  }

  void add_gpu(const XmlElement& gpu, const XmlElement* pci, double rate, Host& host) {
    Gpu found;
    found.pcie = rate > 0 ? rate : pcie_rate(gpu, system_.pcie_assumed);
    if (pci != nullptr) found.bus_id = pci->find("busid").value_or("");
    if (pci != nullptr) found.pci_id = pci->find("device").value_or("");
    if (gpu.find("sm")) found.sm = gpu.integer("sm", 0, 10'000);
    for (const XmlElement& child : gpu.children)
      if (child.name == "nvlink") found.nvlinks.push_back(nvlink_of(child));
    drop_links_to_self(found);
    if (!found.bus_id.empty())
      for (const Gpu& other : host.gpus)
        if (other.bus_id == found.bus_id)
          gpu.refuse(fmt::format("a second GPU at {}", found.bus_id));
    host.gpus.push_back(std::move(found));
    if (static_cast<std::int64_t>(host.gpus.size()) > kMostGpusOfGraph)
      gpu.refuse(fmt::format("more than {} GPUs", kMostGpusOfGraph));
  }

  // Vendors' files have some; NCCL reads them, and no byte ever uses them.
  void drop_links_to_self(Gpu& gpu) {
    const auto dropped = std::erase_if(gpu.nvlinks, [&gpu](const Nvlink& nvlink) {
      return !nvlink.to_switch && nvlink.target == gpu.bus_id;
    });
    if (dropped > 0) system_.linked_to_self.push_back(gpu.bus_id);
  }

  static Nvlink nvlink_of(const XmlElement& element) {
    return {.target = element.at("target"),
            .to_switch = element.find("tclass").value_or("").substr(0, 6) == "0x0680",
            .lanes = static_cast<std::int32_t>(element.integer("count", 1, kMostLanes)),
            .element = &element};
  }

  // Speeds are in Mb/s.
  static void add_networks(const XmlElement& nic, double rate, Host& host) {
    for (const XmlElement& net : nic.children) {
      if (net.name != "net") continue;
      const std::int64_t speed = net.integer("speed", 1, 100'000'000);
      const double wire = static_cast<double>(speed) * 1e6 / 8;
      host.nics.push_back(
          {net.find("name").value_or("?"), rate > 0 ? std::min(wire, rate) : wire, true});
    }
  }

  System system_;
};

std::string count_text(std::size_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

// What a host's NVLinks make: nothing where they do not join all its GPUs.
class NvlinkWiring {
 public:
  NvlinkWiring(const Host& host, std::vector<std::string>& notes) : host_(host), notes_(notes) {}

  std::optional<NetworkLink> link() {
    std::size_t to_switches = 0, to_gpus = 0;
    for (const Gpu& gpu : host_.gpus)
      for (const Nvlink& nvlink : gpu.nvlinks) ++(nvlink.to_switch ? to_switches : to_gpus);
    if (to_switches + to_gpus == 0) {
      notes_.emplace_back(
          "no NVLinks in the file, which NCCL finds on the machine: GPUs are joined by PCIe");
      return std::nullopt;
    }
    return to_switches > 0 ? switched() : cabled();
  }

 private:
  std::optional<NetworkLink> switched() {
    std::int64_t fewest = kMostLanes * kMostLanes;
    for (const Gpu& gpu : host_.gpus) {
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
        host_.gpus.front().sm);
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
        fmt::format("{} NVLinks of {} per GPU in the file", most, bandwidth_to_text(rate())),
        host_.gpus.front().sm, cables_of(lanes));
  }

  LaneTable lane_table() {
    const std::size_t count = host_.gpus.size();
    LaneTable lanes(count, std::vector<std::int32_t>(count));
    for (std::size_t a = 0; a < count; ++a)
      for (const Nvlink& nvlink : host_.gpus[a].nvlinks) {
        const std::size_t b = index_of(nvlink);
        lanes[a][b] += nvlink.lanes;
      }
    for (std::size_t a = 0; a < count; ++a)
      for (std::size_t b = 0; b < a; ++b) {
        // A file may list a link at one end only.
        if (lanes[a][b] != 0 && lanes[b][a] != 0 && lanes[a][b] != lanes[b][a])
          host_.gpus[a].nvlinks.front().element->refuse(
              fmt::format("{} NVLinks from {} to {}, but {} back", lanes[a][b],
                          host_.gpus[a].bus_id, host_.gpus[b].bus_id, lanes[b][a]));
        lanes[a][b] = lanes[b][a] = std::max(lanes[a][b], lanes[b][a]);
      }
    return lanes;
  }

  std::size_t index_of(const Nvlink& nvlink) const {
    for (std::size_t i = 0; i < host_.gpus.size(); ++i)
      if (host_.gpus[i].bus_id == nvlink.target) return i;
    nvlink.element->refuse(fmt::format("leads to {}, where no GPU is", nvlink.target));
  }

  double rate() const { return nvlink_rate(host_.gpus.front().sm); }

  const Host& host_;
  std::vector<std::string>& notes_;
};

NetworkLink pcie_of(const Host& host, bool is_assumed) {
  double slowest = host.gpus.front().pcie;
  for (const Gpu& gpu : host.gpus) slowest = std::min(slowest, gpu.pcie);
  return pcie_link(slowest, is_assumed ? Provenance::kAssumed : Provenance::kPublished,
                   is_assumed ? "PCIe of unknown speed or width: 8 GT/s, 16 lanes"
                              : "narrowest PCIe of a GPU's way to the CPU in the file");
}

NetworkLink nics_of(const Host& host, std::vector<std::string>& notes) {
  double total = 0;
  bool all_known = true;
  for (const Nic& nic : host.nics) {
    total += nic.rate;
    all_known = all_known && nic.has_speed;
  }
  if (!all_known) notes.emplace_back("NICs without a speed are taken to be as fast as their PCIe");
  return nic_link(total / static_cast<double>(host.gpus.size()),
                  all_known ? Provenance::kPublished : Provenance::kAssumed,
                  fmt::format("{} shared by {} in the file", count_text(host.nics.size(), "NIC"),
                              count_text(host.gpus.size(), "GPU")),
                  host.gpus.front().sm);
}

// Devices of all hosts must be of one kind, or we would have to say which are which.
DeviceKind device_of(const Host& host, const ImportSource& source,
                     std::vector<std::string>& notes) {
  if (source.base != nullptr) return source.base->device;
  const Gpu& gpu = host.gpus.front();
  for (const Gpu& other : host.gpus)
    if (other.pci_id != gpu.pci_id)
      fail(ErrorCode::kBadInput, "{}: GPUs of two kinds, {} and {}: give --base for the devices",
           source.file, gpu.pci_id, other.pci_id);
  if (auto known = device_of_pci_id(gpu.pci_id)) return *known;
  notes.push_back(fmt::format(
      "{}: its numbers are assumptions",
      gpu.pci_id.empty() ? std::string("no device id says which GPU this is")
                         : fmt::format("the device id {} has no built-in GPU", gpu.pci_id)));
  return device_of_sm(gpu.sm);
}

ImportedCluster cluster_of(const System& system, const ImportSource& source) {
  ImportedCluster imported{.cluster = {}, .format = "NCCL topology", .notes = {}};
  Cluster& cluster = imported.cluster;
  const Host* first = nullptr;
  for (const auto& [hash, host] : system.hosts) {
    if (host.gpus.empty()) continue;
    ++cluster.nodes;
    if (first == nullptr) first = &host;
    require(host.gpus.size() == first->gpus.size(), ErrorCode::kBadInput,
            "{}: system: hosts with {} and {} GPUs: wanted equal nodes", source.file,
            first->gpus.size(), host.gpus.size());
  }
  require(first != nullptr, ErrorCode::kBadInput, "{}: system: no GPU", source.file);
  --cluster.nodes;  // it starts at one
  cluster.devices_per_node = static_cast<std::int64_t>(first->gpus.size());
  cluster.device = device_of(*first, source, imported.notes);
  for (const std::string& bus_id : system.linked_to_self)
    imported.notes.push_back(
        fmt::format("an NVLink leads from the GPU at {} to itself: left out", bus_id));
  const auto nvlinks = NvlinkWiring(*first, imported.notes).link();
  cluster.intra_node = nvlinks ? *nvlinks : pcie_of(*first, system.pcie_assumed);
  if (!first->nics.empty()) cluster.inter_node = nics_of(*first, imported.notes);
  if (first->nics.empty()) imported.notes.emplace_back("no NIC: a cluster of one node only");
  return imported;
}

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
    if (root.name == "system") return cluster_of(Reader().read(root), source);
    if (root.name == "graphs") return cluster_of_graphs(root, source);
  }
  fail(ErrorCode::kBadInput, "{}: XML without NCCL's 'system' or 'graphs' at its root{}",
       source.file, roots.empty() ? "" : fmt::format(", but '{}'", roots.front().name));
}

}  // namespace sextant
