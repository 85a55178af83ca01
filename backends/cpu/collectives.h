// The data movement of one communication, once all its members are there: ring and pairwise
// algorithms over the members' buffers. No threads and no waiting; those are in rendezvous.h.
#pragma once

#include "core/costs/communication_volume.h"
#include "core/graphs/physical_graph.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace sextant {

// What one member brings: its buffers and the boxes of the global tensor they hold.
struct MemberBuffers {
  const std::byte* in = nullptr;  // nullptr: this member receives only
  std::byte* out = nullptr;       // nullptr: this member sends only
  bool accumulate = false;        // add to what `out` holds
};

// The processes of the members, where they are several. All that have a member run the same
// collective; each does what its members do, and what passes between processes is a message. Those
// of two processes arrive in the order in which they were sent.
class MemberLinks {
 public:
  virtual ~MemberLinks() = default;
  virtual std::size_t home(std::size_t member) const = 0;  // its process
  virtual std::size_t here() const = 0;                    // this one
  // Returns at once.
  virtual void send(std::size_t process, std::span<const std::byte> bytes) = 0;
  virtual void receive(std::size_t process, std::span<std::byte> bytes) = 0;
};

struct CollectiveCall {
  const PhysicalGraph* graph = nullptr;
  const Communication* communication = nullptr;
  std::span<const Rank> ranks;             // group order
  std::span<const MemberBuffers> members;  // as many; of other processes without buffers
  MemberLinks* links = nullptr;            // nullptr: all members are here
};

// Moves and reduces; adds to `traffic` what each hop carried that began here. Order of reduction,
// the same wherever members are:
// - reduce_scatter and all_reduce: the part of member c is ((x[c+1] op x[c+2]) op ...) op x[c],
//   indices modulo the group, as the ring passes it on;
// - all_to_all and transfers of partial values: by position in the group, onto the neutral element.
//
// An output may lie in the input's bytes: all of it (all_reduce, and exchanges of boxes of one
// size), or where the part belongs in the whole (the input of an all_gather inside its output, the
// output of a reduce_scatter inside its input). Then only the output changes.
void run_collective(const CollectiveCall& call, Traffic& traffic);

// The process of each member, and the one that asks.
struct MemberHomes {
  std::vector<std::size_t> of;
  std::size_t here = 0;
};

// What it takes in this process beside the members' buffers while it runs. Of several homes each
// has the scratch of all members, a place for what comes round from others, and two messages of the
// longest kind: one that has come, one that goes out.
Bytes scratch_bytes(const PhysicalGraph& graph, const Communication& communication,
                    std::span<const Rank> ranks, const std::optional<MemberHomes>& homes = {});

// Contiguous bytes that a communication copies, or reduces into others.
struct ByteMove {
  enum class Buffer : std::uint8_t { kIn, kOut, kScratch };
  struct Place {
    Buffer buffer = Buffer::kIn;
    std::size_t index = 0;  // the member; of scratch, its number
    Bytes offset = Bytes(0);
  };
  Place from, to;
  Bytes size;
};
using ByteMoveVisitor = std::function<void(const ByteMove&)>;

// What run_collective does with memory, without memory: calls `visit` for each move. Throws
// Error(kInternal) when one leaves its buffer, whatever the size of the tensor.
void dry_run_collective(const PhysicalGraph& graph, const Communication& communication,
                        std::span<const Rank> ranks, Traffic& traffic,
                        const ByteMoveVisitor& visit);

}  // namespace sextant
