// Scripts do to memory what collectives do: every primitive, uneven and empty shards, accumulation,
// outputs in the bytes of inputs, bit by bit. And what a script must be whatever runs it: inside
// its buffers beyond 2^31 elements, sends matched with receives, bytes the planner's.
#include "backends/cpu/script_interpreter.h"

#include "core/base/check.h"
#include "core/base/counter_rng.h"
#include "core/base/elements.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sextant::script_interpreter_test {
namespace {

using Call = ExchangeCall::Kind;

constexpr DType kTypes[] = {DType::kF64, DType::kF32, DType::kBF16, DType::kF16,
                            DType::kI64, DType::kI32, DType::kBool};

struct Case {
  Primitive primitive = Primitive::kAllReduce;
  std::string from, to;
  ReduceOp reduce = ReduceOp::kSum;
};

// Every primitive with every kind of words it may have on one axis; dim 0 outermost.
const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {Primitive::kAllReduce, "P(sum)", "B", ReduceOp::kSum},
      {Primitive::kAllReduce, "P(max)", "B", ReduceOp::kMax},
      {Primitive::kAllReduce, "P(min)", "B", ReduceOp::kMin},
      {Primitive::kReduceScatter, "P(sum)", "S(0)", ReduceOp::kSum},
      {Primitive::kReduceScatter, "P(sum)", "S(1)", ReduceOp::kSum},
      {Primitive::kReduceScatter, "P(max)", "S(0)", ReduceOp::kMax},
      {Primitive::kReduceScatter, "P(min)", "S(1)", ReduceOp::kMin},
      {Primitive::kAllGather, "S(0)", "B", ReduceOp::kSum},
      {Primitive::kAllGather, "S(1)", "B", ReduceOp::kSum},
      {Primitive::kAllToAll, "S(0)", "S(1)", ReduceOp::kSum},
      {Primitive::kAllToAll, "S(1)", "S(0)", ReduceOp::kSum},
      {Primitive::kAllToAll, "P(sum)", "S(1)", ReduceOp::kSum},
      {Primitive::kAllToAll, "S(0)", "P(max)", ReduceOp::kMax},
      {Primitive::kAllToAll, "B", "P(sum)", ReduceOp::kSum},
      {Primitive::kBroadcast, "B", "B", ReduceOp::kSum},
      {Primitive::kShift, "S(0)", "S(0)", ReduceOp::kSum},
      {Primitive::kTransfer, "S(0)", "B", ReduceOp::kSum},
      {Primitive::kTransfer, "S(0)", "S(1)", ReduceOp::kSum},
      {Primitive::kTransfer, "B", "S(0)", ReduceOp::kSum},
      {Primitive::kTransfer, "P(sum)", "S(0)", ReduceOp::kSum},
      {Primitive::kTransfer, "P(max)", "P(max)", ReduceOp::kMax},
      {Primitive::kTransfer, "S(1)", "P(sum)", ReduceOp::kSum},
  };
  return all;
}

class Exchange {
 public:
  Exchange(const Case& of, std::int64_t size, const Shape& shape, DType dtype) {
    graph_.placements.push_back(consecutive_placement({{"x", size}}));
    members_ = graph_.placements[PlacementId(0)].ranks;
    graph_.layouts.push_back({{shape, dtype}, parse_nd_sbp(of.from), PlacementId(0)});
    graph_.layouts.push_back({{shape, dtype}, parse_nd_sbp(of.to), PlacementId(0)});
    communication_ = {of.primitive, Side::kBoth, 0, of.reduce, dtype, LayoutId(0), LayoutId(1)};
  }
  // Moves the result to other devices.
  void onto(const std::vector<Rank>& ranks) {
    graph_.placements.push_back({{{"y", static_cast<std::int64_t>(ranks.size())}}, ranks});
    graph_.layouts[LayoutId(1)].placement = PlacementId(1);
    for (const Rank rank : ranks)
      if (std::find(members_.begin(), members_.end(), rank) == members_.end())
        members_.push_back(rank);
  }

