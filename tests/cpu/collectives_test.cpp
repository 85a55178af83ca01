// Every primitive over groups of one to five members with uneven and empty boxes: small integers,
// so the oracle on the global tensor is met exactly; traffic equals the volumes of sbp/README.md.
#include "backends/cpu/collectives.h"

#include "core/base/check.h"
#include "core/base/elements.h"

#include <doctest/doctest.h>

#include <string>

namespace sextant::collectives_test {
namespace {

// A tensor [extent, 3] under two layouts on one mesh axis.
class Exchange {
 public:
  Exchange(std::int64_t members, std::int64_t extent, Primitive primitive, const std::string& from,
           const std::string& to, DType dtype, ReduceOp reduce = ReduceOp::kSum)
      : shape_({extent, 3}), dtype_(dtype) {
    Placement placement{{{"x", members}}, {}};
    for (std::int64_t i = 0; i < members; ++i)
      placement.ranks.emplace_back(static_cast<int>(i + 10));
    ranks_ = placement.ranks;
    graph_.placements.push_back(placement);
    graph_.layouts.push_back({{shape_, dtype}, parse_nd_sbp(from), PlacementId(0)});
    graph_.layouts.push_back({{shape_, dtype}, parse_nd_sbp(to), PlacementId(0)});
    communication_ = {primitive, Side::kBoth, 0, reduce, dtype, LayoutId(0), LayoutId(1)};
  }

  Shard box(std::size_t layout, std::size_t member) const {
    return shard_of(shape_, graph_.layouts[LayoutId(layout)].words,
                    graph_.placements[PlacementId(0)].hierarchy(),
                    graph_.placements[PlacementId(0)].coordinates_of(member));
  }

  // Contents of each member's input: `value(member, global index)`.
  template <typename Value>
  std::vector<std::vector<double>> run(const Value& value, bool accumulate = false) {
    std::vector<std::vector<std::byte>> in, out;
    std::vector<MemberBuffers> buffers;
    for (std::size_t member = 0; member < ranks_.size(); ++member) {
      in.push_back(bytes_of(values_of(box(0, member), member, value)));
      const std::vector<double> before(
          static_cast<std::size_t>(box(1, member).local_shape().elements()),
          accumulate ? 100.0 : -7.0);
      out.push_back(bytes_of(before));
    }
    for (std::size_t member = 0; member < ranks_.size(); ++member)
      buffers.push_back({in[member].data(), out[member].data(), accumulate});
    run_collective({&graph_, &communication_, ranks_, buffers}, traffic);
    std::vector<std::vector<double>> results;
    for (std::size_t member = 0; member < ranks_.size(); ++member) {
      results.emplace_back(static_cast<std::size_t>(box(1, member).local_shape().elements()));
      load_as_double(dtype_, out[member].data(), results.back());
    }
    return results;
  }

  template <typename Value>
  std::vector<double> values_of(const Shard& box, std::size_t member, const Value& value) const {
    std::vector<double> values;
    for (std::int64_t i = box.dims[0].offset; i < box.dims[0].end(); ++i)
      for (std::int64_t j = box.dims[1].offset; j < box.dims[1].end(); ++j)
        values.push_back(value(member, i * 3 + j));
    return values;
  }

  std::int64_t elements() const { return shape_.elements(); }
  std::int64_t bytes_from_to(std::size_t source, std::size_t destination) const {
    const auto found = traffic.find({ranks_[source], ranks_[destination]});
    return found == traffic.end() ? 0 : found->second.value;
  }

  Traffic traffic;

 private:
  std::vector<std::byte> bytes_of(const std::vector<double>& values) const {
    std::vector<std::byte> bytes(values.size() * static_cast<std::size_t>(size_of(dtype_).value));
    store_from_double(dtype_, values, bytes.data());
    return bytes;
  }

