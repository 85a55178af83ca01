// Ring algorithms pass one part at a time from neighbour to neighbour in group order; every hop is
// counted where it happens. In shared memory a hop reads the neighbour's buffer. The algorithms
// know no memory: they run on real buffers, or on a dry one that only looks at offsets.
#include "backends/cpu/collectives.h"

#include "backends/cpu/kernels/shared/boxes.h"
#include "core/base/check.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

namespace sextant {
namespace {

// What both kinds of memory know of the buffers: a member's input and output, and scratch.
class RealMemory {
 public:
  using Address = std::byte*;
  // All outputs get one piece of a sum before the next is summed, so no sum is there as a whole.
  static constexpr std::int64_t kLongestPiece = std::int64_t{1} << 16;

  RealMemory(std::span<const MemberBuffers> members, DType dtype)
      : members_(members), dtype_(dtype) {}

  Address in(std::size_t member) const { return const_cast<std::byte*>(members_[member].in); }
  Address out(std::size_t member) const { return members_[member].out; }
  bool takes(std::size_t member) const { return members_[member].out != nullptr; }
  bool accumulates(std::size_t member) const { return members_[member].accumulate; }
  Address scratch(std::int64_t elements) {
    scratch_.emplace_back(static_cast<std::size_t>(elements * size_of(dtype_).value));
    return scratch_.back().data();
  }
  // Scratch until the next piece.
  Address piece(std::int64_t elements) {
    piece_.resize(static_cast<std::size_t>(elements * size_of(dtype_).value));
    return piece_.data();
  }
  void fill(ReduceOp op, Address to, std::int64_t elements) {
    fill_neutral(op, dtype_, to, elements);
  }
  void copy(const Shard& part, Address from, const Shard& from_box, Address to,
            const Shard& to_box) {
    copy_box(part, {from, &from_box}, {to, &to_box}, dtype_);
  }
  void reduce(ReduceOp op, const Shard& part, Address from, const Shard& from_box, Address to,
              const Shard& to_box) {
    reduce_box(op, part, {from, &from_box}, {to, &to_box}, dtype_);
  }

 private:
  std::span<const MemberBuffers> members_;
  DType dtype_;
  std::vector<std::vector<std::byte>> scratch_;
  std::vector<std::byte> piece_;
};

// Every piece is a scratch of its own, and a part one piece: whoever follows bytes meets each once.
class DryMemory {
 public:
  using Address = ByteMove::Place;
  static constexpr std::int64_t kLongestPiece = std::numeric_limits<std::int64_t>::max();

  DryMemory(DType dtype, const ByteMoveVisitor& visit) : dtype_(dtype), visit_(visit) {}

  Address in(std::size_t member) const { return {ByteMove::Buffer::kIn, member}; }
  Address out(std::size_t member) const { return {ByteMove::Buffer::kOut, member}; }
  bool takes(std::size_t) const { return true; }
  bool accumulates(std::size_t) const { return false; }
  Address scratch(std::int64_t elements) {
    static_cast<void>(byte_offset(elements));
    return {ByteMove::Buffer::kScratch, num_scratch_++};
  }
  Address piece(std::int64_t elements) { return scratch(elements); }
  void fill(ReduceOp, Address, std::int64_t) {}
  void copy(const Shard& part, Address from, const Shard& from_box, Address to,
            const Shard& to_box) {
    for_each_row(part, from_box, to_box, [&](std::int64_t a, std::int64_t b, std::int64_t count) {
      check_inside(a, count, from_box);
      check_inside(b, count, to_box);
      from.offset = byte_offset(a);
      to.offset = byte_offset(b);
      visit_({from, to, byte_offset(count)});
    });
  }
  void reduce(ReduceOp, const Shard& part, Address from, const Shard& from_box, Address to,
              const Shard& to_box) {
    copy(part, from, from_box, to, to_box);
  }

 private:
  Bytes byte_offset(std::int64_t elements) const {
    std::int64_t bytes = 0;
    const bool overflows = __builtin_mul_overflow(elements, size_of(dtype_).value, &bytes);
    require(!overflows, ErrorCode::kInternal, "{} elements of {} have no byte offset", elements,
            to_string(dtype_));
    return Bytes(bytes);
  }
  void check_inside(std::int64_t first, std::int64_t count, const Shard& box) const {
    require(first >= 0 && count >= 0 && first <= box.elements() - count, ErrorCode::kInternal,
            "{} elements from {} on leave a buffer of {}", count, first, box.elements());
  }

  DType dtype_;
  const ByteMoveVisitor& visit_;
  std::size_t num_scratch_ = 0;
};

Shard flat(std::int64_t offset, std::int64_t extent) {
  Shard box;
  box.dims.push_back({.offset = offset, .extent = extent});
  return box;
}

template <typename Memory>
class Collective {
 public:
  Collective(const PhysicalGraph& graph, const Communication& communication,
             std::span<const Rank> ranks, Memory& memory, Traffic& traffic)
      : graph_(graph),
        communication_(communication),
        ranks_(ranks),
        from_(graph.layouts[communication.from.index()]),
        to_(graph.layouts[communication.to.index()]),
        element_size_(size_of(communication.dtype)),
        memory_(memory),
        traffic_(traffic) {
    for (std::size_t member = 0; member < size(); ++member) {
      in_boxes_.push_back(box_of(from_, member));
      out_boxes_.push_back(box_of(to_, member));
    }
  }