  std::size_t size() const { return members_.size(); }
  DType dtype() const { return communication_.dtype; }
  // Nothing: the member has no such buffer.
  std::optional<Shard> box(std::size_t side, std::size_t member) const {
    const Layout& layout = graph_.layouts[LayoutId(side)];
    const Placement& placement = graph_.placements[layout.placement];
    const auto index = placement.index_of(members_[member]);
    if (!index) return std::nullopt;
    return shard_of(layout.global.shape, layout.words, placement.hierarchy(),
                    placement.coordinates_of(*index));
  }
  std::int64_t bytes(std::size_t side, std::size_t member) const {
    const auto held = box(side, member);
    return held ? held->elements() * size_of(dtype()).value : 0;
  }
  CollectiveCall call(const std::vector<MemberBuffers>& buffers) const {
    return {&graph_, &communication_, members_, buffers};
  }
  std::vector<CollectiveScript> scripts(bool accumulate = false) const {
    std::vector<CollectiveScript> scripts;
    for (std::size_t member = 0; member < size(); ++member)
      scripts.push_back(make_script(graph_, communication_, members_, member, accumulate));
    return scripts;
  }
  std::string text() const {
    return fmt::format("{} {} {} {} -> {} over {}", to_string(communication_.primitive),
                       to_string(dtype()), to_string(graph_.layouts[LayoutId(0)].global.shape),
                       to_string(graph_.layouts[LayoutId(0)].words),
                       to_string(graph_.layouts[LayoutId(1)].words), size());
  }
  Traffic planned() const {
    Traffic traffic;
    sextant::add_traffic(graph_, communication_, members_, traffic);
    return traffic;
  }
  // Invariants 1, 3 and 6 of core/collective_script; empty: they hold.
  std::string broken_rule(bool accumulate) const {
    const std::vector<CollectiveScript> made = scripts(accumulate);
    std::vector<Bytes> in, out;
    for (std::size_t member = 0; member < size(); ++member) {
      in.emplace_back(bytes(0, member));
      out.emplace_back(bytes(1, member));
    }
    for (const std::string& fault : faults_of(made, in, out)) return fault;
    Traffic sent;
    add_traffic(made, members_, sent);
    std::int64_t expected = sum(planned());
    const bool gathers = communication_.primitive == Primitive::kAllReduce &&
                         communication_.reduce != ReduceOp::kSum && is_floating(dtype());
    const auto n = static_cast<std::int64_t>(size());
    if (gathers) expected = n * (n - 1) * bytes(0, 0);
    if (sum(sent) != expected) return fmt::format("{} bytes, not {}", sum(sent), expected);
    const bool has_own_way = gathers || communication_.primitive == Primitive::kBroadcast ||
                             (!made[0].exchange.empty() && !is_ring(made[0].exchange[0].kind) &&
                              (communication_.primitive == Primitive::kAllGather ||
                               communication_.primitive == Primitive::kReduceScatter));
    if (!has_own_way && pairs_of(sent) != pairs_of(planned())) return "other pairs";
    return {};
  }
  static std::int64_t sum(const Traffic& traffic) {
    std::int64_t bytes = 0;
    for (const auto& [pair, part] : traffic) bytes += part.value;
    return bytes;
  }

 private:
  PhysicalGraph graph_;
  Communication communication_;
  std::vector<Rank> members_;
};

// Thirds, so that rounding shows the order of sums; every thirteenth is NaN where there is one.
std::vector<std::byte> contents(const Exchange& exchange, std::size_t side, std::size_t member) {
  const std::int64_t size = size_of(exchange.dtype()).value;
  std::vector<double> values(static_cast<std::size_t>(exchange.bytes(side, member) / size));
  const CounterRng random(member * 2 + side, exchange.text());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto draw = static_cast<std::int64_t>(random.bits(i) >> 40);
    values[i] = static_cast<double>(draw % 401 - 200) / 3;
    if (is_floating(exchange.dtype()) && draw % 13 == 0) values[i] = std::nan("");
    if (values[i] == 0) values[i] = 1;
    if (exchange.dtype() == DType::kBool) values[i] = static_cast<double>(draw % 2);
  }
  std::vector<std::byte> bytes(values.size() * static_cast<std::size_t>(size));
  store_from_double(exchange.dtype(), values, bytes.data());
  return bytes;
}

using Contents = std::vector<std::vector<std::byte>>;

// What the outputs hold afterwards.
template <typename Run>
Contents outputs(const Exchange& exchange, bool accumulate, const Run& run) {
  Contents in, out;
  std::vector<MemberBuffers> buffers;
  for (std::size_t member = 0; member < exchange.size(); ++member) {
    in.push_back(contents(exchange, 0, member));
    out.push_back(contents(exchange, 1, member));
    // One byte more, so that an empty shard has an address.
    in.back().resize(in.back().size() + 1);
    out.back().resize(out.back().size() + 1);
  }
  for (std::size_t member = 0; member < exchange.size(); ++member)
    buffers.push_back({exchange.box(0, member) ? in[member].data() : nullptr,
                       exchange.box(1, member) ? out[member].data() : nullptr, accumulate});
  Traffic traffic;
  run(exchange.call(buffers), traffic);
  return out;
}

