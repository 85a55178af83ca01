// A tree of CPUs, PCIe bridges and functions, with NVLinks under GPUs and networks under NICs. Like
// NCCL, a PCIe speed or width that is not known is taken for 8 GT/s and 16 lanes.
#include "simulator/cluster_files/nccl_system.h"

#include "simulator/clusters/published.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <string_view>
#include <utility>

namespace sextant {

namespace {

constexpr std::int64_t kMostNvlinkLanes = 1024;
constexpr std::size_t kMostGpusOfHost = 4096;
constexpr std::string_view kNvidia = "0x10de";

// Bridges that hypervisors make up: whatever speed they claim, bytes below them do not feel it.
// QEMU's models of TI's XIO3130 (up- and downstream), Red Hat's root port, Intel's 3420 root port.
constexpr std::pair<std::string_view, std::string_view> kEmulatedBridges[] = {
    {"0x104c", "0x8232"}, {"0x104c", "0x8233"}, {"0x1b36", "0x000c"}, {"0x8086", "0x3420"}};

// "16 GT/s", "16.0 GT/s PCIe" -> 16.
double transfers_per_second(const XmlElement& element, bool& is_known) {
  const std::string text = element.find("link_speed").value_or("");
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  is_known = error == std::errc() && std::string_view(end).substr(0, 5) == " GT/s";
  if (is_known && (!(value > 0) || value > 1000))
    element.refuse(fmt::format("link_speed is '{}', wanted GT/s above zero", text));
  return is_known ? value : 8;
}

// One direction, after the line code: 8b/10b up to 5 GT/s, 128b/130b from 8.
PcieRate pcie_rate(const XmlElement& element) {
  bool speed_known = false;
  const double transfers = transfers_per_second(element, speed_known);
  std::int64_t width = 0;
  if (element.find("link_width") && !element.find("link_width")->empty())
    width = element.integer("link_width", 0, 64);
  const bool is_assumed = !speed_known || width == 0;
  if (width == 0) width = 16;
  const double code = transfers < 8 ? 0.8 : 128.0 / 130.0;
  return {transfers * kGiga * code * static_cast<double>(width) / 8, is_assumed};
}

bool has_child(const XmlElement& element, std::string_view name) {
  return std::any_of(element.children.begin(), element.children.end(),
                     [&](const XmlElement& child) { return child.name == name; });
}

Nvlink nvlink_of(const XmlElement& element) {
  return {.target = element.at("target"),
          .to_switch = element.find("tclass").value_or("").substr(0, 6) == "0x0680",
          .lanes = static_cast<std::int32_t>(element.integer("count", 1, kMostNvlinkLanes)),
          .element = &element};
}

// Where an element hangs: its host, and the node of the host's PCIe.
struct NcclPlace {
  NcclHost& host;
  std::size_t node = PcieTree::kRoot;
};

class SystemReader {
 public:
  NcclSystem read(const XmlElement& system) {
    count_unread(system, {"cpu"});
    for (const XmlElement& child : system.children)
      if (child.name == "cpu") read_cpu(child);
    return std::move(system_);
  }

 private:
  void read_cpu(const XmlElement& cpu) {
    const NcclPlace place{system_.hosts[cpu.find("host_hash").value_or("")]};
    count_unread(cpu, {"pci", "nic", "gpu"});
    for (const XmlElement& child : cpu.children) {
      if (child.name == "pci") read_function(child, place);
      if (child.name == "nic") read_networks(child, place);
      if (child.name == "gpu") read_gpu(child, nullptr, below(child, place));
    }
  }

  // The place behind the link that an element has to `above`.
  NcclPlace below(const XmlElement& element, const NcclPlace& above) {
    return {above.host, above.host.pcie.add(above.node, link_of(element))};
  }

  PcieRate link_of(const XmlElement& element) {
    const std::string vendor = element.find("vendor").value_or("");
    const std::string device = element.find("device").value_or("");
    const std::string bus_id = element.find("busid").value_or("?");
    for (const auto& [of_vendor, of_device] : kEmulatedBridges) {
      if (vendor != of_vendor || device != of_device) continue;
      system_.emulated_bridges.push_back(bus_id);
      return {PcieTree::kNoLimit, false};
    }
    const PcieRate rate = pcie_rate(element);
    if (rate.is_assumed) system_.unknown_pcie.push_back(bus_id);
    return rate;
  }

