// Loads of links under shortest ways, and rings over cables.

#include "simulator/wiring.h"

#include "core/check.h"
#include "simulator/cable_rings.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace sextant {

namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

// A directed connection of neighbours and what it carries, in lanes' worth.
struct Lane {
  std::int32_t from = 0, to = 0;
  auto operator<=>(const Lane&) const = default;
};

// Neighbours with the share of an end's bandwidth that leads to them, and a rule for ways.
class Wires {
 public:
  virtual ~Wires() = default;
  virtual double share(const Lane& lane) const = 0;
  // Every lane passed from one end to another: shares of the traffic, which add up per step.
  virtual void route(std::int32_t from, std::int32_t to,
                     std::vector<std::pair<Lane, double>>& way) const = 0;
};

// Ring and torus: shortest way dimension by dimension, half each way where both are as short.
class TorusWires : public Wires {
 public:
  explicit TorusWires(std::vector<std::int64_t> extents) : extents_(std::move(extents)) {}

  double share(const Lane&) const override {
    return 0.5 / static_cast<double>(std::max<std::size_t>(1, wide_dims()));
  }

  void route(std::int32_t from, std::int32_t to,
             std::vector<std::pair<Lane, double>>& way) const override {
    std::int64_t stride = 1, here = from;
    for (std::size_t dim = extents_.size(); dim-- > 0; stride *= extents_[dim]) {
      const std::int64_t extent = extents_[dim];
      const std::int64_t start = here / stride % extent, goal = to / stride % extent;
      const std::int64_t forward = (goal - start + extent) % extent, backward = extent - forward;
      if (forward == 0) continue;
      const double up = forward < backward ? 1 : forward > backward ? 0 : 0.5;
      if (up > 0) walk(here, stride, extent, forward, 1, up, way);
      if (up < 1) walk(here, stride, extent, backward, extent - 1, 1 - up, way);
      here += (goal - start) * stride;
    }
  }

  std::size_t wide_dims() const {
    return static_cast<std::size_t>(
        std::count_if(extents_.begin(), extents_.end(), [](std::int64_t e) { return e > 1; }));
  }

 private:
  static void walk(std::int64_t here, std::int64_t stride, std::int64_t extent, std::int64_t count,
                   std::int64_t by, double share, std::vector<std::pair<Lane, double>>& way) {
    for (std::int64_t step = 0; step < count; ++step) {
      const std::int64_t coordinate = here / stride % extent;
      const std::int64_t next = here + ((coordinate + by) % extent - coordinate) * stride;
      way.push_back({{static_cast<std::int32_t>(here), static_cast<std::int32_t>(next)}, share});
      here = next;
    }
  }

  std::vector<std::int64_t> extents_;
};

// Cables: one shortest way, the first in order of position.
class CableWires : public Wires {
 public:
  CableWires(std::int64_t ends, const std::vector<Cable>& cables) : lanes_(lanes_of(ends, cables)) {
    for (std::size_t end = 0; end < lanes_.size(); ++end) {
      std::int64_t of_end = 0;
      for (const std::int32_t lanes : lanes_[end]) of_end += lanes;
      most_ = std::max(most_, of_end);
    }
  }

  double share(const Lane& lane) const override {
    return static_cast<double>(lanes_[at(lane.from)][at(lane.to)]) / static_cast<double>(most_);
  }
  const LaneCounts& lanes() const { return lanes_; }
  std::int64_t most() const { return most_; }

  void route(std::int32_t from, std::int32_t to,
             std::vector<std::pair<Lane, double>>& way) const override {
    std::vector<std::int32_t> before(lanes_.size(), -1), queue = {from};
    before[at(from)] = from;
    for (std::size_t next = 0; next < queue.size() && before[at(to)] < 0; ++next)
      for (std::size_t end = 0; end < lanes_.size(); ++end)
        if (lanes_[at(queue[next])][end] > 0 && before[end] < 0) {
          before[end] = queue[next];
          queue.push_back(static_cast<std::int32_t>(end));
        }
    require(before[at(to)] >= 0, ErrorCode::kBadInput, "no cables lead from {} to {}", from, to);
    for (std::int32_t end = to; end != from; end = before[at(end)])
      way.push_back({{before[at(end)], end}, 1.0});
  }

 private:
  LaneCounts lanes_;
  std::int64_t most_ = 1;
};

// Flows that run at once, each of a weight: the rate at which all of them can.
class Loads {
 public:
  explicit Loads(const Wires& wires) : wires_(wires) {}

  void add(std::int32_t from, std::int32_t to, double weight) {
    way_.clear();
    wires_.route(from, to, way_);
    double hops = 0;
    for (const auto& [lane, share] : way_) {
      loads_[lane] += share * weight;
      hops += share;
    }
    longest_ = std::max(longest_, hops);
  }
  double rate() const {
    double rate = 1;
    for (const auto& [lane, load] : loads_) rate = std::min(rate, wires_.share(lane) / load);
    return rate;
  }
  double longest() const { return longest_; }

 private:
  const Wires& wires_;
  std::map<Lane, double> loads_;
  std::vector<std::pair<Lane, double>> way_;
  double longest_ = 1;
};

