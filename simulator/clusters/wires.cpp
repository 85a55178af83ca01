// Numbering, capacities and ways of each wiring.

#include "simulator/clusters/wires.h"

#include "core/base/check.h"

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/dijkstra_shortest_paths.hpp>

#include <algorithm>

namespace sextant {

namespace {

// A cable more outweighs any width.
constexpr double kWidthWeight = 1e-6;

}  // namespace

double usable_bandwidth(const NetworkLink& link) {
  double efficiency = link.efficiency.value;
  for (const CollectiveAlgorithm& algorithm : link.algorithms)
    efficiency = std::max(efficiency, algorithm.efficiency.value);
  return link.bandwidth.value * efficiency;
}

Wires::Wires(const NetworkLink& link, std::int64_t ends, double bandwidth)
    : name_(link.name), wiring_(link.wiring), ends_(ends), bandwidth_(bandwidth) {
  if (ends == 1) return;
  switch (wiring_) {
    case Wiring::kSwitch:
      count_ = static_cast<std::int32_t>(2 * ends);
      break;
    case Wiring::kFullyConnected:
      count_ = static_cast<std::int32_t>(ends * (ends - 1));
      break;
    case Wiring::kRing:
      lay_torus({ends});
      break;
    case Wiring::kTorus:
      lay_torus(link.extents);
      break;
    case Wiring::kCables:
      lay_cables(link.cables);
      break;
  }
}

void Wires::lay_torus(const std::vector<std::int64_t>& extents) {
  std::int64_t stride = 1;
  for (const std::int64_t extent : extents) {
    Port port{extent, stride, links_per_end_, links_per_end_};
    if (extent > 1) ++links_per_end_;
    if (extent > 2) port.previous = links_per_end_++;
    ports_.push_back(port);
    stride *= extent;
  }
  require(stride == ends_, ErrorCode::kBadInput, "link '{}': a torus of {} ends for {}", name_,
          stride, ends_);
  count_ = static_cast<std::int32_t>(ends_) * links_per_end_;
}

void Wires::lay_cables(const std::vector<Cable>& cables) {
  using Graph =
      boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property,
                            boost::property<boost::edge_weight_t, double>>;
  cables_ = cables;
  count_ = static_cast<std::int32_t>(2 * cables.size());
  const auto ends = static_cast<std::size_t>(ends_);
  std::vector<std::int32_t> lanes(ends);
  Graph graph(ends);
  for (const Cable& cable : cables) {
    for (const std::int32_t end : {cable.first, cable.second}) {
      require(end >= 0 && end < ends_, ErrorCode::kBadInput, "link '{}': a cable to end {} of {}",
              name_, end, ends_);
      lanes[static_cast<std::size_t>(end)] += cable.lanes;
    }
    const double weight = 1 + kWidthWeight / cable.lanes;
    add_edge(static_cast<std::size_t>(cable.first), static_cast<std::size_t>(cable.second), weight,
             graph);
    add_edge(static_cast<std::size_t>(cable.second), static_cast<std::size_t>(cable.first), weight,
             graph);
  }
  lane_bandwidth_ = bandwidth_ / std::max(1, *std::max_element(lanes.begin(), lanes.end()));
  // The widest cable from end to end.
  std::vector<std::int32_t> direct(ends * ends, -1);
  for (std::int32_t link = 0; link < count_; ++link) {
    const Cable& cable = cables[static_cast<std::size_t>(link / 2)];
    const auto from = static_cast<std::size_t>(link % 2 == 0 ? cable.first : cable.second);
    const auto to = static_cast<std::size_t>(link % 2 == 0 ? cable.second : cable.first);
    std::int32_t& best = direct[from * ends + to];
    if (best < 0 || cables[static_cast<std::size_t>(best / 2)].lanes < cable.lanes) best = link;
  }
  last_link_.assign(ends * ends, -1);
  std::vector<std::size_t> before(ends);
  for (std::size_t from = 0; from < ends; ++from) {
    dijkstra_shortest_paths(graph, from, boost::predecessor_map(before.data()));
    for (std::size_t to = 0; to < ends; ++to) {
      if (to == from) continue;
      require(before[to] != to, ErrorCode::kBadInput,
              "link '{}': no cables lead from end {} to end {}", name_, from, to);
      last_link_[from * ends + to] = direct[before[to] * ends + to];
    }
  }
}

void Wires::route(std::int64_t from, std::int64_t to, std::int32_t base,
                  std::vector<std::int32_t>& links) const {
  if (from == to) return;
  const auto add = [&](std::int64_t link) {
    links.push_back(base + static_cast<std::int32_t>(link));
  };
  switch (wiring_) {
    case Wiring::kSwitch:
      add(2 * from);
      add(2 * to + 1);
      return;
    case Wiring::kFullyConnected:
      add(from * (ends_ - 1) + (to < from ? to : to - 1));
      return;
    case Wiring::kRing:
    case Wiring::kTorus:
      for (const Port& port : ports_) {
        const std::int64_t goal = to / port.stride % port.extent;
        std::int64_t here = from / port.stride % port.extent;
        const std::int64_t ahead = (goal - here + port.extent) % port.extent;
        const bool goes_up = 2 * ahead <= port.extent;
        const std::int64_t hops = goes_up ? ahead : port.extent - ahead;
        for (std::int64_t hop = 0; hop < hops; ++hop) {
          add(from * links_per_end_ + (goes_up ? port.next : port.previous));
          const std::int64_t there = (here + (goes_up ? 1 : port.extent - 1)) % port.extent;
          from += (there - here) * port.stride;
          here = there;
        }
      }
      return;
    case Wiring::kCables: {
      const std::size_t first = links.size();
      while (to != from) {
        const std::int32_t link = last_link_[static_cast<std::size_t>(from * ends_ + to)];
        add(link);
        const Cable& cable = cables_[static_cast<std::size_t>(link / 2)];
        to = link % 2 == 0 ? cable.first : cable.second;
      }
      std::reverse(links.begin() + static_cast<std::ptrdiff_t>(first), links.end());
      return;
    }
  }
}

double Wires::capacity_of(std::int32_t link) const {
  switch (wiring_) {
    case Wiring::kSwitch:
      return bandwidth_;
    case Wiring::kFullyConnected:
      return bandwidth_ / static_cast<double>(ends_ - 1);
    case Wiring::kRing:
    case Wiring::kTorus:
      return bandwidth_ / links_per_end_;
    case Wiring::kCables:
      return lane_bandwidth_ * cables_[static_cast<std::size_t>(link / 2)].lanes;
  }
  return 0;
}

std::string Wires::name_of(std::int32_t link, std::string_view end_name) const {
  const auto between = [&](std::int64_t from, std::int64_t to) {
    return fmt::format("{}{}-{}.{}", end_name, from, to, name_);
  };
  switch (wiring_) {
    case Wiring::kSwitch:
      return fmt::format("{}{}.{}.{}", end_name, link / 2, name_, link % 2 == 0 ? "out" : "in");
    case Wiring::kFullyConnected: {
      const std::int64_t from = link / (ends_ - 1), to = link % (ends_ - 1);
      return between(from, to < from ? to : to + 1);
    }
    case Wiring::kRing:
    case Wiring::kTorus: {
      const std::int32_t port = link % links_per_end_;
      for (std::size_t dim = 0; dim < ports_.size(); ++dim) {
        if (ports_[dim].extent == 1) continue;
        if (port != ports_[dim].next && port != ports_[dim].previous) continue;
        return fmt::format("{}{}.{}.dim{}.{}", end_name, link / links_per_end_, name_, dim,
                           port == ports_[dim].next ? "next" : "previous");
      }
      return {};
    }
    case Wiring::kCables: {
      const Cable& cable = cables_[static_cast<std::size_t>(link / 2)];
      return link % 2 == 0 ? between(cable.first, cable.second)
                           : between(cable.second, cable.first);
    }
  }
  return {};
}

void Wires::append_links(const std::string& prefix, std::string_view end_name,
                         std::vector<SharedLink>& links) const {
  for (std::int32_t link = 0; link < count_; ++link)
    links.push_back({prefix + name_of(link, end_name), capacity_of(link)});
}

}  // namespace sextant
