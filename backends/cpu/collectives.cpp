// Ring algorithms pass one part at a time from neighbour to neighbour in group order; every hop is
// counted where it happens. In shared memory a hop reads the neighbour's buffer. The algorithms
// know no memory: they run on real buffers, on those of one process of several, which passes values
// on by messages, or on a dry one that only looks at offsets.
//
// All parts travel at once, hop by hop: every process comes to the same hops in the same order, so
// whoever waits for a message waits for one that is sent without waiting for him.
#include "backends/cpu/collectives.h"

#include "backends/cpu/kernels/shared/boxes.h"
#include "core/base/check.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace sextant {
namespace {

// What both kinds of memory know of the buffers: a member's input and output, and scratch.
// Bytes of its own that an algorithm works in.
class ScratchBytes {
 public:
  std::byte* scratch(std::size_t bytes) { return scratch_.emplace_back(bytes).data(); }
  // For the `number`-th piece, until the next one of that number.
  std::byte* piece(std::size_t number, std::size_t bytes) {
    if (pieces_.size() <= number) pieces_.resize(number + 1);
    pieces_[number].resize(bytes);
    return pieces_[number].data();
  }

 private:
  std::vector<std::vector<std::byte>> scratch_, pieces_;
};

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
    return own_.scratch(static_cast<std::size_t>(elements * size_of(dtype_).value));
  }
  // Scratch for the `number`-th piece, until the next one of that number.
  Address piece(std::size_t number, std::int64_t elements) {
    return own_.piece(number, static_cast<std::size_t>(elements * size_of(dtype_).value));
  }
  bool is_here(std::size_t) const { return true; }
  // A member's input as a value that is passed on.
  Address travelling(std::size_t member, std::int64_t) { return in(member); }
  void pass(std::size_t, std::size_t, Address, std::int64_t) {}
  // `part` of a member's input, for another member.
  std::pair<Address, const Shard*> fetch(std::size_t source, std::size_t, const Shard& box,
                                         const Shard&) {
    return {in(source), &box};
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
  ScratchBytes own_;
};

// The buffers of this process's members. A scratch exists in each process, and holds what was
// passed to it last; what another process's members do is left out.
class SpreadMemory {
 public:
  struct Address {
    std::byte* data = nullptr;  // nullptr: in another process
    bool is_input = false;      // whoever passes it on finds the same there
  };
  static constexpr std::int64_t kLongestPiece = RealMemory::kLongestPiece;

  SpreadMemory(std::span<const MemberBuffers> members, DType dtype, MemberLinks& links)
      : members_(members), dtype_(dtype), links_(links) {}

  Address in(std::size_t member) const {
    return {const_cast<std::byte*>(members_[member].in), true};
  }
  Address out(std::size_t member) const { return {members_[member].out}; }
  bool takes(std::size_t member) const { return members_[member].out != nullptr; }
  bool accumulates(std::size_t member) const { return members_[member].accumulate; }
  bool is_here(std::size_t member) const { return links_.home(member) == links_.here(); }
  Address scratch(std::int64_t elements) { return {own_.scratch(bytes_of(elements))}; }
  Address piece(std::size_t number, std::int64_t elements) {
    return {own_.piece(number, bytes_of(elements))};
  }
  Address travelling(std::size_t member, std::int64_t elements) {
    return is_here(member) ? in(member) : scratch(elements);
  }
  void pass(std::size_t source, std::size_t destination, Address value, std::int64_t elements) {
    const std::size_t from = links_.home(source), to = links_.home(destination);
    if (from == to || elements == 0) return;
    const std::span bytes(value.data, bytes_of(elements));
    if (from == links_.here()) links_.send(to, bytes);
    if (to != links_.here()) return;
    // Where the value began it comes round again, and others may be reading it.
    if (value.is_input) received_.resize(bytes.size());
    links_.receive(from, value.is_input ? std::span(received_) : bytes);
  }
  std::pair<Address, const Shard*> fetch(std::size_t source, std::size_t destination,
                                         const Shard& box, const Shard& part) {
    const std::size_t from = links_.home(source), to = links_.home(destination);
    if (from == to) return {in(source), &box};
    received_.resize(bytes_of(part.elements()));
    if (from == links_.here()) {
      copy_box(part, {in(source).data, &box}, {received_.data(), &part}, dtype_);
      links_.send(to, received_);
    }
    if (to != links_.here()) return {Address{}, &part};
    links_.receive(from, received_);
    return {Address{received_.data()}, &part};
  }
  void fill(ReduceOp op, Address to, std::int64_t elements) {
    fill_neutral(op, dtype_, to.data, elements);
  }
  void copy(const Shard& part, Address from, const Shard& from_box, Address to,
            const Shard& to_box) {
    if (from.data == nullptr || to.data == nullptr) return;
    copy_box(part, {from.data, &from_box}, {to.data, &to_box}, dtype_);
  }
  void reduce(ReduceOp op, const Shard& part, Address from, const Shard& from_box, Address to,
              const Shard& to_box) {
    if (from.data == nullptr || to.data == nullptr) return;
    reduce_box(op, part, {from.data, &from_box}, {to.data, &to_box}, dtype_);
  }

