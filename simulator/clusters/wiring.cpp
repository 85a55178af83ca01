// Loads of links under shortest ways, and rings over cables.

#include "simulator/clusters/wiring.h"

#include "core/base/at.h"
#include "core/base/check.h"
#include "simulator/clusters/cable_rings.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace sextant {

namespace {

// A part of a flow on one directed lane between neighbours.
struct Passing {
  std::size_t lane = 0;
  double part = 1;
};

// Lanes with their shares of an end's bandwidth, and the way from one end to another.
class Wires {
 public:
  virtual ~Wires() = default;
  virtual std::size_t num_lanes() const = 0;
  virtual double share(std::size_t lane) const = 0;
  virtual void route(std::int32_t from, std::int32_t to, std::vector<Passing>& way) const = 0;
};

// Ring and torus: shortest way dimension by dimension, half each way where both are as short.
class TorusWires : public Wires {
 public:
  explicit TorusWires(std::vector<std::int64_t> extents) : extents_(std::move(extents)) {}

  // Of each end and dimension one lane up and one down.
  std::size_t num_lanes() const override { return 2 * extents_.size() * at(num_ends()); }
  double share(std::size_t /*lane*/) const override {
    return 0.5 / static_cast<double>(std::max<std::size_t>(1, wide_dims()));
  }

  void route(std::int32_t from, std::int32_t to, std::vector<Passing>& way) const override {
    std::int64_t stride = 1, here = from;
    for (std::size_t dim = extents_.size(); dim-- > 0; stride *= extents_[dim]) {
      const std::int64_t extent = extents_[dim];
      const std::int64_t start = here / stride % extent, goal = to / stride % extent;
      const std::int64_t forward = (goal - start + extent) % extent, backward = extent - forward;
      if (forward == 0) continue;
      const double up = forward < backward ? 1 : forward > backward ? 0 : 0.5;
      const auto walk = [&](std::int64_t length, std::int64_t by, std::size_t down, double part) {
        for (std::int64_t step = 0; step < length; ++step) {
          const std::int64_t end = here + ((start + step * by) % extent - start) * stride;
          way.push_back({2 * (at(end) * extents_.size() + dim) + down, part});
        }
      };
      if (up > 0) walk(forward, 1, 0, up);
      if (up < 1) walk(backward, extent - 1, 1, 1 - up);
      here += (goal - start) * stride;
    }
  }

  std::size_t wide_dims() const {
    return static_cast<std::size_t>(
        std::count_if(extents_.begin(), extents_.end(), [](std::int64_t e) { return e > 1; }));
  }

 private:
  std::int64_t num_ends() const {
    std::int64_t ends = 1;
    for (const std::int64_t extent : extents_) ends *= extent;
    return ends;
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

  std::size_t num_lanes() const override { return lanes_.size() * lanes_.size(); }
  double share(std::size_t lane) const override {
    return static_cast<double>(lanes_[lane / lanes_.size()][lane % lanes_.size()]) /
           static_cast<double>(most_);
  }
  const LaneCounts& lanes() const { return lanes_; }
  std::int64_t most() const { return most_; }

  void route(std::int32_t from, std::int32_t to, std::vector<Passing>& way) const override {
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
      way.push_back({at(before[at(end)]) * lanes_.size() + at(end), 1});
  }

 private:
  LaneCounts lanes_;
  std::int64_t most_ = 1;
};

// Flows that run at once, each of a weight: the rate at which all of them can.
class LaneLoads {
 public:
  explicit LaneLoads(const Wires& wires) : wires_(wires), loads_(wires.num_lanes()) {}

  void add(std::int32_t from, std::int32_t to, double weight) {
    way_.clear();
    wires_.route(from, to, way_);
    double hops = 0, alone = 1;
    for (const Passing& passing : way_) {
      loads_[passing.lane] += passing.part * weight;
      hops += passing.part;
      alone = std::min(alone, wires_.share(passing.lane) / passing.part);
    }
    longest_ = std::max(longest_, hops);
    slowest_ = std::min(slowest_, alone);
  }
  double rate() const {
    double rate = 1;
    for (std::size_t lane = 0; lane < loads_.size(); ++lane)
      if (loads_[lane] > 0) rate = std::min(rate, wires_.share(lane) / loads_[lane]);
    return rate;
  }
  double longest() const { return longest_; }  // way of a flow, in lanes
  double slowest() const { return slowest_; }  // flow if each were alone