std::vector<Shape> shapes(std::int64_t n) {
  return {Shape{n, n, 3}, Shape{7, 2 * n, 1}, Shape{n + 1, 5, 2}, Shape{n - 1, 1, 7},
          Shape{0, n, 2}};
}

// Calls check(exchange, accumulate).
template <typename Check>
void over_all(const Check& check) {
  for (const Case& of : cases())
    for (std::int64_t n = 1; n <= 5; ++n)
      for (const DType dtype : kTypes)
        for (const Shape& shape : shapes(n))
          for (const bool accumulate : {false, true}) {
            // The parts of a shift must have one size.
            if (of.primitive == Primitive::kShift && shape[0] % n != 0) continue;
            Exchange exchange(of, n, shape, dtype);
            check(exchange, accumulate);
            if (of.primitive != Primitive::kTransfer) continue;
            exchange.onto({Rank(8), Rank(0), Rank(9)});
            check(exchange, accumulate);
            Exchange apart(of, n, shape, dtype);
            apart.onto({Rank(6), Rank(7)});
            check(apart, accumulate);
          }
}

TEST_CASE("a script leaves the bits that the collective leaves, NaN and accumulation included") {
  std::int64_t checked = 0, with_rings = 0;
  over_all([&](const Exchange& exchange, bool accumulate) {
    const Contents direct = outputs(exchange, accumulate, run_collective);
    const Contents scripted = outputs(exchange, accumulate, run_scripts);
    REQUIRE_MESSAGE(direct == scripted, exchange.text());
    const std::vector<CollectiveScript> scripts = exchange.scripts(accumulate);
    with_rings += !scripts[0].exchange.empty() && is_ring(scripts[0].exchange[0].kind) ? 1 : 0;
    ++checked;
  });
  CHECK(checked > 8000);
  CHECK(with_rings > 1000);
}

TEST_CASE("scripts of a group fit each other, stay in their buffers and move the planner's bytes") {
  over_all([](const Exchange& exchange, bool accumulate) {
    const std::string broken = exchange.broken_rule(accumulate);
    REQUIRE_MESSAGE(broken.empty(), exchange.text() << ": " << broken);
  });
}

TEST_CASE("scripts hold beyond 2^31 and 2^32 elements, without memory") {
  for (const Case& of : cases())
    for (const DType dtype : {DType::kBool, DType::kBF16, DType::kF64})
      for (const Shape& shape : {Shape{5, 858993463, 2}, Shape{65537, 65537}, Shape{3, 1431655768}})
        for (const std::int64_t n : {2, 3, 8})
          for (const bool accumulate : {false, true}) {
            if (of.primitive == Primitive::kShift && shape[0] % n != 0) continue;
            const Exchange exchange(of, n, shape, dtype);
            const std::string broken = exchange.broken_rule(accumulate);
            REQUIRE_MESSAGE(broken.empty(), exchange.text() << ": " << broken);
          }
}

TEST_CASE("a script that leaves a buffer or sends what nobody receives is found") {
  const Exchange exchange({Primitive::kAllToAll, "S(0)", "S(1)"}, 2, Shape{4, 4}, DType::kF32);
  const std::vector<Bytes> all(2, Bytes(32));
  const std::vector<CollectiveScript> right = exchange.scripts();
  CHECK(faults_of(right, all, all).empty());
  CHECK(!faults_of(right, std::vector<Bytes>(2, Bytes(31)), all).empty());
  CHECK(!faults_of(right, all, std::vector<Bytes>(2, Bytes(31))).empty());
  std::vector<CollectiveScript> wrong = right;
  wrong[0].staging = wrong[0].staging - Bytes(256);
  CHECK(!faults_of(wrong, all, all).empty());
  wrong = right;
  wrong[1].exchange.pop_back();
  CHECK(!faults_of(wrong, all, all).empty());
  wrong = right;
  wrong[1].exchange.back().elements += 1;
  CHECK(!faults_of(wrong, all, all).empty());
}

