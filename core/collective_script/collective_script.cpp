// What a library's ring cannot do becomes sends and receives.
#include "core/collective_script/collective_script.h"

#include "core/base/check.h"
#include "core/collective_script/script_writer.h"

#include <algorithm>
#include <optional>

namespace sextant {
namespace {

using Buffer = ScriptPlace::Buffer;
using Call = ExchangeCall::Kind;

const Placement& placement_of_layout(const PhysicalGraph& graph, const Layout& layout) {
  return graph.placements[layout.placement];
}

// A communication as one of its members sees it.
struct MemberView {
  const PhysicalGraph& graph;
  const Communication& communication;
  std::span<const Rank> ranks;
  std::size_t member;

  const Layout& from() const { return graph.layouts[communication.from]; }
  const Layout& to() const { return graph.layouts[communication.to]; }
  bool is_on(const Layout& layout) const {
    return placement_of_layout(graph, layout).index_of(ranks[member]).has_value();
  }
};

// The output may share its bytes with the input.
Held own_aside(const Shard& part, ScriptWriter& script) {
  const Held packed = script.staging_of(part);
  script.copy_before(part, script.in(), packed);
  return packed;
}

// Partial copies, in the order of their positions.
void reduce_moves(const MemberView& group, const std::vector<BoxMove>& moves, ReduceOp neutral,
                  ScriptWriter& script) {
  const Held value = script.staging_of(script.out_box());
  script.fill(neutral, value);
  for (const BoxMove& move : moves) {
    const auto source = static_cast<std::size_t>(move.source);
    script.reduce(move.box,
                  source == group.member ? script.in() : script.receive_aside(source, move.box),
                  value);
  }
  script.deliver(script.out_box(), value, script.out());
}

void place_moves(const MemberView& group, const std::vector<BoxMove>& moves, ReduceOp neutral,
                 ScriptWriter& script) {
  std::int64_t placed = 0;
  for (const BoxMove& move : moves) placed += move.box.elements();
  const bool is_whole = placed == script.out_box().elements();
  // Into staging first where the output as a whole is to be added.
  const bool aside = script.accumulates() && !is_whole;
  const Held value = aside ? script.staging_of(script.out_box()) : script.out();
  if (!is_whole) script.fill(neutral, value);
  for (const BoxMove& move : moves) {
    const auto source = static_cast<std::size_t>(move.source);
    if (is_whole && !group.is_on(group.from())) {
      script.receive_into_output(source, move.box);
      continue;
    }
    const Held part = source == group.member ? own_aside(move.box, script)
                                             : script.receive_aside(source, move.box);
    if (aside)
      script.copy_after(move.box, part, value);
    else
      script.deliver(move.box, part, value);
  }
  if (aside) script.deliver(script.out_box(), value, script.out());
}

// All-to-all and transfers: every part to whom it belongs.
void move_boxes(const MemberView& group, ScriptWriter& script) {
  const Layout& from = group.from();
  const Layout& to = group.to();
  const std::vector<BoxMove> all =
      box_moves(from.global.shape, {&from.words, &placement_of_layout(group.graph, from)},
                {&to.words, &placement_of_layout(group.graph, to)}, group.ranks);
  std::vector<BoxMove> mine;
  for (const BoxMove& move : all) {
    const auto source = static_cast<std::size_t>(move.source);
    const auto destination = static_cast<std::size_t>(move.destination);
    if (source == group.member && destination != group.member)
      script.send_part(destination, move.box);
    if (destination == group.member) mine.push_back(move);
  }
  if (!group.is_on(to)) return;
  // A share that gets nothing is the neutral element of the reduction that is pending on it.
  const ReduceOp neutral = pending_reduction(group.graph, to).value_or(group.communication.reduce);
  if (pending_reduction(group.graph, from))
    reduce_moves(group, mine, neutral, script);
  else
    place_moves(group, mine, neutral, script);
}

// What each primitive does, with the lines that ScriptWriter writes.
class ScriptMaker : private ScriptWriter {
 public:
  ScriptMaker(const MemberView& group, bool accumulate)
      : ScriptWriter(group.communication,
                     held_box(group.graph, group.from(), group.ranks[group.member]),
                     held_box(group.graph, group.to(), group.ranks[group.member]), accumulate),
        group_(group),
        communication_(group.communication),
        member_(group.member) {
    for (const Rank rank : group.ranks) {
      in_boxes_.push_back(held_box(group.graph, group.from(), rank));
      out_boxes_.push_back(held_box(group.graph, group.to(), rank));
    }
  }

