// Boxes become strided steps; what a library's ring cannot do becomes sends and receives.
#include "core/collective_script/collective_script.h"

#include "core/base/check.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

namespace sextant {
namespace {

using Buffer = ScriptPlace::Buffer;
using Call = ExchangeCall::Kind;
using Step = LocalStep::Kind;

Shard flat_box(std::int64_t elements) {
  Shard box;
  box.dims.push_back({.offset = 0, .extent = elements});
  return box;
}

std::vector<std::int64_t> strides_of(const Shard& box) {
  std::vector<std::int64_t> strides(box.dims.size(), 1);
  for (std::size_t dim = strides.size(); dim-- > 1;)
    strides[dim - 1] = strides[dim] * box.dims[dim].extent;
  return strides;
}

// Elements from the begin of a buffer of `box` to the first of `part`, which lies inside.
std::int64_t offset_of(const Shard& part, const Shard& box) {
  const std::vector<std::int64_t> strides = strides_of(box);
  std::int64_t offset = 0;
  for (std::size_t dim = 0; dim < strides.size(); ++dim)
    offset += (part.dims[dim].offset - box.dims[dim].offset) * strides[dim];
  return offset;
}

bool lies_packed(const Shard& part, const Shard& box) {
  const std::vector<std::int64_t> strides = strides_of(box);
  std::int64_t expected = 1;
  for (std::size_t dim = strides.size(); dim-- > 0;) {
    if (part.dims[dim].extent == 1) continue;
    if (strides[dim] != expected) return false;
    expected *= part.dims[dim].extent;
  }
  return true;
}

// Without dims of one element; a dim that continues the one behind it on both sides is merged.
std::vector<ScriptDim> merged_dims(const std::vector<ScriptDim>& dims) {
  std::vector<ScriptDim> result;
  for (const ScriptDim& dim : dims) {
    if (dim.extent == 1) continue;
    if (!result.empty() && result.back().from == dim.from * dim.extent &&
        result.back().to == dim.to * dim.extent)
      result.back() = {result.back().extent * dim.extent, dim.from, dim.to};
    else
      result.push_back(dim);
  }
  return result;
}

// A box of memory: where it begins, and which global indices it holds.
struct Held {
  ScriptPlace begin;
  Shard box;
};

class ScriptMaker {
 public:
  ScriptMaker(const PhysicalGraph& graph, const Communication& communication,
              std::span<const Rank> ranks, std::size_t member, bool accumulate)
      : graph_(graph),
        communication_(communication),
        ranks_(ranks),
        member_(member),
        accumulate_(accumulate),
        from_(graph.layouts[communication.from]),
        to_(graph.layouts[communication.to]),
        element_size_(size_of(communication.dtype)) {
    for (std::size_t m = 0; m < ranks.size(); ++m) {
      in_boxes_.push_back(box_of(from_, m));
      out_boxes_.push_back(box_of(to_, m));
    }
    script_.dtype = communication.dtype;
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
        move_boxes();
        break;
    }
    return std::move(script_);
  }

 private:
  std::size_t size() const { return ranks_.size(); }
  std::size_t after(std::size_t member) const { return (member + 1) % size(); }
  std::size_t before(std::size_t member) const { return (member + size() - 1) % size(); }
  const Placement& placement_of(const Layout& layout) const {
    return graph_.placements[layout.placement];
  }
  bool is_on(const Layout& layout, std::size_t member) const {
    return placement_of(layout).index_of(ranks_[member]).has_value();
  }

  // A rank outside the placement of a layout (the other side of a transfer) holds nothing of it.
  Shard box_of(const Layout& layout, std::size_t member) const {
    const Placement& placement = placement_of(layout);
    const std::optional<std::size_t> index = placement.index_of(ranks_[member]);
    if (!index) return Shard{std::vector<Interval>(layout.global.shape.rank())};
    return shard_of(layout.global.shape, layout.words, placement.hierarchy(),
                    placement.coordinates_of(*index));
  }

