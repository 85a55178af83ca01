// Durations come in through these two interfaces and from nowhere else. Implementations are in
// simulator/; the compiler and the tape are handed one.
#pragma once

#include "core/base/ids.h"
#include "core/base/units.h"
#include "core/graphs/physical_graph.h"
#include "core/graphs/work.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

class CostModel {
 public:
  virtual ~CostModel() = default;
  // Device time of one act of a compute actor, rounded to picoseconds once, here.
  virtual Duration duration(const Work& work) const = 0;
  // Device time on the device of one rank, where ranks differ: other device kinds, stragglers.
  virtual Duration duration_on(Rank /*rank*/, const Work& work) const { return duration(work); }
  // Ranks of one colour have equal durations: input of the folding.
  virtual std::int32_t colour_of(Rank /*rank*/) const { return 0; }
  // Host time to launch one run.
  virtual Duration launch_cost() const = 0;
  // Whether the device has one kernel for a fused kind (core/graphs/fused_kinds.h).
  virtual bool fuses(std::string_view /*fused_kind*/) const { return false; }
};

// One collective or transfer to be timed; core/costs/communication_volume.h fills it.
struct CollectiveCost {
  const Communication* communication = nullptr;
  std::span<const Rank> members;  // in group order
  // Size of the tensor that is global to the group, the splits over other axes taken out: what one
  // member holds where it holds all of it (the largest, if members differ). For all_to_all and
  // transfers: all bytes that move.
  Bytes global_bytes;
  // Of all_to_all and transfers: the most bytes that one member sends or receives.
  Bytes largest_volume;
};

// What a collective asks of the links while it runs. Of its isolated duration, `latency` passes
// whatever else runs; in the rest, at full rate, it moves `bytes` over each link named. Running
// beside others it proceeds at the largest rate, at most 1, that max-min sharing leaves it.
struct LinkLoad {
  std::int32_t link = 0;  // by NetworkModel::links
  double bytes = 0;
};
struct NetworkDemand {
  Duration latency;
  std::vector<LinkLoad> loads;  // links differ; none: it never contends
};

// A directed link that transfers can contend for.
struct SharedLink {
  std::string name;  // "node3.gpu5.nvlink.out"
  double bytes_per_second = 0;
};

class NetworkModel {
 public:
  virtual ~NetworkModel() = default;
  // Completion per member from arrival per member, both in group order. A completion is never
  // before the member's own arrival. `arrivals` and `done` have as many entries as members.
  virtual void complete(const CollectiveCost& cost, std::span<const Time> arrivals,
                        std::span<Time> done) const = 0;
  // Isolated duration when all members arrive together.
  virtual Duration duration(const CollectiveCost& cost) const = 0;
  // All that durations depend on beside sizes and positions in a list of ranks. Where two lists of
  // one length have equal numbers, a collective takes as long over the ranks at some positions of
  // the one as over those at the same positions of the other.
  virtual std::vector<std::int64_t> places_of(std::span<const Rank> ranks) const {
    std::vector<std::int64_t> places;
    places.reserve(ranks.size());
    for (const Rank rank : ranks) places.push_back(rank.value);
    return places;
  }
  // Every completion is the last arrival plus `duration`: whoever times one collective many times
  // needs to ask for its duration once.
  virtual bool completes_together() const { return false; }
  // The links of flow-level sharing; none where contention is not modelled.
  virtual std::span<const SharedLink> links() const { return {}; }
  virtual void demand(const CollectiveCost& /*cost*/, NetworkDemand& out) const { out = {}; }
};

}  // namespace sextant