  // Of all members together, while it runs.
  std::int64_t scratch_elements() const {
    const auto sum = [](const std::vector<Shard>& boxes) {
      std::int64_t elements = 0;
      for (const Shard& box : boxes) elements += box.elements();
      return elements;
    };
    switch (communication_.primitive) {
      case Primitive::kAllReduce:
        return std::min(in_boxes_.front().elements(), Memory::kLongestPiece);
      case Primitive::kAllGather:
      case Primitive::kBroadcast:
        return 0;
      case Primitive::kShift:
        return sum(in_boxes_);
      case Primitive::kReduceScatter:
      case Primitive::kAllToAll:
      case Primitive::kTransfer:
        return sum(out_boxes_);
    }
    return 0;
  }

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

  std::size_t size() const { return ranks_.size(); }
  std::size_t after(std::size_t member) const { return (member + 1) % size(); }

  WordsOnPlacement side(const Layout& layout) const {
    return {&layout.words, &graph_.placements[layout.placement.index()]};
  }

  // A rank outside the placement of a layout (the other side of a transfer) holds nothing of it.
  Shard box_of(const Layout& layout, std::size_t member) const {
    const Placement& placement = graph_.placements[layout.placement.index()];
    const std::optional<std::size_t> index = placement.index_of(ranks_[member]);
    if (!index) {
      Shard nothing;
      nothing.dims.resize(layout.global.shape.rank());
      return nothing;
    }
    return shard_of(layout.global.shape, layout.words, placement.hierarchy(),
                    placement.coordinates_of(*index));
  }

  void count(std::size_t source, std::size_t destination, std::int64_t elements) {
    if (source == destination || elements == 0) return;
    traffic_[{ranks_[source], ranks_[destination]}] += element_size_ * elements;
  }

  // Writes `value`, which holds `value_box`, to a box of the member's output.
  void deliver(std::size_t member, Address value, const Shard& value_box, const Shard& out_box) {
    if (memory_.accumulates(member))
      memory_.reduce(ReduceOp::kSum, value_box, value, value_box, memory_.out(member), out_box);
    else
      memory_.copy(value_box, value, value_box, memory_.out(member), out_box);
  }

  // `part` of what every member holds, reduced on its way around the ring from behind its owner.
  void travel_and_reduce(std::size_t owner, const Shard& part, const std::vector<Shard>& boxes,
                         Address value, const Shard& value_box) {
    std::size_t member = owner;
    for (std::size_t hop = 0; hop < size(); ++hop) {
      member = after(member);
      if (hop == 0)
        memory_.copy(part, memory_.in(member), boxes[member], value, value_box);
      else
        memory_.reduce(communication_.reduce, part, memory_.in(member), boxes[member], value,
                       value_box);
      if (member != owner) count(member, after(member), part.elements());
    }
  }

  void require_equal_boxes(const std::vector<Shard>& boxes) const {
    require(std::all_of(boxes.begin(), boxes.end(),
                        [&](const Shard& box) { return box == boxes.front(); }),
            ErrorCode::kInternal, "{} over {} -> {}: its members hold different boxes",
            to_string(communication_.primitive), to_string(from_.words), to_string(to_.words));
  }

  // Parts are the balanced parts of the flat buffer: any shape divides.
  void all_reduce() {
    require_equal_boxes(in_boxes_);
    const std::int64_t elements = in_boxes_.front().elements();
    const std::vector<Shard> flat_boxes(size(), flat(0, elements));
    const std::int64_t longest = std::min(elements, Memory::kLongestPiece);
    for (std::size_t owner = 0; owner < size(); ++owner) {
      const Interval part = balanced_part(elements, static_cast<std::int64_t>(size()),
                                          static_cast<std::int64_t>(owner));
      for (std::int64_t at = part.offset; at < part.end(); at += longest)
        reduce_piece(owner, flat(at, std::min(longest, part.end() - at)), flat_boxes);
    }
  }

  // To all members at once: an output may share its bytes with the member's input, of which nobody
  // needs this piece any more.
  void reduce_piece(std::size_t owner, const Shard& piece, const std::vector<Shard>& boxes) {
    const Address sum = memory_.piece(piece.elements());
    travel_and_reduce(owner, piece, boxes, sum, piece);
    for (std::size_t member = owner; after(member) != owner; member = after(member))
      count(member, after(member), piece.elements());
    for (std::size_t member = 0; member < size(); ++member)
      deliver(member, sum, piece, boxes[member]);
  }

  void reduce_scatter() {
    require_equal_boxes(in_boxes_);
    std::vector<Address> parts;
    for (std::size_t owner = 0; owner < size(); ++owner) {
      const Shard& box = out_boxes_[owner];
      parts.push_back(memory_.scratch(box.elements()));
      travel_and_reduce(owner, box, in_boxes_, parts.back(), box);
    }
    for (std::size_t owner = 0; owner < size(); ++owner)
      deliver(owner, parts[owner], out_boxes_[owner], out_boxes_[owner]);
  }