  const Shard& in_box() const { return in_boxes_[member_]; }
  const Shard& out_box() const { return out_boxes_[member_]; }
  Held in() const { return {{Buffer::kIn, Bytes(0)}, in_box()}; }
  Held out() const { return {{Buffer::kOut, Bytes(0)}, out_box()}; }

  ScriptPlace place_in(const Held& held, const Shard& part) const {
    return {held.begin.buffer, held.begin.offset + element_size_ * offset_of(part, held.box)};
  }
  ScriptPlace behind(const ScriptPlace& begin, std::int64_t elements) const {
    return {begin.buffer, begin.offset + element_size_ * elements};
  }

  ScriptPlace staging(std::int64_t elements) {
    const ScriptPlace place{Buffer::kStaging, script_.staging};
    script_.staging += Bytes(aligned((element_size_ * elements).value));
    return place;
  }
  Held staging_of(const Shard& box) { return {staging(box.elements()), box}; }

  void add_step(std::vector<LocalStep>& steps, Step kind, ReduceOp op, const Shard& part,
                const Held& from, const Held& to) const {
    if (part.is_empty()) return;
    const std::vector<std::int64_t> source = strides_of(from.box), target = strides_of(to.box);
    std::vector<ScriptDim> dims;
    for (std::size_t dim = 0; dim < part.dims.size(); ++dim)
      dims.push_back({part.dims[dim].extent, source[dim], target[dim]});
    steps.push_back({kind, op, place_in(from, part), place_in(to, part), merged_dims(dims)});
  }
  void copy(std::vector<LocalStep>& steps, const Shard& part, const Held& from, const Held& to) {
    add_step(steps, Step::kCopy, ReduceOp::kSum, part, from, to);
  }
  void reduce(const Shard& part, const Held& from, const Held& to) {
    add_step(script_.after, Step::kReduce, communication_.reduce, part, from, to);
  }
  void fill(ReduceOp op, const Held& to) {
    add_step(script_.after, Step::kFill, op, to.box, to, to);
  }
  // A result to its place in the output.
  void deliver(const Shard& part, const Held& from, const Held& to) {
    add_step(script_.after, accumulate_ ? Step::kReduce : Step::kCopy, ReduceOp::kSum, part, from,
             to);
  }

  void call(Call kind, const ScriptPlace& from, const ScriptPlace& to, std::int64_t elements) {
    script_.exchange.push_back({kind, ring_op(), -1, from, to, elements});
  }
  void send(std::size_t peer, const ScriptPlace& from, std::int64_t elements) {
    script_.exchange.push_back(
        {Call::kSend, ReduceOp::kSum, static_cast<std::int32_t>(peer), from, {}, elements});
  }
  void receive(std::size_t peer, const ScriptPlace& to, std::int64_t elements) {
    script_.exchange.push_back(
        {Call::kReceive, ReduceOp::kSum, static_cast<std::int32_t>(peer), {}, to, elements});
  }
  // Packs first what does not lie packed.
  void send_part(std::size_t peer, const Shard& part) {
    if (part.is_empty()) return;
    if (lies_packed(part, in_box())) return send(peer, place_in(in(), part), part.elements());
    const Held packed = staging_of(part);
    copy(script_.before, part, in(), packed);
    send(peer, packed.begin, part.elements());
  }
  Held receive_aside(std::size_t peer, const Shard& part) {
    const Held packed = staging_of(part);
    if (!part.is_empty()) receive(peer, packed.begin, part.elements());
    return packed;
  }
  // Straight into the output where that may be; see invariant 4 for when it is asked.
  void receive_into_output(std::size_t peer, const Shard& part) {
    if (part.is_empty()) return;
    if (!accumulate_ && lies_packed(part, out_box()))
      return receive(peer, place_in(out(), part), part.elements());
    deliver(part, receive_aside(peer, part), out());
  }

