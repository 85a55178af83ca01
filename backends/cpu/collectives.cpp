// Ring algorithms pass one part at a time from neighbour to neighbour in group order; every hop is
// counted where it happens. In shared memory a hop reads the neighbour's buffer. The algorithms
// know no memory: they run on real buffers, on those of one process of several, which passes values
// on by messages, or on a dry one that only looks at offsets.
//
// All parts travel at once, hop by hop: every process comes to the same hops in the same order, so
// whoever waits for a message waits for one that is sent without waiting for him.
#include "backends/cpu/collectives.h"

#include "backends/cpu/collective_boxes.h"
#include "backends/cpu/collective_memory.h"
#include "core/base/check.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace sextant {
namespace {

template <typename Memory>
class Collective : private CollectiveBoxes {
 public:
  Collective(const PhysicalGraph& graph, const Communication& communication,
             std::span<const Rank> ranks, Memory& memory, Traffic& traffic)
      : CollectiveBoxes(graph, communication, ranks), memory_(memory), traffic_(traffic) {}

  void run() {
    switch (communication_.primitive) {
      case Primitive::kAllReduce:
        return all_reduce();
      case Primitive::kReduceScatter:
        return reduce_scatter();
      case Primitive::kAllGather:
        return all_gather();
      case Primitive::kBroadcast:
        return broadcast();
      case Primitive::kShift:
        return shift();
      case Primitive::kAllToAll:
      case Primitive::kTransfer:
        return move_boxes();
    }
  }

 private:
  using Address = typename Memory::Address;

  void count(std::size_t source, std::size_t destination, std::int64_t elements) {
    if (source == destination || elements == 0 || !memory_.is_here(source)) return;
    traffic_[{ranks_[source], ranks_[destination]}] += size_of(communication_.dtype) * elements;
  }

  // Writes `value`, which holds `value_box`, to a box of the member's output.
  void deliver(std::size_t member, Address value, const Shard& value_box, const Shard& out_box) {
    if (memory_.accumulates(member))
      memory_.reduce(ReduceOp::kSum, value_box, value, value_box, memory_.out(member), out_box);
    else
      memory_.copy(value_box, value, value_box, memory_.out(member), out_box);
  }

  // One hop of a value.
  void carry(std::size_t source, std::size_t destination, Address value, std::int64_t elements) {
    count(source, destination, elements);
    memory_.pass(source, destination, value, elements);
  }

  // A part of what every member holds per owner, each reduced on its way around the ring from
  // behind its owner. `values` get the parts alone.
  void travel_and_reduce(const std::vector<Shard>& parts, const std::vector<Shard>& boxes,
                         const std::vector<Address>& values) {
    for (std::size_t hop = 0; hop < size(); ++hop)
      for (std::size_t owner = 0; owner < size(); ++owner) {
        const std::size_t member = (owner + 1 + hop) % size();
        const Shard& part = parts[owner];
        if (hop == 0)
          memory_.copy(part, memory_.in(member), boxes[member], values[owner], part);
        else
          memory_.reduce(communication_.reduce, part, memory_.in(member), boxes[member],
                         values[owner], part);
        if (member != owner) carry(member, after(member), values[owner], part.elements());
      }
  }

  // Each owner's value goes round to all others; calls `arrived(owner, member)` where it comes to.
  template <typename Arrived>
  void travel(const std::vector<Shard>& parts, const std::vector<Address>& values,
              const Arrived& arrived) {
    for (std::size_t hop = 0; hop + 1 < size(); ++hop)
      for (std::size_t owner = 0; owner < size(); ++owner) {
        const std::size_t member = (owner + hop) % size();
        carry(member, after(member), values[owner], parts[owner].elements());
        arrived(owner, after(member));
      }
  }

  // Parts are the balanced parts of the flat buffer: any shape divides. A piece of each at a time.
  void all_reduce() {
    require_equal_boxes(in_boxes_);
    const std::int64_t elements = in_boxes_.front().elements();
    const std::vector<Shard> flat_boxes(size(), flat_part(0, elements));
    const std::int64_t longest = longest_piece(Memory::kLongestPiece);
    const auto part = [&](std::size_t owner) {
      return balanced_part(elements, static_cast<std::int64_t>(size()),
                           static_cast<std::int64_t>(owner));
    };
    const std::int64_t most = part(0).extent;  // of the balanced parts the first are the largest
    for (std::int64_t at = 0; at < most; at += longest) {
      std::vector<Shard> pieces;
      for (std::size_t owner = 0; owner < size(); ++owner) {
        const std::int64_t left = std::max<std::int64_t>(0, part(owner).extent - at);
        pieces.push_back(flat_part(part(owner).offset + std::min(at, part(owner).extent),
                                   std::min(longest, left)));
      }
      reduce_pieces(pieces, flat_boxes);
    }
  }

  // To all members at once: an output may share its bytes with the member's input, of which nobody
  // needs these pieces any more.
  void reduce_pieces(const std::vector<Shard>& pieces, const std::vector<Shard>& boxes) {
    std::vector<Address> sums;
    for (std::size_t owner = 0; owner < size(); ++owner)
      sums.push_back(memory_.piece(owner, pieces[owner].elements()));
    travel_and_reduce(pieces, boxes, sums);
    travel(pieces, sums, [](std::size_t, std::size_t) {});
    for (std::size_t owner = 0; owner < size(); ++owner)
      for (std::size_t member = 0; member < size(); ++member)
        deliver(member, sums[owner], pieces[owner], boxes[member]);
  }