 private:
  const Wires& wires_;
  std::vector<double> loads_;
  std::vector<Passing> way_;
  double longest_ = 1, slowest_ = 1;
};

// One ring in order of position, and the same backwards.
void add_ring(const Wires& wires, std::span<const std::int32_t> positions, WiringFit& fit) {
  LaneLoads loads(wires);
  const std::size_t k = positions.size();
  for (std::size_t i = 0; i < k; ++i) {
    loads.add(positions[i], positions[(i + 1) % k], 0.5);
    loads.add(positions[(i + 1) % k], positions[i], 0.5);
  }
  fit.ring = loads.rate();
  fit.hops = loads.longest();
}

void add_pairs(const Wires& wires, std::span<const std::int32_t> positions, WiringFit& fit) {
  LaneLoads all(wires);
  const double part = 1.0 / static_cast<double>(positions.size() - 1);
  for (const std::int32_t from : positions)
    for (const std::int32_t to : positions)
      if (from != to) all.add(from, to, part);
  fit.spread = all.rate();
  fit.pair = all.slowest();
  fit.pair_hops = all.longest();
}

// Members' coordinates along one dimension in which they differ.
struct Line {
  std::int64_t extent = 1;
  std::vector<std::int32_t> members;  // sorted
};

// The lines whose product the members are; nothing if they are no product.
std::vector<Line> lines_of(const std::vector<std::int64_t>& extents,
                           std::span<const std::int32_t> positions) {
  std::vector<Line> lines;
  std::size_t product = 1;
  std::int64_t stride = 1;
  for (std::size_t dim = extents.size(); dim-- > 0; stride *= extents[dim]) {
    std::vector<std::int32_t> coordinates;
    for (const std::int32_t position : positions)
      coordinates.push_back(static_cast<std::int32_t>(position / stride % extents[dim]));
    std::sort(coordinates.begin(), coordinates.end());
    coordinates.erase(std::unique(coordinates.begin(), coordinates.end()), coordinates.end());
    product *= coordinates.size();
    if (coordinates.size() > 1) lines.push_back({extents[dim], std::move(coordinates)});
  }
  if (product != positions.size()) lines.clear();
  return lines;
}

// Members of a line send `part` to each other: the most that one of its lanes carries.
double most_on_a_lane(const Line& line, double part) {
  std::vector<double> up(static_cast<std::size_t>(line.extent)), down(up.size());
  const auto pass = [&](std::vector<double>& lanes, std::int64_t from, std::int64_t length,
                        std::int64_t by, double weight) {
    for (std::int64_t step = 0; step < length; ++step, from = (from + by) % line.extent)
      lanes[at(from)] += weight;
  };
  for (const std::int64_t from : line.members)
    for (const std::int64_t to : line.members) {
      const std::int64_t forward = (to - from + line.extent) % line.extent;
      const std::int64_t backward = line.extent - forward;
      if (forward == 0) continue;
      const double share = forward < backward ? 1 : forward > backward ? 0 : 0.5;
      if (share > 0) pass(up, from, forward, 1, share * part);
      if (share < 1) pass(down, from, backward, line.extent - 1, (1 - share) * part);
    }
  return std::max(*std::max_element(up.begin(), up.end()),
                  *std::max_element(down.begin(), down.end()));
}

std::int64_t widest_gap(const Line& line) {
  std::int64_t widest = line.members.front() + line.extent - line.members.back();
  for (std::size_t i = 1; i < line.members.size(); ++i)
    widest = std::max<std::int64_t>(widest, line.members[i] - line.members[i - 1]);
  return widest;
}

// Rings along all lines at once, each dimension with its part of the work. Dimension by dimension,
// what goes from all to all stays on lines of members, n / k times as much per pair of a line of k.
WiringFit product_fit(const std::vector<Line>& lines, double n, double lane) {
  WiringFit fit;
  fit.steps = fit.pair_hops = 0;
  fit.ring = std::min(1.0, 2 * lane * static_cast<double>(lines.size()));
  fit.pair = lane;
  for (const Line& line : lines) {
    const double k = static_cast<double>(line.members.size());
    fit.steps += k - 1;
    fit.hops = std::max(fit.hops, static_cast<double>(widest_gap(line)));
    fit.pair_hops += static_cast<double>(line.extent / 2);
    fit.spread = std::min(fit.spread, lane / most_on_a_lane(line, n / k / (n - 1)));
  }
  return fit;
}

WiringFit torus_fit(const std::vector<std::int64_t>& extents,
                    std::span<const std::int32_t> positions) {
  const TorusWires wires(extents);
  const std::vector<Line> lines = lines_of(extents, positions);
  if (!lines.empty())
    return product_fit(lines, static_cast<double>(positions.size()), wires.share(0));
  WiringFit fit;
  fit.steps = static_cast<double>(positions.size()) - 1;
  add_ring(wires, positions, fit);
  add_pairs(wires, positions, fit);
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