  CollectiveScript make() {
    switch (communication_.primitive) {
      case Primitive::kAllReduce:
        all_reduce();
        break;
      case Primitive::kReduceScatter:
        reduce_scatter();
        break;
      case Primitive::kAllGather:
        all_gather();
        break;
      case Primitive::kBroadcast:
        broadcast();
        break;
      case Primitive::kShift:
        shift();
        break;
      case Primitive::kAllToAll:
      case Primitive::kTransfer:
        move_boxes(group_, *this);
        break;
    }
    return take();
  }

 private:
  std::size_t size() const { return group_.ranks.size(); }
  std::size_t after(std::size_t member) const { return (member + 1) % size(); }
  std::size_t before(std::size_t member) const { return (member + size() - 1) % size(); }
  // A library's reduction is ours but for NaN, which its maxima lose, and for 8 bits, which it does
  // not know.
  bool is_for_rings() const {
    return !is_only_moved(communication_.dtype) &&
           (communication_.reduce == ReduceOp::kSum || !is_floating(communication_.dtype));
  }
  void require_equal_boxes(const std::vector<Shard>& boxes) const {
    require(std::all_of(boxes.begin(), boxes.end(),
                        [&](const Shard& box) { return box == boxes.front(); }),
            ErrorCode::kInternal, "{} over {} -> {}: its members hold different boxes",
            to_string(communication_.primitive), to_string(group_.from().words),
            to_string(group_.to().words));
  }
  static bool have_equal_sizes(const std::vector<Shard>& boxes) {
    return std::all_of(boxes.begin(), boxes.end(), [&](const Shard& box) {
      return box.elements() == boxes.front().elements();
    });
  }
  // One behind the other in `whole`, in group order.
  bool lie_in_order(const std::vector<Shard>& parts, const Shard& whole) const {
    const std::int64_t elements = parts.front().elements();
    for (std::size_t m = 0; m < parts.size(); ++m)
      if (!lies_packed(parts[m], whole) ||
          offset_of(parts[m], whole) != static_cast<std::int64_t>(m) * elements)
        return false;
    return true;
  }
  void all_reduce() {
    require_equal_boxes(in_boxes_);
    const std::int64_t elements = in_box().elements();
    if (elements == 0) return;
    const Shard box = flat_box(elements);
    const Held output{{Buffer::kOut, Bytes(0)}, box};
    if (!is_for_rings()) return all_reduce_of_gathered(box, output);
    const Held sum = accumulates() ? staging_of(box) : output;
    call(Call::kAllReduce, in().begin, sum.begin, elements);
    if (accumulates()) deliver(box, sum, output);
  }

  void all_reduce_of_gathered(const Shard& box, const Held& output) {
    const ScriptPlace parts = staging(box.elements() * static_cast<std::int64_t>(size()));
    call(Call::kAllGather, in().begin, parts, box.elements());
    const Held value = part_of(parts, 0, box);
    for (std::size_t m = 1; m < size(); ++m) reduce(box, part_of(parts, m, box), value);
    deliver(box, value, output);
  }

  void reduce_scatter() {
    require_equal_boxes(in_boxes_);
    if (!is_for_rings() || !have_equal_sizes(out_boxes_)) return reduce_sent_parts();
    const std::int64_t elements = out_box().elements();
    if (elements == 0) return;
    ScriptPlace parts = in().begin;
    if (!lie_in_order(out_boxes_, in_box())) {
      parts = staging(elements * static_cast<std::int64_t>(size()));
      for (std::size_t m = 0; m < size(); ++m)
        copy_before(out_boxes_[m], in(), part_of(parts, m, out_boxes_[m]));
    }
    const Held sum = accumulates() ? staging_of(out_box()) : out();
    call(Call::kReduceScatter, parts, sum.begin, elements);
    if (accumulates()) deliver(out_box(), sum, out());
  }

  // Every member gets its part from all others, and reduces in the order of the ring: from the
  // member behind it round to itself.
  void reduce_sent_parts() {
    for (std::size_t m = after(member_); m != member_; m = after(m)) send_part(m, out_boxes_[m]);
    if (size() == 1) return deliver(out_box(), in(), out());
    const Held value = receive_aside(after(member_), out_box());
    for (std::size_t m = after(after(member_)); m != member_; m = after(m))
      reduce(out_box(), receive_aside(m, out_box()), value);
    reduce(out_box(), in(), value);
    deliver(out_box(), value, out());
  }

