// The network model: each collective as the fastest of the ways that the library has for it, over
// the links that its group uses. Isolated durations; sharing of links is for others
// (simulator/README.md).
#pragma once

#include "core/costs/cluster.h"
#include "core/costs/cost_model.h"
#include "simulator/clusters/group_shape.h"
#include "simulator/clusters/nccl_algorithms.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

// What a collective is run as. An all_reduce may be a reduce_scatter and an all_gather: the text
// then names both, and the times are their sums.
struct CollectiveChoice {
  std::string text;  // "ring ll128"; "alpha-beta" where the link names no algorithms
  Duration latency;  // of the duration, what zero bytes would take the same way
  Duration duration;
};

class NcclModel : public NetworkModel {
 public:
  // Throws Error(kBadInput) for an algorithm, protocol or primitive of a link that is unknown.
  explicit NcclModel(const Cluster& cluster);

  // All together, one duration after the last arrival: kernels of a collective spin until their
  // peers have come.
  void complete(const CollectiveCost& cost, std::span<const Time> arrivals,
                std::span<Time> done) const override;
  bool completes_together() const override { return true; }
  Duration duration(const CollectiveCost& cost) const override;
  std::vector<std::int64_t> places_of(std::span<const Rank> ranks) const override {
    return shapes_.places_of(ranks);
  }
  CollectiveChoice choice(const CollectiveCost& cost) const;

 private:
  static constexpr std::size_t kNumPrimitives = 7;
  using Ways = std::array<std::vector<Way>, kNumPrimitives>;
  struct Best {
    const Way* way = nullptr;  // null: alpha-beta
    Duration duration;
    double latency = 0;
  };

  Best best(Primitive primitive, const GroupShape& shape, const CollectiveSize& size) const;

  GroupShapes shapes_;
  PlainWays plain_;
  Ways local_, spanning_;
};

}  // namespace sextant
