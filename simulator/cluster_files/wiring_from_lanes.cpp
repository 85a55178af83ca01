// Reads lane tables, and gives links the latencies and efficiencies that no such file has.
#include "simulator/cluster_files/wiring_from_lanes.h"

#include "simulator/clusters/builtin_links.h"
#include "simulator/clusters/published.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace sextant {

namespace {

// The devices that lanes lead to from `start`, in order.
std::vector<std::size_t> island_of(const LaneTable& lanes, std::size_t start) {
  std::vector<bool> seen(lanes.size());
  std::vector<std::size_t> open = {start}, island;
  seen[start] = true;
  while (!open.empty()) {
    const std::size_t at = open.back();
    open.pop_back();
    island.push_back(at);
    for (std::size_t next = 0; next < lanes.size(); ++next) {
      if (seen[next] || lanes[at][next] == 0) continue;
      seen[next] = true;
      open.push_back(next);
    }
  }
  std::sort(island.begin(), island.end());
  return island;
}

GpuGeneration generation_of(std::int64_t sm) {
  if (sm >= 100) return GpuGeneration::kBlackwell;
  if (sm >= 90) return GpuGeneration::kHopper;
  return sm > 0 && sm < 80 ? GpuGeneration::kVolta : GpuGeneration::kAmpere;
}

}  // namespace

bool joins_all(const LaneTable& lanes) { return island_of(lanes, 0).size() == lanes.size(); }

std::vector<Cable> cables_of(const LaneTable& lanes) {
  std::vector<Cable> cables;
  for (std::size_t a = 0; a < lanes.size(); ++a)
    for (std::size_t b = a + 1; b < lanes.size(); ++b)
      if (lanes[a][b] > 0)
        cables.push_back({static_cast<std::int32_t>(a), static_cast<std::int32_t>(b), lanes[a][b]});
  return cables;
}

std::int64_t most_lanes(const LaneTable& lanes) {
  std::int64_t most = 0;
  for (const auto& row : lanes)
    most = std::max(most, std::accumulate(row.begin(), row.end(), std::int64_t{0}));
  return most;
}

std::string islands_text(const LaneTable& lanes) {
  std::string text;
  for (std::size_t start = 0; start < lanes.size(); ++start) {
    const auto island = island_of(lanes, start);
    if (island.front() != start) continue;
    if (!text.empty()) text += ", ";
    for (std::size_t i = 0; i < island.size(); ++i)
      text += (i > 0 ? " " : "") + std::to_string(island[i]);
  }
  return text;
}

NetworkLink pcie_link(double rate, Provenance provenance, std::string source) {
  NetworkLink link;
  link.name = "pcie";
  link.bandwidth = {rate, provenance, std::move(source)};
  link.latency = assumed(3 * kMicro, "one hop of an NCCL ring over PCIe, no measurement here");
  link.efficiency = assumed(0.75, "NCCL rings over PCIe, no measurement here");
  return link;
}

NetworkLink nvlink_link(double rate, Provenance provenance, std::string source, std::int64_t sm,
                        std::vector<Cable> cables) {
  NetworkLink nvlinks =
      nvlinks_of("nvlink", {rate, provenance, std::move(source)}, generation_of(sm));
  if (cables.empty()) return nvlinks;
  nvlinks.wiring = Wiring::kCables;
  nvlinks.cables = std::move(cables);
  // Multicast is the switch's.
  std::erase_if(nvlinks.algorithms,
                [](const CollectiveAlgorithm& algorithm) { return algorithm.name == "nvls"; });
  return nvlinks;
}

NetworkLink nic_link(double rate, Provenance provenance, std::string source, std::int64_t sm) {
  return ports_of("nic", {rate, provenance, std::move(source)}, generation_of(sm));
}

}  // namespace sextant