  void all_gather() {
    require_equal_boxes(out_boxes_);
    if (!have_equal_sizes(in_boxes_)) return gather_sent_parts();
    const std::int64_t elements = in_box().elements();
    if (elements == 0) return;
    if (!accumulates() && lie_in_order(in_boxes_, out_box()))
      return call(Call::kAllGather, in().begin, out().begin, elements);
    const ScriptPlace parts = staging(elements * static_cast<std::int64_t>(size()));
    call(Call::kAllGather, in().begin, parts, elements);
    for (std::size_t m = 0; m < size(); ++m)
      deliver(in_boxes_[m], part_of(parts, m, in_boxes_[m]), out());
  }

  void gather_sent_parts() {
    for (std::size_t m = after(member_); m != member_; m = after(m)) {
      if (!in_box().is_empty()) send(m, in().begin, in_box().elements());
      receive_into_output(m, in_boxes_[m]);
    }
    deliver(in_box(), in(), out());  // onto itself where it is in its place already
  }

  // The first member has it.
  void broadcast() {
    const Shard& box = in_boxes_.front();
    if (member_ > 0) return receive_into_output(0, box);
    for (std::size_t m = 1; m < size(); ++m) send_part(m, box);
    deliver(box, in(), out());
  }

  // To the next member, under its name for the part: the contents keep their order, not their
  // place.
  void shift() {
    const std::size_t source = before(member_);
    const Shard sent = flat_box(in_box().elements()), wanted = flat_box(out_box().elements());
    require(in_boxes_[source].elements() == out_box().elements(), ErrorCode::kInternal,
            "shift over {}: its members hold {} and {} elements", to_string(group_.from().words),
            in_boxes_[source].elements(), out_box().elements());
    const Held input{{Buffer::kIn, Bytes(0)}, sent}, output{{Buffer::kOut, Bytes(0)}, wanted};
    if (source == member_) return deliver(wanted, input, output);
    if (!sent.is_empty()) send(after(member_), input.begin, sent.elements());
    deliver(wanted, receive_aside(source, wanted), output);
  }

  const MemberView group_;
  const Communication& communication_;
  const std::size_t member_;
  std::vector<Shard> in_boxes_, out_boxes_;  // by member
};

// What a member sends to the next one in group order.
std::int64_t ring_elements_of(const ExchangeCall& call, std::int64_t members, std::int64_t member) {
  switch (call.kind) {
    case Call::kAllReduce:
      return 2 * call.elements - balanced_part(call.elements, members, member).extent -
             balanced_part(call.elements, members, (member + 1) % members).extent;
    case Call::kAllGather:
    case Call::kReduceScatter:
      return call.elements * (members - 1);
    case Call::kSend:
    case Call::kReceive:
      return 0;
  }
  return 0;
}

}  // namespace

std::int64_t LocalStep::elements() const {
  std::int64_t elements = 1;
  for (const ScriptDim& dim : dims) elements *= dim.extent;
  return elements;
}

bool is_ring(ExchangeCall::Kind kind) {
  switch (kind) {
    case Call::kAllReduce:
    case Call::kAllGather:
    case Call::kReduceScatter:
      return true;
    case Call::kSend:
    case Call::kReceive:
      return false;
  }
  return false;
}

CollectiveScript make_script(const PhysicalGraph& graph, const Communication& communication,
                             std::span<const Rank> ranks, std::size_t member, bool accumulate) {
  return ScriptMaker({graph, communication, ranks, member}, accumulate).make();
}

void add_traffic(std::span<const CollectiveScript> scripts, std::span<const Rank> ranks,
                 Traffic& traffic) {
  const std::size_t members = scripts.size();
  for (std::size_t m = 0; m < members; ++m)
    for (const ExchangeCall& call : scripts[m].exchange) {
      if (call.kind == Call::kReceive) continue;
      const std::size_t peer =
          is_ring(call.kind) ? (m + 1) % members : static_cast<std::size_t>(call.peer);
      const std::int64_t elements = is_ring(call.kind)
                                        ? ring_elements_of(call, static_cast<std::int64_t>(members),
                                                           static_cast<std::int64_t>(m))
                                        : call.elements;
      if (peer != m && elements > 0)
        traffic[{ranks[m], ranks[peer]}] += size_of(scripts[m].dtype) * elements;
    }
}

}  // namespace sextant