  // A library's reduction is ours but for NaN, which its maxima lose, and for 8 bits, which it does
  // not know.
  bool is_for_rings() const {
    return !is_only_moved(communication_.dtype) &&
           (communication_.reduce == ReduceOp::kSum || !is_floating(communication_.dtype));
  }
  ReduceOp ring_op() const {
    const bool is_or =
        communication_.dtype == DType::kBool && communication_.reduce == ReduceOp::kSum;
    return is_or ? ReduceOp::kMax : communication_.reduce;
  }

  void require_equal_boxes(const std::vector<Shard>& boxes) const {
    require(std::all_of(boxes.begin(), boxes.end(),
                        [&](const Shard& box) { return box == boxes.front(); }),
            ErrorCode::kInternal, "{} over {} -> {}: its members hold different boxes",
            to_string(communication_.primitive), to_string(from_.words), to_string(to_.words));
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
  Held part_of(const ScriptPlace& parts, std::size_t member, const Shard& box) const {
    return {behind(parts, static_cast<std::int64_t>(member) * box.elements()), box};
  }

  void all_reduce() {
    require_equal_boxes(in_boxes_);
    const std::int64_t elements = in_box().elements();
    if (elements == 0) return;
    const Shard box = flat_box(elements);
    const Held output{{Buffer::kOut, Bytes(0)}, box};
    if (!is_for_rings()) return all_reduce_of_gathered(box, output);
    const Held sum = accumulate_ ? staging_of(box) : output;
    call(Call::kAllReduce, in().begin, sum.begin, elements);
    if (accumulate_) deliver(box, sum, output);
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
        copy(script_.before, out_boxes_[m], in(), part_of(parts, m, out_boxes_[m]));
    }
    const Held sum = accumulate_ ? staging_of(out_box()) : out();
    call(Call::kReduceScatter, parts, sum.begin, elements);
    if (accumulate_) deliver(out_box(), sum, out());
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
    if (!accumulate_ && lie_in_order(in_boxes_, out_box()))
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
            "shift over {}: its members hold {} and {} elements", to_string(from_.words),
            in_boxes_[source].elements(), out_box().elements());
    const Held input{{Buffer::kIn, Bytes(0)}, sent}, output{{Buffer::kOut, Bytes(0)}, wanted};
    if (source == member_) return deliver(wanted, input, output);
    if (!sent.is_empty()) send(after(member_), input.begin, sent.elements());
    deliver(wanted, receive_aside(source, wanted), output);
  }

  // The reduction that the copies of a layout wait for; one copy waits for none.
  std::optional<ReduceOp> pending(const Layout& layout) const {
    const Placement& placement = placement_of(layout);
    for (std::size_t axis = 0; axis < layout.words.size(); ++axis)
      if (layout.words[axis].is_partial() && placement.axes[axis].extent > 1)
        return layout.words[axis].reduce;
    return std::nullopt;
  }

  void move_boxes() {
    const std::vector<BoxMove> all =
        box_moves(from_.global.shape, {&from_.words, &placement_of(from_)},
                  {&to_.words, &placement_of(to_)}, ranks_);
    std::vector<BoxMove> mine;
    for (const BoxMove& move : all) {
      const auto source = static_cast<std::size_t>(move.source);
      const auto destination = static_cast<std::size_t>(move.destination);
      if (source == member_ && destination != member_) send_part(destination, move.box);
      if (destination == member_) mine.push_back(move);
    }
    if (!is_on(to_, member_)) return;
    // A share that gets nothing is the neutral element of the reduction that is pending on it.
    const ReduceOp neutral = pending(to_).value_or(communication_.reduce);
    if (pending(from_))
      reduce_moves(mine, neutral);
    else
      place_moves(mine, neutral);
  }

  // Partial copies, in the order of their positions.
  void reduce_moves(const std::vector<BoxMove>& moves, ReduceOp neutral) {
    const Held value = staging_of(out_box());
    fill(neutral, value);
    for (const BoxMove& move : moves) {
      const auto source = static_cast<std::size_t>(move.source);
      reduce(move.box, source == member_ ? in() : receive_aside(source, move.box), value);
    }
    deliver(out_box(), value, out());
  }