  // A member's own part may be in its place already.
  void all_gather() {
    require_equal_boxes(out_boxes_);
    for (std::size_t owner = 0; owner < size(); ++owner) {
      const Shard& box = in_boxes_[owner];
      deliver(owner, memory_.in(owner), box, out_boxes_[owner]);
      for (std::size_t member = owner; after(member) != owner; member = after(member)) {
        deliver(after(member), memory_.in(owner), box, out_boxes_[after(member)]);
        count(member, after(member), box.elements());
      }
    }
  }

  // From the first member, as a chain in group order.
  void broadcast() {
    const Shard& box = in_boxes_.front();
    for (std::size_t member = 0; member < size(); ++member) {
      deliver(member, memory_.in(0), box, out_boxes_[member]);
      if (member > 0) count(member - 1, member, box.elements());
    }
  }

  // To the next member, under its name for the part: the contents keep their order, not their
  // place.
  void shift() {
    std::vector<Address> parts;
    for (std::size_t member = 0; member < size(); ++member) {
      const Shard whole = flat(0, in_boxes_[member].elements());
      require(whole.elements() == out_boxes_[after(member)].elements(), ErrorCode::kInternal,
              "shift over {}: its members hold {} and {} elements", to_string(from_.words),
              whole.elements(), out_boxes_[after(member)].elements());
      // Aside first: an output may share its bytes with the member's input.
      parts.push_back(memory_.scratch(whole.elements()));
      memory_.copy(whole, memory_.in(member), whole, parts.back(), whole);
    }
    for (std::size_t member = 0; member < size(); ++member) {
      const Shard whole = flat(0, in_boxes_[member].elements());
      deliver(after(member), parts[member], whole, whole);
      count(member, after(member), whole.elements());
    }
  }

  // The reduction that the copies of a layout wait for; one copy waits for none.
  std::optional<ReduceOp> pending(const Layout& layout) const {
    const Placement& placement = graph_.placements[layout.placement.index()];
    for (std::size_t axis = 0; axis < layout.words.size(); ++axis)
      if (layout.words[axis].is_partial() && placement.axes[axis].extent > 1)
        return layout.words[axis].reduce;
    return std::nullopt;
  }

  // all_to_all and transfers. Partial copies are reduced in the order of their positions; a share
  // that gets nothing is the neutral element of the reduction that is pending on it.
  void move_boxes() {
    const bool reduces = pending(from_).has_value();
    const ReduceOp op = pending(to_).value_or(communication_.reduce);
    std::vector<Address> values;
    for (std::size_t member = 0; member < size(); ++member) {
      const std::int64_t elements = out_boxes_[member].elements();
      values.push_back(memory_.scratch(elements));
      memory_.fill(op, values.back(), elements);
    }
    for (const BoxMove& move : box_moves(from_.global.shape, side(from_), side(to_), ranks_)) {
      const auto source = static_cast<std::size_t>(move.source);
      const auto destination = static_cast<std::size_t>(move.destination);
      if (reduces)
        memory_.reduce(op, move.box, memory_.in(source), in_boxes_[source], values[destination],
                       out_boxes_[destination]);
      else
        memory_.copy(move.box, memory_.in(source), in_boxes_[source], values[destination],
                     out_boxes_[destination]);
      count(source, destination, move.box.elements());
    }
    for (std::size_t member = 0; member < size(); ++member)
      if (memory_.takes(member))
        deliver(member, values[member], out_boxes_[member], out_boxes_[member]);
  }

  const PhysicalGraph& graph_;
  const Communication& communication_;
  const std::span<const Rank> ranks_;
  const Layout& from_;
  const Layout& to_;
  const Bytes element_size_;
  Memory& memory_;
  Traffic& traffic_;
  std::vector<Shard> in_boxes_, out_boxes_;
};

}  // namespace

void run_collective(const CollectiveCall& call, Traffic& traffic) {
  require(call.members.size() == call.ranks.size(), ErrorCode::kInternal,
          "a communication of {} ranks was run with {} members", call.ranks.size(),
          call.members.size());
  RealMemory memory(call.members, call.communication->dtype);
  Collective(*call.graph, *call.communication, call.ranks, memory, traffic).run();
}

Bytes scratch_bytes(const PhysicalGraph& graph, const Communication& communication,
                    std::span<const Rank> ranks) {
  Traffic none;
  RealMemory memory({}, communication.dtype);
  const Collective collective(graph, communication, ranks, memory, none);
  return size_of(communication.dtype) * collective.scratch_elements();
}

void dry_run_collective(const PhysicalGraph& graph, const Communication& communication,
                        std::span<const Rank> ranks, Traffic& traffic,
                        const ByteMoveVisitor& visit) {
  DryMemory memory(communication.dtype, visit);
  Collective(graph, communication, ranks, memory, traffic).run();
}

}  // namespace sextant
