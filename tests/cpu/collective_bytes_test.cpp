// Where collectives put bytes: counts that do not divide (G48), offsets beyond 2^31 (G49), outputs
// in the bytes of inputs (G50). Large tensors are walked without memory.
#include "backends/cpu/collectives.h"
#include "core/base/check.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace sextant::collective_bytes_test {
namespace {

// Box arithmetic is 64 bits wide from end to end: no product of two ints can come before.
static_assert(std::is_same_v<decltype(Interval{}.offset * Interval{}.extent), std::int64_t>);
static_assert(std::is_same_v<decltype(Shape{}[0] * Shape{}[0]), std::int64_t>);
static_assert(std::is_same_v<decltype(Shape{}.elements()), std::int64_t>);
static_assert(std::is_same_v<decltype(Bytes(0).value * Interval{}.extent), std::int64_t>);
static_assert(std::is_same_v<decltype(size_of(DType::kF32) * Interval{}.extent), Bytes>);
static_assert(std::is_same_v<decltype(balanced_part(1, 1, 0).offset), std::int64_t>);

// One communication over a line of devices; `to` may be another line.
struct Setting {
  PhysicalGraph graph;
  Communication communication;
  std::vector<Rank> members;

  Setting(Primitive primitive, const Shape& shape, const std::string& from, const std::string& to,
          std::int64_t size, ReduceOp reduce = ReduceOp::kSum, DType dtype = DType::kF32) {
    graph.placements.push_back(consecutive_placement({{"x", size}}));
    members = graph.placements[PlacementId(0)].ranks;
    graph.layouts.push_back({{shape, dtype}, parse_nd_sbp(from), PlacementId(0)});
    graph.layouts.push_back({{shape, dtype}, parse_nd_sbp(to), PlacementId(0)});
    communication.primitive = primitive;
    communication.reduce = reduce;
    communication.dtype = dtype;
    communication.from = LayoutId(0);
    communication.to = LayoutId(1);
  }

  // Moves the result to other devices.
  Setting& onto(std::vector<Rank> ranks) {
    const auto size = static_cast<std::int64_t>(ranks.size());
    graph.placements.push_back({{{"y", size}}, ranks});
    graph.layouts[LayoutId(1)].placement = PlacementId(1);
    for (const Rank rank : ranks)
      if (std::find(members.begin(), members.end(), rank) == members.end()) members.push_back(rank);
    return *this;
  }

  Shard box(std::size_t side, std::size_t member) const {
    const Layout& layout = graph.layouts[LayoutId(side)];
    const Placement& placement = graph.placements[layout.placement];
    const auto index = placement.index_of(members[member]);
    if (!index) return {std::vector<Interval>(layout.global.shape.rank())};
    return shard_of(layout.global.shape, layout.words, placement.hierarchy(),
                    placement.coordinates_of(*index));
  }
  void run(const std::vector<MemberBuffers>& buffers) {
    Traffic traffic;
    run_collective({&graph, &communication, members, buffers}, traffic);
  }
};

std::byte* bytes_of(float* values) { return reinterpret_cast<std::byte*>(values); }

// ---------------------------------------------------------------- counts

TEST_CASE("an all_reduce of any count sums every element, in place and from an odd start (G48)") {
  // 10556587 = 8 * 1319573 + 3: the last three elements are nobody's whole share.
  for (const std::int64_t count : {1, 7, 8191, 10556587}) {
    CAPTURE(count);
    Setting setting(Primitive::kAllReduce, Shape{count}, "P(sum)", "B", 8);
    std::vector<std::vector<float>> values;
    std::vector<MemberBuffers> buffers;
    for (int rank = 0; rank < 8; ++rank) {
      // One element before and one behind the tensor that nobody may touch.
      values.emplace_back(static_cast<std::size_t>(count) + 2, static_cast<float>(rank + 1));
      std::byte* start = bytes_of(values.back().data() + 1);
      buffers.push_back({start, start, false});
    }
    setting.run(buffers);
    for (int rank = 0; rank < 8; ++rank) {
      const std::vector<float>& found = values[static_cast<std::size_t>(rank)];
      const auto is_sum = [](float value) { return value == 36.0F; };
      CHECK(std::all_of(found.begin() + 1, found.end() - 1, is_sum));
      CHECK(found.front() == static_cast<float>(rank + 1));
      CHECK(found.back() == static_cast<float>(rank + 1));
    }
  }
}

// ---------------------------------------------------------------- offsets

struct Origin {
  std::size_t member = 0;
  std::int64_t offset = 0;
  auto operator<=>(const Origin&) const = default;
};

// Follows single bytes through the moves of a dry run.
class Trace {
 public:
  explicit Trace(const Setting& setting) {
    Traffic traffic;
    dry_run_collective(setting.graph, setting.communication, setting.members, traffic,
                       [&](const ByteMove& move) { moves_.push_back(move); });
  }