  void reduce_scatter() {
    require_equal_boxes(in_boxes_);
    std::vector<Address> parts;
    for (const Shard& box : out_boxes_) parts.push_back(memory_.scratch(box.elements()));
    travel_and_reduce(out_boxes_, in_boxes_, parts);
    for (std::size_t owner = 0; owner < size(); ++owner)
      deliver(owner, parts[owner], out_boxes_[owner], out_boxes_[owner]);
  }

  // A member's own part may be in its place already.
  void all_gather() {
    require_equal_boxes(out_boxes_);
    std::vector<Address> values;
    for (std::size_t owner = 0; owner < size(); ++owner) {
      const Shard& box = in_boxes_[owner];
      deliver(owner, memory_.in(owner), box, out_boxes_[owner]);
      values.push_back(memory_.travelling(owner, box.elements()));
    }
    travel(in_boxes_, values, [&](std::size_t owner, std::size_t member) {
      deliver(member, values[owner], in_boxes_[owner], out_boxes_[member]);
    });
  }

  // From the first member, as a chain in group order.
  void broadcast() {
    const Shard& box = in_boxes_.front();
    const Address value = memory_.travelling(0, box.elements());
    for (std::size_t member = 0; member < size(); ++member) {
      if (member > 0) carry(member - 1, member, value, box.elements());
      deliver(member, value, box, out_boxes_[member]);
    }
  }

  // To the next member, under its name for the part: the contents keep their order, not their
  // place.
  void shift() {
    std::vector<Address> parts;
    for (std::size_t member = 0; member < size(); ++member) {
      const Shard whole = flat_part(0, in_boxes_[member].elements());
      require(whole.elements() == out_boxes_[after(member)].elements(), ErrorCode::kInternal,
              "shift over {}: its members hold {} and {} elements", to_string(from_.words),
              whole.elements(), out_boxes_[after(member)].elements());
      // Aside first: an output may share its bytes with the member's input.
      parts.push_back(memory_.scratch(whole.elements()));
      memory_.copy(whole, memory_.in(member), whole, parts.back(), whole);
    }
    for (std::size_t member = 0; member < size(); ++member) {
      const Shard whole = flat_part(0, in_boxes_[member].elements());
      carry(member, after(member), parts[member], whole.elements());
      deliver(after(member), parts[member], whole, whole);
    }
  }

  // all_to_all and transfers. Partial copies are reduced in the order of their positions; a share
  // that gets nothing is the neutral element of the reduction that is pending on it.
  void move_boxes() {
    const bool reduces = pending_reduction(graph_, from_).has_value();
    const ReduceOp op = pending_reduction(graph_, to_).value_or(communication_.reduce);
    std::vector<Address> values;
    for (std::size_t member = 0; member < size(); ++member) {
      const std::int64_t elements = out_boxes_[member].elements();
      values.push_back(memory_.scratch(elements));
      memory_.fill(op, values.back(), elements);
    }
    for (const BoxMove& move : box_moves(from_.global.shape, side(from_), side(to_), ranks_)) {
      const auto source = static_cast<std::size_t>(move.source);
      const auto destination = static_cast<std::size_t>(move.destination);
      const auto [from, box] = memory_.fetch(source, destination, in_boxes_[source], move.box);
      if (reduces)
        memory_.reduce(op, move.box, from, *box, values[destination], out_boxes_[destination]);
      else
        memory_.copy(move.box, from, *box, values[destination], out_boxes_[destination]);
      count(source, destination, move.box.elements());
    }
    for (std::size_t member = 0; member < size(); ++member)
      if (memory_.takes(member))
        deliver(member, values[member], out_boxes_[member], out_boxes_[member]);
  }

  Memory& memory_;
  Traffic& traffic_;
};

}  // namespace

void run_collective(const CollectiveCall& call, Traffic& traffic) {
  require(call.members.size() == call.ranks.size(), ErrorCode::kInternal,
          "a communication of {} ranks was run with {} members", call.ranks.size(),
          call.members.size());
  const DType dtype = call.communication->dtype;
  if (call.links != nullptr) {
    SpreadMemory memory(call.members, dtype, *call.links);
    Collective(*call.graph, *call.communication, call.ranks, memory, traffic).run();
    return;
  }
  RealMemory memory(call.members, dtype);
  Collective(*call.graph, *call.communication, call.ranks, memory, traffic).run();
}

Bytes scratch_bytes(const PhysicalGraph& graph, const Communication& communication,
                    std::span<const Rank> ranks, const std::optional<MemberHomes>& homes) {
  const CollectiveBoxes boxes(graph, communication, ranks);
  constexpr std::int64_t kLongest = RealMemory::kLongestPiece;
  std::int64_t elements = boxes.scratch_elements(kLongest);
  const bool is_spread =
      homes && std::any_of(homes->of.begin(), homes->of.end(),
                           [&](std::size_t home) { return home != homes->here; });
  if (is_spread) elements += boxes.spread_elements(*homes, kLongest);
  return size_of(communication.dtype) * elements;
}

void dry_run_collective(const PhysicalGraph& graph, const Communication& communication,
                        std::span<const Rank> ranks, Traffic& traffic,
                        const ByteMoveVisitor& visit) {
  DryMemory memory(communication.dtype, visit);
  Collective(graph, communication, ranks, memory, traffic).run();
}

}  // namespace sextant