  PhysicalGraph graph_;
  Communication communication_;
  std::vector<Rank> ranks_;
  Shape shape_;
  DType dtype_;
};

constexpr DType kTypes[] = {DType::kF64, DType::kF32, DType::kBF16, DType::kF16,
                            DType::kI64, DType::kI32, DType::kBool};

// Calls `check(members, extent)`: none, one, one less, equal, one more than members, and a prime.
template <typename Check>
void over_groups(const Check& check) {
  for (std::int64_t members = 1; members <= 5; ++members)
    for (const std::int64_t extent :
         {std::int64_t{0}, std::int64_t{1}, members - 1, members, members + 1, std::int64_t{7}})
      check(members, extent);
}

// Small enough for bf16 to hold every sum of five exactly.
struct Element {
  DType dtype;
  double operator()(std::size_t member, std::int64_t index) const {
    const std::int64_t value = (static_cast<std::int64_t>(member) * 7 + index * 3) % 11;
    return static_cast<double>(dtype == DType::kBool ? value % 2 : value);
  }
};

double reduced(DType dtype, ReduceOp op, std::int64_t members, std::int64_t index) {
  const Element element{dtype};
  double result = element(0, index);
  for (std::int64_t member = 1; member < members; ++member) {
    const double value = element(static_cast<std::size_t>(member), index);
    switch (op) {
      case ReduceOp::kSum:
        // Of flags the sum is "or".
        result = dtype == DType::kBool ? std::max(result, value) : result + value;
        break;
      case ReduceOp::kMax:
        result = std::max(result, value);
        break;
      case ReduceOp::kMin:
        result = std::min(result, value);
        break;
    }
  }
  return result;
}

TEST_CASE("after all_reduce every member holds the reduction") {
  over_groups([](std::int64_t members, std::int64_t extent) {
    for (const DType dtype : kTypes) {
      for (const auto& [op, words] : {std::pair(ReduceOp::kSum, "P(sum)"),
                                      {ReduceOp::kMax, "P(max)"},
                                      {ReduceOp::kMin, "P(min)"}}) {
        Exchange exchange(members, extent, Primitive::kAllReduce, words, "B", dtype, op);
        const auto found = exchange.run(Element{dtype});
        const ReduceOp reduce = op;
        const auto expected =
            exchange.values_of(exchange.box(1, 0), 0, [&](std::size_t, std::int64_t index) {
              return reduced(dtype, reduce, members, index);
            });
        for (const auto& values : found) CHECK(values == expected);
        // r -> r+1: 2 X - chunk r - chunk (r+1), chunks balanced parts of the flat buffer.
        const std::int64_t total = exchange.elements(), size = size_of(dtype).value;
        for (std::int64_t r = 0; r < members && members > 1; ++r) {
          const std::int64_t next = (r + 1) % members;
          const std::int64_t chunks =
              balanced_part(total, members, r).extent + balanced_part(total, members, next).extent;
          // Two members are each other's neighbour: still one direction per ordered pair.
          CHECK(
              exchange.bytes_from_to(static_cast<std::size_t>(r), static_cast<std::size_t>(next)) ==
              (2 * total - chunks) * size);
        }
      }
    }
  });
}

TEST_CASE("after reduce_scatter every member holds its part of the reduction") {
  over_groups([](std::int64_t members, std::int64_t extent) {
    for (const DType dtype : kTypes) {
      for (const char* to : {"S(0)", "S(1)"}) {
        Exchange exchange(members, extent, Primitive::kReduceScatter, "P(sum)", to, dtype);
        const auto found = exchange.run(Element{dtype});
        for (std::size_t member = 0; member < found.size(); ++member) {
          CHECK(found[member] == exchange.values_of(exchange.box(1, member), 0,
                                                    [&](std::size_t, std::int64_t index) {
                                                      return reduced(dtype, ReduceOp::kSum, members,
                                                                     index);
                                                    }));
          const std::size_t next = (member + 1) % found.size();
          if (members == 1) continue;
          // r -> r+1: X - chunk r.
          const std::int64_t chunk = exchange.box(1, member).local_shape().elements();
          CHECK(exchange.bytes_from_to(member, next) ==
                (exchange.elements() - chunk) * size_of(dtype).value);
        }
      }
    }
  });
}

TEST_CASE("after all_gather every member holds the global tensor") {
  over_groups([](std::int64_t members, std::int64_t extent) {
    for (const DType dtype : kTypes) {
      for (const char* from : {"S(0)", "S(1)"}) {
        Exchange exchange(members, extent, Primitive::kAllGather, from, "B", dtype);
        const auto global = [&](std::size_t, std::int64_t i) { return Element{dtype}(0, i); };
        const auto found = exchange.run(global);
        for (std::size_t member = 0; member < found.size(); ++member) {
          CHECK(found[member] == exchange.values_of(exchange.box(1, member), 0, global));
          const std::size_t next = (member + 1) % found.size();
          if (members == 1) continue;
          // r -> r+1: X - chunk (r+1).
          const std::int64_t chunk = exchange.box(0, next).local_shape().elements();
          CHECK(exchange.bytes_from_to(member, next) ==
                (exchange.elements() - chunk) * size_of(dtype).value);
        }
      }
    }
  });
}

TEST_CASE("all_to_all moves every element to its new place and leaves what is there") {
  over_groups([](std::int64_t members, std::int64_t extent) {
    for (const DType dtype : kTypes) {
      Exchange exchange(members, extent, Primitive::kAllToAll, "S(0)", "S(1)", dtype);
      const auto global = [&](std::size_t, std::int64_t i) { return Element{dtype}(0, i); };
      const auto found = exchange.run(global);
      for (std::size_t member = 0; member < found.size(); ++member) {
        CHECK(found[member] == exchange.values_of(exchange.box(1, member), 0, global));
        for (std::size_t source = 0; source < found.size(); ++source) {
          const Shard common = intersect(exchange.box(0, source), exchange.box(1, member));
          const std::int64_t moved =
              source == member || common.is_empty() ? 0 : common.local_shape().elements();
          CHECK(exchange.bytes_from_to(source, member) == moved * size_of(dtype).value);
        }
      }
    }
  });
}

TEST_CASE("a shift gives every part to the next member and counts it once") {
  for (std::int64_t members = 1; members <= 5; ++members)
    for (const std::int64_t extent : {std::int64_t{0}, members, 3 * members})
      for (const DType dtype : kTypes) {
        Exchange exchange(members, extent, Primitive::kShift, "S(0)", "S(0)", dtype);
        const auto found = exchange.run(Element{dtype});
        for (std::size_t member = 0; member < found.size(); ++member) {
          const std::size_t next = (member + 1) % found.size();
          const Shard sent = exchange.box(0, member);
          CHECK(found[next] == exchange.values_of(sent, member, Element{dtype}));
          if (members > 1)
            CHECK(exchange.bytes_from_to(member, next) ==
                  sent.local_shape().elements() * size_of(dtype).value);
        }
      }
  CHECK_THROWS_WITH_AS(
      Exchange(2, 3, Primitive::kShift, "S(0)", "S(0)", DType::kF32).run(Element{DType::kF32}),
      doctest::Contains("shift over S(0): its members hold 6 and 3 elements"), Error);
}

TEST_CASE("a collective that accumulates adds to its output") {
  Exchange gather(3, 5, Primitive::kAllGather, "S(0)", "B", DType::kF32);
  for (const auto& values : gather.run(Element{DType::kF32}, true))
    for (const double value : values) CHECK(value >= 100.0);
  Exchange sum(2, 2, Primitive::kAllReduce, "P(sum)", "B", DType::kF32);
  CHECK(sum.run([](std::size_t, std::int64_t) { return 1.0; }, true)[1] ==
        std::vector<double>(6, 102.0));
}

TEST_CASE("the order of reduction is the ring's") {
  // f32: 2^24 + 1 is 2^24, so the order shows. Part 0 of three members is (x1 + x2) + x0, part 1
  // (x2 + x0) + x1, part 2 (x0 + x1) + x2, with x = 2^24, 1, 1:
  // (1 + 1) + 2^24 = 2^24 + 2; (1 + 2^24) + 1 = 2^24; (2^24 + 1) + 1 = 2^24.
  Exchange exchange(3, 1, Primitive::kAllReduce, "P(sum)", "B", DType::kF32);
  const double large = 16777216.0;
  const auto found =
      exchange.run([&](std::size_t member, std::int64_t) { return member == 0 ? large : 1.0; });
  for (const auto& values : found) CHECK(values == std::vector<double>{large + 2, large, large});
}

TEST_CASE("bf16 reduces in float and rounds after each hop") {
  // 256 + 1 = 257 rounds to 256 in bf16 (even), twice.
  Exchange exchange(3, 1, Primitive::kReduceScatter, "P(sum)", "S(1)", DType::kBF16);
  const auto found =
      exchange.run([](std::size_t member, std::int64_t) { return member == 1 ? 256.0 : 1.0; });
  CHECK(found[0] == std::vector<double>{256});  // (256 + 1) + 1
  CHECK(found[1] == std::vector<double>{258});  // (1 + 1) + 256
}

}  // namespace
}  // namespace sextant::collectives_test