  // Bytes of inputs that make the byte at `offset` of the member's output.
  std::set<Origin> origins(std::size_t member, std::int64_t offset) const {
    return origins_of({ByteMove::Buffer::kOut, member, Bytes(offset)});
  }

 private:
  std::set<Origin> origins_of(const ByteMove::Place& place) const {
    std::set<Origin> found;
    for (const ByteMove& move : moves_) {
      if (move.to.buffer != place.buffer || move.to.index != place.index) continue;
      const std::int64_t inside = place.offset.value - move.to.offset.value;
      if (inside < 0 || inside >= move.size.value) continue;
      ByteMove::Place from = move.from;
      from.offset += Bytes(inside);
      if (from.buffer == ByteMove::Buffer::kIn) {
        CHECK(found.insert({from.index, from.offset.value}).second);
        continue;
      }
      found.merge(origins_of(from));
    }
    return found;
  }

  std::vector<ByteMove> moves_;
};

// Byte offset of a global index in a box, in 128 bits; nothing where the box does not hold it.
std::optional<std::int64_t> offset_of(const Shard& box, const Shape& shape, std::int64_t element,
                                      DType dtype) {
  __extension__ using Wide = __int128;
  std::vector<std::int64_t> at(shape.rank());
  for (std::size_t dim = shape.rank(); dim-- > 0; element /= shape[dim])
    at[dim] = element % shape[dim];
  Wide offset = 0;
  for (std::size_t dim = 0; dim < shape.rank(); ++dim) {
    const Interval& interval = box.dims[dim];
    if (at[dim] < interval.offset || at[dim] >= interval.end()) return std::nullopt;
    offset = offset * interval.extent + at[dim] - interval.offset;
  }
  return static_cast<std::int64_t>(offset * size_of(dtype).value);
}

// Every output byte of these elements comes from the right input bytes: of all members under a
// pending reduction, else of one.
void check_elements(const Setting& setting, const std::vector<std::int64_t>& elements) {
  const Shape& shape = setting.graph.layouts[LayoutId(0)].global.shape;
  const DType dtype = setting.communication.dtype;
  const bool reduces = setting.graph.layouts[LayoutId(0)].words[0].is_partial();
  const Trace trace(setting);
  for (const std::int64_t element : elements) {
    CAPTURE(element);
    std::set<Origin> holders;
    for (std::size_t member = 0; member < setting.members.size(); ++member)
      if (const auto held = offset_of(setting.box(0, member), shape, element, dtype))
        holders.insert({member, *held});
    REQUIRE(!holders.empty());
    for (std::size_t member = 0; member < setting.members.size(); ++member) {
      const auto wanted = offset_of(setting.box(1, member), shape, element, dtype);
      if (!wanted) continue;
      const std::set<Origin> found = trace.origins(member, *wanted);
      if (reduces) {
        CHECK(found == holders);
      } else {
        REQUIRE(found.size() == 1);
        CHECK(holders.contains(*found.begin()));
      }
    }
  }
}

TEST_CASE("600000000 f32 are gathered, scattered and reduced at the right offsets (G49)") {
  // 536870912 f32 are 2^31 bytes; the whole is 2.4 GB.
  const std::vector<std::int64_t> elements{0, 536870911, 536870912, 599999999};
  const Shape line{600000000};
  for (const std::int64_t ranks : {2, 7, 8}) {
    CAPTURE(ranks);
    check_elements(Setting(Primitive::kAllGather, line, "S(0)", "B", ranks), elements);
    check_elements(Setting(Primitive::kReduceScatter, line, "P(sum)", "S(0)", ranks), elements);
    check_elements(Setting(Primitive::kAllReduce, line, "P(sum)", "B", ranks), elements);
    check_elements(Setting(Primitive::kBroadcast, line, "B", "B", ranks), elements);
    Setting transfer(Primitive::kTransfer, line, "S(0)", "B", ranks);
    check_elements(transfer.onto({Rank(9), Rank(1)}), elements);
  }
}

TEST_CASE("boxes of more than 2^31 and 2^32 bytes and elements keep their offsets in any dim") {
  for (const DType dtype : {DType::kBool, DType::kBF16, DType::kF64}) {
    for (const Shape& shape :
         {Shape{5, 1, 1073741827}, Shape{3, 858993463, 2}, Shape{65537, 65537}}) {
      const std::int64_t all = shape.elements();
      const std::vector<std::int64_t> elements{0, (std::int64_t{1} << 31) - 1,
                                               std::int64_t{1} << 31, (std::int64_t{1} << 32) + 1,
                                               all - 1};
      const Shape rows{shape[0], all / shape[0]};
      CAPTURE(to_string(shape));
      for (const std::int64_t ranks : {2, 3}) {
        const auto check = [&](Primitive primitive, const Shape& tensor, const char* from,
                               const char* to, ReduceOp reduce) {
          check_elements(Setting(primitive, tensor, from, to, ranks, reduce, dtype), elements);
        };
        check(Primitive::kAllReduce, shape, "P(max)", "B", ReduceOp::kMax);
        check(Primitive::kAllToAll, rows, "S(0)", "S(1)", ReduceOp::kSum);
        check(Primitive::kAllGather, rows, "S(1)", "B", ReduceOp::kSum);
        check(Primitive::kReduceScatter, shape, "P(sum)", "S(0)", ReduceOp::kSum);
      }
    }
  }
}

TEST_CASE("a dry run counts the bytes of the real run") {
  for (const auto& [primitive, from, to] : {std::tuple(Primitive::kAllReduce, "P(sum)", "B"),
                                            {Primitive::kAllGather, "S(1)", "B"},
                                            {Primitive::kReduceScatter, "P(sum)", "S(0)"},
                                            {Primitive::kAllToAll, "S(0)", "S(1)"}}) {
    Setting setting(primitive, Shape{5, 7}, from, to, 3);
    std::vector<std::vector<float>> in(3, std::vector<float>(35, 1)), out = in;
    std::vector<MemberBuffers> buffers;
    for (std::size_t i = 0; i < 3; ++i)
      buffers.push_back({bytes_of(in[i].data()), bytes_of(out[i].data()), false});
    Traffic real, dry;
    run_collective({&setting.graph, &setting.communication, setting.members, buffers}, real);
    dry_run_collective(setting.graph, setting.communication, setting.members, dry,
                       [](const ByteMove&) {});
    CHECK(dry == real);
    CHECK(!dry.empty());
  }
}

// ---------------------------------------------------------------- in place

// One buffer per member, big enough for input and output; where each begins in it.
struct InPlace {
  std::vector<std::vector<float>> values;
  std::vector<MemberBuffers> buffers;
};

// Every member's buffer holds 100 * member + index before.
InPlace buffers_of(const Setting& setting, std::size_t count, const std::vector<std::size_t>& in_at,
                   const std::vector<std::size_t>& out_at) {
  InPlace made;
  for (std::size_t member = 0; member < setting.members.size(); ++member) {
    made.values.emplace_back(count);
    std::iota(made.values.back().begin(), made.values.back().end(),
              static_cast<float>(100 * member));
  }
  for (std::size_t member = 0; member < setting.members.size(); ++member)
    made.buffers.push_back({bytes_of(made.values[member].data() + in_at[member]),
                            bytes_of(made.values[member].data() + out_at[member]), false});
  return made;
}

TEST_CASE("an all_gather in place fills the others' parts around each member's own (G50)") {
  Setting setting(Primitive::kAllGather, Shape{5}, "S(0)", "B", 2);  // parts of 3 and 2
  InPlace made = buffers_of(setting, 6, {0, 3}, {0, 0});
  setting.run(made.buffers);
  CHECK(made.values[0] == std::vector<float>{0, 1, 2, 103, 104, 5});
  CHECK(made.values[1] == std::vector<float>{0, 1, 2, 103, 104, 105});
}

TEST_CASE("a reduce_scatter in place changes a member's own part and nothing else (G50)") {
  Setting setting(Primitive::kReduceScatter, Shape{5}, "P(sum)", "S(0)", 2);
  InPlace made = buffers_of(setting, 6, {0, 0}, {0, 3});
  setting.run(made.buffers);
  CHECK(made.values[0] == std::vector<float>{100, 102, 104, 3, 4, 5});
  CHECK(made.values[1] == std::vector<float>{100, 101, 102, 106, 108, 105});
}

TEST_CASE("an all_reduce in place changes the tensor and nothing else (G50)") {
  Setting setting(Primitive::kAllReduce, Shape{4}, "P(sum)", "B", 3);
  InPlace made = buffers_of(setting, 6, {1, 1, 1}, {1, 1, 1});
  setting.run(made.buffers);
  // 100 + 200 + three times the index.
  for (std::size_t member = 0; member < 3; ++member) {
    const auto before = static_cast<float>(100 * member);
    CHECK(made.values[member] == std::vector<float>{before, 303, 306, 309, 312, before + 5});
  }
}

TEST_CASE("an all_to_all in place exchanges boxes of one size (G50)") {
  Setting setting(Primitive::kAllToAll, Shape{2, 2}, "S(0)", "S(1)", 2);
  InPlace made = buffers_of(setting, 3, {0, 0}, {0, 0});
  setting.run(made.buffers);
  CHECK(made.values[0] == std::vector<float>{0, 100, 2});
  CHECK(made.values[1] == std::vector<float>{1, 101, 102});
}

TEST_CASE("a broadcast in place leaves its root alone, whichever member it is (G50)") {
  for (const std::size_t root : {0, 1, 2}) {
    Setting setting(Primitive::kBroadcast, Shape{2}, "B", "B", 3);
    std::rotate(setting.members.begin(),
                setting.members.begin() + static_cast<std::ptrdiff_t>(root), setting.members.end());
    InPlace made = buffers_of(setting, 3, {0, 0, 0}, {0, 0, 0});
    setting.run(made.buffers);
    for (std::size_t member = 0; member < 3; ++member)
      CHECK(made.values[member] == std::vector<float>{0, 1, static_cast<float>(100 * member + 2)});
  }
}

TEST_CASE("a gather to one rank works in place, whichever it is, and spares the others (G50)") {
  for (const std::size_t root : {0, 1}) {
    Setting setting(Primitive::kTransfer, Shape{2}, "S(0)", "B", 2);
    setting.onto({Rank(root)});
    // Each rank holds its one element at its place in the whole.
    std::vector<std::vector<float>> values{{10, -1}, {-1, 20}};
    std::vector<MemberBuffers> buffers;
    for (std::size_t member = 0; member < 2; ++member)
      buffers.push_back({bytes_of(values[member].data() + member),
                         member == root ? bytes_of(values[member].data()) : nullptr, false});
    const std::vector<float> other = values[1 - root];
    setting.run(buffers);
    CHECK(values[root] == std::vector<float>{10, 20});
    CHECK(values[1 - root] == other);
  }
}

// ---------------------------------------------------------------- with memory

// MemAvailable in bytes; 0 where the system does not say.
std::int64_t available_memory() {
  std::ifstream info("/proc/meminfo");
  std::string name, unit;
  for (std::int64_t kib = 0; info >> name >> kib; std::getline(info, unit))
    if (name == "MemAvailable:") return kib * 1024;
  return 0;
}

float value_at(std::int64_t element) { return static_cast<float>(element % 8191); }

// Not in the normal run: `cpu_kernels_test --no-skip -ts=long`.
TEST_SUITE("long" * doctest::skip()) {
  TEST_CASE("2.4 GB are scattered and gathered with memory (G49)") {
    constexpr std::int64_t kCount = 600000000;
    constexpr std::int64_t kNeeded = 9LL << 30;
    if (available_memory() < kNeeded) {
      MESSAGE("skipped: needs 9 GiB of free memory");
      return;
    }
    Setting scatter(Primitive::kReduceScatter, Shape{kCount}, "P(sum)", "S(0)", 2);
    Setting gather(Primitive::kAllGather, Shape{kCount}, "S(0)", "B", 2);
    std::vector<std::vector<float>> values(2);
    std::vector<MemberBuffers> scattered, gathered;
    for (std::size_t member = 0; member < 2; ++member) {
      values[member].resize(kCount);
      for (std::int64_t i = 0; i < kCount; ++i)
        values[member][static_cast<std::size_t>(i)] = value_at(i);
      std::byte* whole = bytes_of(values[member].data());
      std::byte* own = bytes_of(values[member].data() + member * (kCount / 2));
      scattered.push_back({whole, own, false});
      gathered.push_back({own, whole, false});
    }
    scatter.run(scattered);
    gather.run(gathered);
    for (const std::vector<float>& found : values)
      for (const std::int64_t element :
           {std::int64_t{0}, std::int64_t{536870911}, std::int64_t{536870912}, kCount - 1})
        CHECK(found[static_cast<std::size_t>(element)] == 2 * value_at(element));
  }
}

}  // namespace
}  // namespace sextant::collective_bytes_test