  // A bridge, a GPU or a NIC.
  void read_function(const XmlElement& pci, const NcclPlace& above) {
    const std::string type = pci.find("class").value_or("").substr(0, 4);
    const bool is_inner = has_child(pci, "pci") || has_child(pci, "gpu") || has_child(pci, "nic");
    if (!is_inner && type.empty())
      pci.refuse(
          "has no class, so it may be a GPU, a NIC or a bridge: NCCL looks that up on the machine; "
          "the file that NCCL_TOPO_DUMP_FILE makes it write there says all");
    count_unread(pci, {"pci", "gpu", "nic"});
    if (is_inner) {
      const NcclPlace place = below(pci, above);
      for (const XmlElement& child : pci.children) {
        if (child.name == "pci") read_function(child, place);
        if (child.name == "nic") read_networks(child, place);
        if (child.name == "gpu") read_gpu(child, &pci, place);
      }
    } else if (type == "0x03" || type == "0x12") {  // display controllers, accelerators
      if (is_other_display(pci)) return;
      read_gpu(XmlElement{.name = "gpu", .place = pci.place, .attributes = {}, .children = {}},
               &pci, below(pci, above));
    } else if (type == "0x02") {  // network controllers
      const NcclPlace place = below(pci, above);
      ++place.host.nics;
      place.host.nics_have_speed = false;
      place.host.pcie.add_wire(place.node, pcie_rate(pci).value);
    }
  }

  // What shows a server's console.
  bool is_other_display(const XmlElement& pci) {
    const std::string vendor = pci.find("vendor").value_or(std::string(kNvidia));
    if (vendor == kNvidia || pci.find("class").value_or("").substr(0, 6) != "0x0300") return false;
    system_.other_displays.push_back(pci.find("busid").value_or("?"));
    return true;
  }

  static void require_nvidia(const XmlElement& gpu, const XmlElement& pci) {
    const std::string vendor = pci.find("vendor").value_or(std::string(kNvidia));
    if (vendor == kNvidia || vendor.empty()) return;
    const std::string_view name = vendor == "0x1002"   ? " (AMD)"
                                  : vendor == "0x8086" ? " (Intel)"
                                                       : "";
    gpu.refuse(
        fmt::format("a GPU of vendor {}{}: only NVIDIA's are read from this format; their links "
                    "and numbers go into a cluster file",
                    vendor, name));
  }

  void read_gpu(const XmlElement& gpu, const XmlElement* pci, const NcclPlace& place) {
    if (pci != nullptr) require_nvidia(gpu, *pci);
    NcclGpu found;
    if (pci != nullptr) found.bus_id = pci->find("busid").value_or("");
    if (pci != nullptr) found.pci_id = pci->find("device").value_or("");
    if (gpu.find("sm")) found.sm = gpu.integer("sm", 0, 10'000);
    count_unread(gpu, {"nvlink"});
    for (const XmlElement& child : gpu.children)
      if (child.name == "nvlink") found.nvlinks.push_back(nvlink_of(child));
    drop_links_to_self(found);
    NcclHost& host = place.host;
    for (const NcclGpu& other : host.gpus)
      if (!found.bus_id.empty() && other.bus_id == found.bus_id)
        gpu.refuse(fmt::format("a second GPU at {}", found.bus_id));
    host.gpus.push_back(std::move(found));
    host.pcie.make_gpu(place.node);
    if (host.gpus.size() > kMostGpusOfHost)
      gpu.refuse(fmt::format("more than {} GPUs", kMostGpusOfHost));
  }

  // Vendors' files have some; NCCL reads them, and no byte ever uses them.
  void drop_links_to_self(NcclGpu& gpu) {
    const auto dropped = std::erase_if(gpu.nvlinks, [&gpu](const Nvlink& nvlink) {
      return !nvlink.to_switch && nvlink.target == gpu.bus_id;
    });
    if (dropped > 0) system_.linked_to_self.push_back(gpu.bus_id);
  }

  // Speeds are in Mb/s.
  void read_networks(const XmlElement& nic, const NcclPlace& place) {
    count_unread(nic, {"net"});
    for (const XmlElement& net : nic.children) {
      if (net.name != "net") continue;
      const std::int64_t speed = net.integer("speed", 1, 100'000'000);
      ++place.host.nics;
      place.host.pcie.add_wire(place.node, static_cast<double>(speed) * 1e6 / 8);
    }
  }

  void count_unread(const XmlElement& element, std::initializer_list<std::string_view> read) {
    for (const XmlElement& child : element.children)
      if (std::find(read.begin(), read.end(), child.name) == read.end())
        ++system_.unread[fmt::format("{}.{}", element.name, child.name)];
  }

  NcclSystem system_;
};

}  // namespace

NcclSystem read_nccl_system(const XmlElement& system) { return SystemReader().read(system); }

}  // namespace sextant