 private:
  std::size_t bytes_of(std::int64_t elements) const {
    return static_cast<std::size_t>(elements * size_of(dtype_).value);
  }

  std::span<const MemberBuffers> members_;
  DType dtype_;
  MemberLinks& links_;
  ScratchBytes own_;
  std::vector<std::byte> received_;
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
  Address piece(std::size_t, std::int64_t elements) { return scratch(elements); }
  bool is_here(std::size_t) const { return true; }
  Address travelling(std::size_t member, std::int64_t) { return in(member); }
  void pass(std::size_t, std::size_t, Address, std::int64_t) {}
  std::pair<Address, const Shard*> fetch(std::size_t source, std::size_t, const Shard& box,
                                         const Shard&) {
    return {in(source), &box};
  }
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
        from_(graph.layouts[communication.from]),
        to_(graph.layouts[communication.to]),
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
        return longest_piece() * static_cast<std::int64_t>(size());
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

  // Beside it, in each process of several.
  std::int64_t spread_elements(const MemberHomes& homes) const {
    std::int64_t foreign = 0, longest = 0;
    const auto look_at = [&](const std::vector<Shard>& boxes) {
      for (const Shard& box : boxes) longest = std::max(longest, box.elements());
    };
    switch (communication_.primitive) {
      case Primitive::kAllReduce:
        longest = longest_piece();
        break;
      case Primitive::kAllGather:
        for (std::size_t member = 0; member < size(); ++member)
          if (homes.of[member] != homes.here) foreign += in_boxes_[member].elements();
        look_at(in_boxes_);
        break;
      case Primitive::kBroadcast:
        longest = in_boxes_.front().elements();
        if (homes.of.front() != homes.here) foreign = longest;
        break;
      case Primitive::kShift:
        look_at(in_boxes_);
        break;
      case Primitive::kReduceScatter:
      case Primitive::kAllToAll:
      case Primitive::kTransfer:
        look_at(out_boxes_);
        break;
    }
    return foreign + 2 * longest;
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
    return {&layout.words, &graph_.placements[layout.placement]};
  }

  // A rank outside the placement of a layout (the other side of a transfer) holds nothing of it.
  Shard box_of(const Layout& layout, std::size_t member) const {
    const Placement& placement = graph_.placements[layout.placement];
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
    if (source == destination || elements == 0 || !memory_.is_here(source)) return;
    traffic_[{ranks_[source], ranks_[destination]}] += element_size_ * elements;
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

  void require_equal_boxes(const std::vector<Shard>& boxes) const {
    require(std::all_of(boxes.begin(), boxes.end(),
                        [&](const Shard& box) { return box == boxes.front(); }),
            ErrorCode::kInternal, "{} over {} -> {}: its members hold different boxes",
            to_string(communication_.primitive), to_string(from_.words), to_string(to_.words));
  }

  // Elements of each owner's part that an all_reduce moves at a time.
  std::int64_t longest_piece() const {
    const std::int64_t elements = std::min(in_boxes_.front().elements(), Memory::kLongestPiece);
    const auto members = static_cast<std::int64_t>(size());
    return elements / members + (elements % members != 0 ? 1 : 0);
  }

  // Parts are the balanced parts of the flat buffer: any shape divides. A piece of each at a time.
  void all_reduce() {
    require_equal_boxes(in_boxes_);
    const std::int64_t elements = in_boxes_.front().elements();
    const std::vector<Shard> flat_boxes(size(), flat(0, elements));
    const std::int64_t longest = longest_piece();
    const auto part = [&](std::size_t owner) {
      return balanced_part(elements, static_cast<std::int64_t>(size()),
                           static_cast<std::int64_t>(owner));
    };
    const std::int64_t most = part(0).extent;  // of the balanced parts the first are the largest
    for (std::int64_t at = 0; at < most; at += longest) {
      std::vector<Shard> pieces;
      for (std::size_t owner = 0; owner < size(); ++owner) {
        const std::int64_t left = std::max<std::int64_t>(0, part(owner).extent - at);
        pieces.push_back(
            flat(part(owner).offset + std::min(at, part(owner).extent), std::min(longest, left)));
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
      carry(member, after(member), parts[member], whole.elements());
      deliver(after(member), parts[member], whole, whole);
    }
  }

  // The reduction that the copies of a layout wait for; one copy waits for none.
  std::optional<ReduceOp> pending(const Layout& layout) const {
    const Placement& placement = graph_.placements[layout.placement];
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
  Traffic none;
  RealMemory memory({}, communication.dtype);
  const Collective collective(graph, communication, ranks, memory, none);
  std::int64_t elements = collective.scratch_elements();
  const bool is_spread =
      homes && std::any_of(homes->of.begin(), homes->of.end(),
                           [&](std::size_t home) { return home != homes->here; });
  if (is_spread) elements += collective.spread_elements(*homes);
  return size_of(communication.dtype) * elements;
}

void dry_run_collective(const PhysicalGraph& graph, const Communication& communication,
                        std::span<const Rank> ranks, Traffic& traffic,
                        const ByteMoveVisitor& visit) {
  DryMemory memory(communication.dtype, visit);
  Collective(graph, communication, ranks, memory, traffic).run();
}

}  // namespace sextant
