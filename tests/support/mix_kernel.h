// Integer kernels whose results tell which contents were read: the arithmetic shared by the device
// under test and the oracle, the oracle itself, and host actors that load and record.
#pragma once

#include "core/graphs/host_actors.h"
#include "core/graphs/physical_graph.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <tuple>
#include <vector>

namespace sextant::testing {

using Values = std::vector<std::int64_t>;

// Everything stays below 2^24, so that any dtype of the registers holds it exactly.
inline constexpr std::int64_t kMixModulus = 10007;

// Actors with this attribute update their outputs in place (state).
inline constexpr const char* kMixUpdates = "updates";

// out[i] = (7 + output + sum over inputs j of (j + 2) in[j][i mod its size]) mod 10007.
std::int64_t mixed(std::span<const Values> in, std::size_t output, std::size_t i);
// What the actor leaves in one element: added while accumulating, three times the old value more
// when updating.
std::int64_t mixed_over(std::int64_t old, std::int64_t value, bool accumulate, bool updates);

// What the loader of `rank` puts into element i.
std::int64_t loaded(Rank rank, std::int64_t step, std::int64_t act, std::size_t i);

// (rank, instance name, step, act) -> what a host actor read.
using HostRecords =
    std::map<std::tuple<std::int32_t, std::string, std::int64_t, std::int64_t>, Values>;

// Loads and records i64 registers; checks nothing.
class MixHostActors final : public HostActors {
 public:
  void act(const HostAct& act) override;
  HostRecords records() const;

 private:
  mutable std::mutex mutex_;
  HostRecords records_;
};

struct MixResult {
  HostRecords records;
  // (rank, instance, register) -> state after the last step.
  std::map<std::tuple<std::int32_t, std::int32_t, std::int32_t>, Values> state;
  bool operator==(const MixResult&) const = default;
};

// Executes the dataflow of all ranks serially in the dry run's order, each register's contents in
// storage of their own: slots, guards, registers and queues play no part. Communications: 1-to-1
// transfers and sums of equal shapes.
MixResult mix_oracle(const PhysicalGraph& graph, std::int64_t steps);

}  // namespace sextant::testing
