// Ring algorithms pass one part at a time from neighbour to neighbour in group order; every hop is
// counted where it happens. In shared memory a hop reads the neighbour's buffer.
#include "backends/cpu/collectives.h"

#include "backends/cpu/boxes.h"
#include "core/check.h"
#include "core/communication_volume.h"

#include <algorithm>
#include <cstring>
#include <optional>

namespace sextant {
namespace {

class Collective {
 public:
  Collective(const CollectiveCall& call, Traffic& traffic)
      : call_(call),
        communication_(*call.communication),
        from_(call.graph->layouts[communication_.from.index()]),
        to_(call.graph->layouts[communication_.to.index()]),
        dtype_(communication_.dtype),
        element_size_(size_of(communication_.dtype).value),
        traffic_(traffic) {
    for (std::size_t member = 0; member < size(); ++member) {
      in_boxes_.push_back(box_of(communication_.from, member));
      out_boxes_.push_back(box_of(communication_.to, member));
    }
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
      case Primitive::kAllToAll:
      case Primitive::kTransfer:
        return move_boxes();
    }
  }

 private:
  std::size_t size() const { return call_.ranks.size(); }
  std::size_t after(std::size_t member) const { return (member + 1) % size(); }

  // A rank outside the placement of a layout (the other side of a transfer) holds nothing of it.
  Shard box_of(LayoutId layout, std::size_t member) const {
    const Placement& placement =
        call_.graph->placements[call_.graph->layouts[layout.index()].placement.index()];
    const std::optional<std::size_t> index = placement.index_of(call_.ranks[member]);
    if (!index) {
      Shard nothing;
      nothing.dims.resize(from_.global.shape.rank());
      return nothing;
    }
    return shard_of(call_.graph->layouts[layout.index()].global.shape,
                    call_.graph->layouts[layout.index()].words, placement.hierarchy(),
                    placement.coordinates_of(*index));
  }

  void count(std::size_t source, std::size_t destination, std::int64_t elements) {
    if (source == destination || elements == 0) return;
    traffic_[{call_.ranks[source], call_.ranks[destination]}] += Bytes(elements * element_size_);
  }

  std::vector<std::byte> buffer(std::int64_t elements) const {
    return std::vector<std::byte>(static_cast<std::size_t>(elements * element_size_));
  }

  // Writes `value`, which holds `box`, to the member's output.
  void deliver(std::size_t member, const std::byte* value, const Shard& box) {
    const MemberBuffers& buffers = call_.members[member];
    const BoxBuffer source{const_cast<std::byte*>(value), &box};
    const BoxBuffer destination{buffers.out, &out_boxes_[member]};
    if (buffers.accumulate)
      reduce_box(ReduceOp::kSum, box, source, destination, dtype_);
    else
      copy_box(box, source, destination, dtype_);
  }

  // The part of `owner`, reduced on its way around the ring; `add(member)` reduces that member's
  // contribution into the travelling value.
  template <typename Add>
  void travel_and_reduce(std::size_t owner, std::int64_t elements, const Add& add) {
    for (std::size_t member = after(owner); member != owner; member = after(member)) {
      add(member);
      count(member, after(member), elements);
    }
    add(owner);
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
    const std::int64_t elements = elements_of(in_boxes_.front());
    std::vector<std::byte> sum = buffer(elements);
    for (std::size_t owner = 0; owner < size(); ++owner) {
      const Interval part = balanced_part(elements, static_cast<std::int64_t>(size()),
                                          static_cast<std::int64_t>(owner));
      std::byte* value = sum.data() + part.offset * element_size_;
      bool first = true;
      travel_and_reduce(owner, part.extent, [&](std::size_t member) {
        const std::byte* own = call_.members[member].in + part.offset * element_size_;
        if (first)
          std::memcpy(value, own, static_cast<std::size_t>(part.extent * element_size_));
        else
          reduce_elements(communication_.reduce, dtype_, own, value, part.extent);
        first = false;
      });
      for (std::size_t member = owner; after(member) != owner; member = after(member))
        count(member, after(member), part.extent);
    }
    // Only now: an output may share its bytes with the member's input.
    for (std::size_t member = 0; member < size(); ++member)
      deliver(member, sum.data(), in_boxes_.front());
  }