  void place_moves(const std::vector<BoxMove>& moves, ReduceOp neutral) {
    std::int64_t placed = 0;
    for (const BoxMove& move : moves) placed += move.box.elements();
    const bool is_whole = placed == out_box().elements();
    // Into staging first where the output as a whole is to be added.
    const bool aside = accumulate_ && !is_whole;
    const Held value = aside ? staging_of(out_box()) : out();
    if (!is_whole) fill(neutral, value);
    for (const BoxMove& move : moves) {
      const auto source = static_cast<std::size_t>(move.source);
      if (is_whole && !is_on(from_, member_)) {
        receive_into_output(source, move.box);
        continue;
      }
      const Held part = source == member_ ? own_aside(move.box) : receive_aside(source, move.box);
      if (aside)
        copy(script_.after, move.box, part, value);
      else
        deliver(move.box, part, value);
    }
    if (aside) deliver(out_box(), value, out());
  }

  // The output may share its bytes with the input.
  Held own_aside(const Shard& part) {
    const Held packed = staging_of(part);
    copy(script_.before, part, in(), packed);
    return packed;
  }

  const PhysicalGraph& graph_;
  const Communication& communication_;
  const std::span<const Rank> ranks_;
  const std::size_t member_;
  const bool accumulate_;
  const Layout& from_;
  const Layout& to_;
  const Bytes element_size_;
  std::vector<Shard> in_boxes_, out_boxes_;
  CollectiveScript script_;
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

// --- faults

// Elements of a buffer that a step or call touches, or nothing where they overflow.
struct ByteRange {
  Buffer buffer;
  std::int64_t begin = 0, end = 0;  // bytes
  bool writes = false;
};

class FaultFinder {
 public:
  FaultFinder(std::span<const CollectiveScript> scripts, std::span<const Bytes> in,
              std::span<const Bytes> out)
      : scripts_(scripts), in_(in), out_(out) {}

  std::vector<std::string> find() {
    for (std::size_t m = 0; m < scripts_.size(); ++m) {
      for (const LocalStep& step : scripts_[m].before) check_step(m, step);
      for (const LocalStep& step : scripts_[m].after) check_step(m, step);
      check_exchange(m);
    }
    check_rings();
    check_pairs();
    return std::move(faults_);
  }

 private:
  template <typename... Args>
  void expect(bool condition, fmt::format_string<Args...> text, Args&&... args) {
    if (!condition) faults_.push_back(fmt::format(text, std::forward<Args>(args)...));
  }

  std::int64_t size_of_buffer(std::size_t member, Buffer buffer) const {
    switch (buffer) {
      case Buffer::kIn:
        return in_[member].value;
      case Buffer::kOut:
        return out_[member].value;
      case Buffer::kStaging:
        return scripts_[member].staging.value;
    }
    return 0;
  }

  // `elements` from the place to the last touched element, inclusive; -1: too many to count.
  void check_inside(std::size_t member, const ScriptPlace& place, std::int64_t elements) {
    std::int64_t bytes = 0, end = 0;
    const bool overflows =
        elements < 0 ||
        __builtin_mul_overflow(elements, size_of(scripts_[member].dtype).value, &bytes) ||
        __builtin_add_overflow(bytes, place.offset.value, &end);
    expect(!overflows && place.offset.value >= 0 && end <= size_of_buffer(member, place.buffer),
           "member {}: {} elements from byte {} on leave a buffer of {} bytes", member, elements,
           place.offset.value, size_of_buffer(member, place.buffer));
  }

  static std::int64_t reach(const std::vector<ScriptDim>& dims, std::int64_t ScriptDim::*stride) {
    std::int64_t last = 0;
    for (const ScriptDim& dim : dims) {
      std::int64_t step = 0;
      if (dim.extent < 1 || dim.*stride < 0 ||
          __builtin_mul_overflow(dim.extent - 1, dim.*stride, &step) ||
          __builtin_add_overflow(last, step, &last))
        return -1;
    }
    return last + 1;
  }