// One ring in order of position, and the same backwards.
void add_ring(const Wires& wires, std::span<const std::int32_t> positions, WiringFit& fit) {
  Loads loads(wires);
  const std::size_t k = positions.size();
  for (std::size_t i = 0; i < k; ++i) {
    loads.add(positions[i], positions[(i + 1) % k], 0.5);
    loads.add(positions[(i + 1) % k], positions[i], 0.5);
  }
  fit.ring = loads.rate();
  fit.hops = loads.longest();
}

void add_pairs(const Wires& wires, std::span<const std::int32_t> positions, WiringFit& fit) {
  Loads all(wires);
  const double part = 1.0 / static_cast<double>(positions.size() - 1);
  for (const std::int32_t from : positions)
    for (const std::int32_t to : positions) {
      if (from == to) continue;
      all.add(from, to, part);
      Loads alone(wires);
      alone.add(from, to, 1);
      fit.pair = std::min(fit.pair, alone.rate());
    }
  fit.spread = all.rate();
  fit.pair_hops = all.longest();
}

// Extents of the dimensions along which members differ, if they fill all of these.
std::vector<std::int64_t> filled_extents(const std::vector<std::int64_t>& extents,
                                         std::span<const std::int32_t> positions) {
  std::vector<std::int64_t> filled;
  std::int64_t stride = 1, product = 1;
  for (std::size_t dim = extents.size(); dim-- > 0; stride *= extents[dim]) {
    const auto coordinate = [&](std::int32_t position) { return position / stride % extents[dim]; };
    const bool varies = std::any_of(positions.begin(), positions.end(), [&](std::int32_t position) {
      return coordinate(position) != coordinate(positions.front());
    });
    if (!varies) continue;
    filled.push_back(extents[dim]);
    product *= extents[dim];
  }
  if (product != static_cast<std::int64_t>(positions.size())) filled.clear();
  return filled;
}

// Mean distance of two ends of a ring of `extent`, an end and itself included.
double mean_distance(std::int64_t extent) {
  const double e = static_cast<double>(extent);
  return extent % 2 == 0 ? e / 4 : (e * e - 1) / (4 * e);
}

WiringFit torus_fit(const std::vector<std::int64_t>& extents,
                    std::span<const std::int32_t> positions) {
  const TorusWires wires(extents);
  WiringFit fit;
  fit.steps = static_cast<double>(positions.size()) - 1;
  const std::vector<std::int64_t> filled = filled_extents(extents, positions);
  if (filled.empty()) {
    add_ring(wires, positions, fit);
    add_pairs(wires, positions, fit);
    return fit;
  }
  const double n = static_cast<double>(positions.size());
  const double dims = static_cast<double>(wires.wide_dims());
  fit.ring = static_cast<double>(filled.size()) / dims;
  fit.steps = fit.pair_hops = 0;
  double worst = 0;
  for (const std::int64_t extent : filled) {
    fit.steps += static_cast<double>(extent - 1);
    fit.pair_hops += static_cast<double>(extent / 2);
    worst = std::max(worst, mean_distance(extent));
  }
  // By symmetry all lanes of a dimension carry the same: each member's bytes go mean_distance far,
  // over two lanes of 1 / (2 dims) each.
  fit.spread = std::min(1.0, (n - 1) / n / (worst * dims));
  fit.pair = 0.5 / dims;
  return fit;
}

WiringFit cable_fit(const NetworkLink& link, std::int64_t ends,
                    std::span<const std::int32_t> positions) {
  const CableWires wires(ends, link.cables);
  WiringFit fit;
  fit.steps = static_cast<double>(positions.size()) - 1;
  add_pairs(wires, positions, fit);
  const double rings = num_cable_rings(wires.lanes(), positions);
  if (rings > 0)
    fit.ring = rings / static_cast<double>(wires.most());
  else
    add_ring(wires, positions, fit);
  return fit;
}

WiringFit connected_fit(std::int64_t ends, std::span<const std::int32_t> positions) {
  WiringFit fit;
  const double peers = static_cast<double>(positions.size()) - 1;
  const double others = static_cast<double>(ends - 1);
  fit.ring = fit.spread = peers / others;
  fit.pair = 1 / others;
  fit.steps = peers;
  return fit;
}

}  // namespace

WiringFit worse_of(const WiringFit& a, const WiringFit& b) {
  return {std::min(a.ring, b.ring), std::min(a.spread, b.spread),       std::min(a.pair, b.pair),
          std::max(a.hops, b.hops), std::max(a.pair_hops, b.pair_hops), std::max(a.steps, b.steps)};
}

bool depends_on_positions(Wiring wiring) {
  switch (wiring) {
    case Wiring::kSwitch:
    case Wiring::kFullyConnected:
      return false;
    case Wiring::kRing:
    case Wiring::kTorus:
    case Wiring::kCables:
      return true;
  }
  return true;
}

WiringFit fit_of(const NetworkLink& link, std::int64_t ends,
                 std::span<const std::int32_t> positions) {
  WiringFit fit;
  fit.steps = static_cast<double>(positions.size()) - 1;
  if (positions.size() <= 1) return fit;
  switch (link.wiring) {
    case Wiring::kSwitch:
      return fit;
    case Wiring::kFullyConnected:
      return connected_fit(ends, positions);
    case Wiring::kRing:
      return torus_fit({ends}, positions);
    case Wiring::kTorus:
      return torus_fit(link.extents, positions);
    case Wiring::kCables:
      return cable_fit(link, ends, positions);
  }
  return fit;
}

}  // namespace sextant