  void reduce_scatter() {
    require_equal_boxes(in_boxes_);
    std::vector<std::vector<std::byte>> parts;
    for (std::size_t owner = 0; owner < size(); ++owner) {
      const Shard& box = out_boxes_[owner];
      parts.push_back(buffer(elements_of(box)));
      const BoxBuffer value{parts.back().data(), &box};
      bool first = true;
      travel_and_reduce(owner, elements_of(box), [&](std::size_t member) {
        const BoxBuffer own{const_cast<std::byte*>(call_.members[member].in), &in_boxes_[member]};
        if (first)
          copy_box(box, own, value, dtype_);
        else
          reduce_box(communication_.reduce, box, own, value, dtype_);
        first = false;
      });
    }
    for (std::size_t owner = 0; owner < size(); ++owner)
      deliver(owner, parts[owner].data(), out_boxes_[owner]);
  }

  void all_gather() {
    require_equal_boxes(out_boxes_);
    for (std::size_t owner = 0; owner < size(); ++owner) {
      const Shard& box = in_boxes_[owner];
      deliver(owner, call_.members[owner].in, box);
      for (std::size_t member = owner; after(member) != owner; member = after(member)) {
        deliver(after(member), call_.members[owner].in, box);
        count(member, after(member), elements_of(box));
      }
    }
  }

  // From the first member, as a chain in group order.
  void broadcast() {
    const Shard& box = in_boxes_.front();
    for (std::size_t member = 0; member < size(); ++member) {
      deliver(member, call_.members.front().in, box);
      if (member > 0) count(member - 1, member, elements_of(box));
    }
  }

  // all_to_all and transfers. Partial copies are reduced in the order of their positions.
  void move_boxes() {
    const auto is_partial = [](const Sbp& word) { return word.is_partial(); };
    const bool reduces = std::any_of(from_.words.begin(), from_.words.end(), is_partial);
    std::vector<std::vector<std::byte>> values;
    for (std::size_t member = 0; member < size(); ++member) {
      values.push_back(buffer(elements_of(out_boxes_[member])));
      fill_neutral(communication_.reduce, dtype_, values.back().data(),
                   elements_of(out_boxes_[member]));
    }
    const auto placement_of = [&](const Layout& layout) {
      return WordsOnPlacement{&layout.words, &call_.graph->placements[layout.placement.index()]};
    };
    for (const BoxMove& move :
         box_moves(from_.global.shape, placement_of(from_), placement_of(to_), call_.ranks)) {
      const auto source = static_cast<std::size_t>(move.source);
      const auto destination = static_cast<std::size_t>(move.destination);
      const BoxBuffer from{const_cast<std::byte*>(call_.members[source].in), &in_boxes_[source]};
      const BoxBuffer to{values[destination].data(), &out_boxes_[destination]};
      if (reduces)
        reduce_box(communication_.reduce, move.box, from, to, dtype_);
      else
        copy_box(move.box, from, to, dtype_);
      count(source, destination, elements_of(move.box));
    }
    for (std::size_t member = 0; member < size(); ++member)
      if (call_.members[member].out != nullptr)
        deliver(member, values[member].data(), out_boxes_[member]);
  }

  const CollectiveCall& call_;
  const Communication& communication_;
  const Layout& from_;
  const Layout& to_;
  const DType dtype_;
  const std::int64_t element_size_;
  Traffic& traffic_;
  std::vector<Shard> in_boxes_, out_boxes_;
};

}  // namespace

void run_collective(const CollectiveCall& call, Traffic& traffic) {
  require(call.members.size() == call.ranks.size(), ErrorCode::kInternal,
          "a communication of {} ranks was run with {} members", call.ranks.size(),
          call.members.size());
  Collective(call, traffic).run();
}

}  // namespace sextant