TEST_CASE("rings are used where a library's are ours: not for NaN, not for uneven parts") {
  const auto kind_of = [](const Case& of, std::int64_t n, const Shape& shape, DType dtype) {
    return Exchange(of, n, shape, dtype).scripts()[0].exchange.front().kind;
  };
  const Case sum{Primitive::kAllReduce, "P(sum)", "B"};
  const Case most{Primitive::kAllReduce, "P(max)", "B", ReduceOp::kMax};
  CHECK(kind_of(sum, 3, {7, 1}, DType::kBF16) == Call::kAllReduce);
  CHECK(kind_of(most, 3, {7, 1}, DType::kI32) == Call::kAllReduce);
  CHECK(kind_of(most, 3, {7, 1}, DType::kF32) == Call::kAllGather);
  const Case scatter{Primitive::kReduceScatter, "P(sum)", "S(0)"};
  CHECK(kind_of(scatter, 3, {6, 2}, DType::kF32) == Call::kReduceScatter);
  CHECK(kind_of(scatter, 3, {7, 2}, DType::kF32) == Call::kSend);
  const Case gather{Primitive::kAllGather, "S(1)", "B"};
  CHECK(kind_of(gather, 3, {2, 6}, DType::kF32) == Call::kAllGather);
  CHECK(kind_of(gather, 3, {2, 7}, DType::kF32) == Call::kSend);
  // "Or" of flags is the largest of bytes.
  CHECK(Exchange(sum, 2, {4, 1}, DType::kBool).scripts()[0].exchange[0].op == ReduceOp::kMax);
  // The pipeline's way: straight from register to register, nothing aside.
  Exchange transfer({Primitive::kTransfer, "S(0)", "S(0)"}, 2, Shape{4, 4}, DType::kBF16);
  transfer.onto({Rank(2), Rank(3)});
  for (const CollectiveScript& script : transfer.scripts()) {
    CHECK(script.before.empty());
    CHECK(script.after.empty());
    CHECK(script.staging == Bytes(0));
    CHECK(script.exchange.size() == 1);
  }
}

// ---------------------------------------------------------------- in place

// Input and output of a member in one allocation, each from its offset on.
void check_in_place(const Case& of, std::int64_t n, const Shape& shape,
                    const std::function<std::int64_t(std::size_t)>& in_at,
                    const std::function<std::int64_t(std::size_t)>& out_at) {
  const Exchange exchange(of, n, shape, DType::kF32);
  CAPTURE(exchange.text());
  const auto run = [&](const auto& run_it) {
    Contents memory;
    std::vector<MemberBuffers> buffers;
    for (std::size_t member = 0; member < exchange.size(); ++member) {
      std::vector<std::byte> bytes(static_cast<std::size_t>(shape.elements() * 4 + 16),
                                   std::byte{7});
      const std::vector<std::byte> in = contents(exchange, 0, member);
      std::copy(in.begin(), in.end(), bytes.begin() + in_at(member) * 4);
      memory.push_back(std::move(bytes));
    }
    for (std::size_t member = 0; member < exchange.size(); ++member)
      buffers.push_back({memory[member].data() + in_at(member) * 4,
                         memory[member].data() + out_at(member) * 4, false});
    Traffic traffic;
    run_it(exchange.call(buffers), traffic);
    return memory;
  };
  CHECK(run(run_collective) == run(run_scripts));
}

TEST_CASE("in place a script changes what the collective changes and nothing else") {
  const auto begin = [](std::size_t) { return std::int64_t{1}; };
  for (const std::int64_t n : {2, 3, 4})
    for (const std::int64_t extent : {n, 2 * n + 1}) {
      const auto part = [&](std::size_t member) {
        return 1 + balanced_part(extent, n, static_cast<std::int64_t>(member)).offset * 2;
      };
      const Shape shape{extent, 2};
      check_in_place({Primitive::kAllReduce, "P(sum)", "B"}, n, shape, begin, begin);
      check_in_place({Primitive::kAllReduce, "P(max)", "B", ReduceOp::kMax}, n, shape, begin,
                     begin);
      check_in_place({Primitive::kAllGather, "S(0)", "B"}, n, shape, part, begin);
      check_in_place({Primitive::kReduceScatter, "P(sum)", "S(0)"}, n, shape, begin, part);
      check_in_place({Primitive::kReduceScatter, "P(max)", "S(0)", ReduceOp::kMax}, n, shape, begin,
                     part);
      check_in_place({Primitive::kBroadcast, "B", "B"}, n, shape, begin, begin);
      // A box of two rows: its own part lies elsewhere in the output, where others' parts go.
      check_in_place({Primitive::kAllToAll, "S(0)", "S(1)"}, n, Shape{2 * n, 2 * n}, begin, begin);
      check_in_place({Primitive::kShift, "S(0)", "S(0)"}, n, Shape{2 * n, 3}, begin, begin);
      check_in_place({Primitive::kTransfer, "S(0)", "S(1)"}, n, Shape{2 * n, 2 * n}, begin, begin);
    }
}

}  // namespace
}  // namespace sextant::script_interpreter_test
