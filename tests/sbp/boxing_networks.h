// Networks and devices for the tests of boxing, with times that can be worked out by hand.
#pragma once

#include "core/costs/cost_model.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace sextant::oracle {

// One hop takes 1 us and 1 ns per byte, times `slow_down` where members are of several nodes of
// `devices_per_node`: what a step costs is hops and bytes per member.
class HopModel : public NetworkModel {
 public:
  explicit HopModel(std::int64_t devices_per_node = 1 << 20, std::int64_t slow_down = 1)
      : devices_per_node_(devices_per_node), slow_down_(slow_down) {}

  void complete(const CollectiveCost& cost, std::span<const Time> arrivals,
                std::span<Time> done) const override {
    const Time end = *std::max_element(arrivals.begin(), arrivals.end()) + duration(cost);
    std::fill(done.begin(), done.end(), end);
  }
  Duration duration(const CollectiveCost& cost) const override {
    const auto n = static_cast<std::int64_t>(cost.members.size());
    const std::int64_t hop = 1'000'000 + cost.global_bytes.value * 1000 / n;
    const std::int64_t largest = cost.largest_volume.value * 1000;
    switch (cost.communication->primitive) {
      case Primitive::kAllReduce:
        return Duration(slowness(cost) * 2 * (n - 1) * hop);
      case Primitive::kAllGather:
      case Primitive::kReduceScatter:
        return Duration(slowness(cost) * (n - 1) * hop);
      case Primitive::kShift:
        return Duration(slowness(cost) * hop);
      case Primitive::kAllToAll:
        return Duration(slowness(cost) * ((n - 1) * 1'000'000 + largest));
      case Primitive::kBroadcast:
      case Primitive::kTransfer:
        return Duration(slowness(cost) * (1'000'000 + largest));
    }
    return {};
  }

 private:
  std::int64_t slowness(const CollectiveCost& cost) const {
    const bool one_node = std::all_of(cost.members.begin(), cost.members.end(), [&](Rank rank) {
      return rank.value / devices_per_node_ == cost.members.front().value / devices_per_node_;
    });
    return one_node ? 1 : slow_down_;
  }

  std::int64_t devices_per_node_, slow_down_;
};

// One node, and nodes of two devices with slow links between them.
inline std::vector<const NetworkModel*> networks() {
  static const HopModel one, nodes(2, 7);
  return {&one, &nodes};
}

// A kernel takes a start and a time per byte that it reads or writes; on every other device
// `slow_down` times as long.
class StreamCost : public CostModel {
 public:
  StreamCost(std::int64_t start_ps, std::int64_t ps_per_byte, std::int64_t slow_down = 1)
      : start_(start_ps), per_byte_(ps_per_byte), slow_down_(slow_down) {}

  Duration duration(const Work& work) const override {
    return Duration(start_ + (work.read + work.written).value * per_byte_);
  }
  Duration duration_on(Rank rank, const Work& work) const override {
    return Duration(duration(work).value * (colour_of(rank) == 0 ? 1 : slow_down_));
  }
  std::int32_t colour_of(Rank rank) const override { return slow_down_ == 1 ? 0 : rank.value % 2; }
  Duration launch_cost() const override { return {}; }

 private:
  std::int64_t start_, per_byte_, slow_down_;
};

// Memory that is a hundred times as fast as a hop, and memory as slow as one, of unequal devices.
inline std::vector<const CostModel*> devices() {
  static const StreamCost fast(1000, 10), slow(300'000, 500, 2);
  return {&fast, &slow};
}

}  // namespace sextant::oracle
