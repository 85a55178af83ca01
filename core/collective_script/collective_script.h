// What one member of a communication does, as a value: local steps before, one exchange with the
// other members, local steps after (README.md). No memory, no device.
#pragma once

#include "core/base/dtype.h"
#include "core/base/units.h"
#include "core/costs/communication_volume.h"
#include "core/graphs/physical_graph.h"
#include "core/tensors/sbp.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sextant {

struct ScriptPlace {
  enum class Buffer : std::uint8_t { kIn, kOut, kStaging };
  Buffer buffer = Buffer::kIn;
  Bytes offset;
  bool operator==(const ScriptPlace&) const = default;
};

// One dim of a box that is visited, row-major; strides in elements.
struct ScriptDim {
  std::int64_t extent = 1, from = 0, to = 0;
  bool operator==(const ScriptDim&) const = default;
};

struct LocalStep {
  enum class Kind : std::uint8_t {
    kCopy,    // to = from
    kFill,    // to = the neutral element of `op`; `from` means nothing
    kReduce,  // to = to (op) from
  };
  Kind kind = Kind::kCopy;
  ReduceOp op = ReduceOp::kSum;
  ScriptPlace from, to;
  std::vector<ScriptDim> dims;  // no dims: one element

  // Elements that the step visits.
  std::int64_t elements() const;
  bool operator==(const LocalStep&) const = default;
};

struct ExchangeCall {
  enum class Kind : std::uint8_t { kAllReduce, kAllGather, kReduceScatter, kSend, kReceive };
  Kind kind = Kind::kAllReduce;
  ReduceOp op = ReduceOp::kSum;
  std::int32_t peer = -1;     // position in the group, of sends and receives
  ScriptPlace from, to;       // a send has no `to`, a receive no `from`
  std::int64_t elements = 0;  // of all_gather and reduce_scatter: of one part
  bool operator==(const ExchangeCall&) const = default;
};
// Whether all members make this call together, and not two of them.
bool is_ring(ExchangeCall::Kind kind);

struct CollectiveScript {
  DType dtype = DType::kF32;
  std::vector<LocalStep> before;
  std::vector<ExchangeCall> exchange;  // one ring, or sends and receives; may be empty
  std::vector<LocalStep> after;
  Bytes staging;
  bool operator==(const CollectiveScript&) const = default;
};

// Of the member at this position among `ranks`, in group order. With `accumulate` the result is
// added to the output.
CollectiveScript make_script(const PhysicalGraph& graph, const Communication& communication,
                             std::span<const Rank> ranks, std::size_t member, bool accumulate);

// Adds what the exchange of all members sends, rings in group order: what add_traffic says of the
// communication, but for invariant 6.
void add_traffic(std::span<const CollectiveScript> scripts, std::span<const Rank> ranks,
                 Traffic& traffic);

// One message per broken rule (invariants 1 and 3), with `in` and `out` the bytes of each member's
// buffers; empty: none.
std::vector<std::string> faults_of(std::span<const CollectiveScript> scripts,
                                   std::span<const Bytes> in, std::span<const Bytes> out);

}  // namespace sextant