  void check_step(std::size_t member, const LocalStep& step) {
    if (step.kind != Step::kFill)
      check_inside(member, step.from, reach(step.dims, &ScriptDim::from));
    check_inside(member, step.to, reach(step.dims, &ScriptDim::to));
  }

  void check_exchange(std::size_t member) {
    const auto members = static_cast<std::int64_t>(scripts_.size());
    std::vector<ByteRange> ranges;
    const auto touch = [&](const ScriptPlace& place, std::int64_t elements, bool writes) {
      check_inside(member, place, elements);
      const std::int64_t bytes = (size_of(scripts_[member].dtype) * elements).value;
      ranges.push_back({place.buffer, place.offset.value, place.offset.value + bytes, writes});
    };
    for (const ExchangeCall& call : scripts_[member].exchange) {
      expect(call.elements > 0, "member {}: a call of {} elements", member, call.elements);
      expect(is_ring(call.kind) ? scripts_[member].exchange.size() == 1
                                : call.peer >= 0 && call.peer < members &&
                                      call.peer != static_cast<std::int32_t>(member),
             "member {}: a ring beside other calls, or no peer", member);
      const std::int64_t all = call.elements * members;
      switch (call.kind) {
        case Call::kAllReduce:
          check_inside(member, call.from, call.elements);
          check_inside(member, call.to, call.elements);
          break;
        case Call::kAllGather:
          check_inside(member, call.from, call.elements);
          check_inside(member, call.to, all);
          break;
        case Call::kReduceScatter:
          check_inside(member, call.from, all);
          check_inside(member, call.to, call.elements);
          break;
        case Call::kSend:
          touch(call.from, call.elements, false);
          break;
        case Call::kReceive:
          touch(call.to, call.elements, true);
          break;
      }
    }
    for (std::size_t a = 0; a < ranges.size(); ++a)
      for (std::size_t b = 0; b < a; ++b)
        expect(ranges[a].buffer != ranges[b].buffer || !(ranges[a].writes || ranges[b].writes) ||
                   ranges[a].end <= ranges[b].begin || ranges[b].end <= ranges[a].begin,
               "member {}: two calls of the exchange touch the same bytes", member);
  }

  void check_rings() {
    const auto ring_of = [](const CollectiveScript& script) {
      const bool rings = !script.exchange.empty() && is_ring(script.exchange.front().kind);
      return rings ? std::optional(std::tuple(script.exchange.front().kind,
                                              script.exchange.front().op,
                                              script.exchange.front().elements))
                   : std::nullopt;
    };
    for (const CollectiveScript& script : scripts_)
      expect(ring_of(script) == ring_of(scripts_.front()), "members take part in different rings");
  }

  void check_pairs() {
    std::map<std::pair<std::int32_t, std::int32_t>, std::vector<std::int64_t>> sent, received;
    for (std::size_t m = 0; m < scripts_.size(); ++m)
      for (const ExchangeCall& call : scripts_[m].exchange) {
        const auto own = static_cast<std::int32_t>(m);
        if (call.kind == Call::kSend) sent[{own, call.peer}].push_back(call.elements);
        if (call.kind == Call::kReceive) received[{call.peer, own}].push_back(call.elements);
      }
    expect(sent == received, "sends have no receives of their size, or receives no sends");
  }

  const std::span<const CollectiveScript> scripts_;
  const std::span<const Bytes> in_, out_;
  std::vector<std::string> faults_;
};

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
  return ScriptMaker(graph, communication, ranks, member, accumulate).make();
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

std::vector<std::string> faults_of(std::span<const CollectiveScript> scripts,
                                   std::span<const Bytes> in, std::span<const Bytes> out) {
  return FaultFinder(scripts, in, out).find();
}

}  // namespace sextant
