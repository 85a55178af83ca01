// Boxing plans: executed on small tensors they keep the global value, move exactly the bytes they
// say, and no other sequence of steps moves fewer.
#include "sbp/boxing.h"

#include "core/error.h"
#include "tests/sbp/boxing_oracle.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <limits>
#include <string>
#include <vector>

namespace sextant {
namespace {

Placement mesh(std::vector<std::int64_t> extents, int first = 0) {
  std::vector<MeshAxis> axes;
  for (const std::int64_t extent : extents)
    axes.push_back({"a" + std::to_string(axes.size()), extent});
  return consecutive_placement(std::move(axes), Rank(first));
}

// All words with `axes` letters from `alphabet`, plus, for two splits of one dim, the reverse
// nesting order.
std::vector<NdSbp> all_words(std::size_t axes, const std::vector<Sbp>& alphabet) {
  std::vector<NdSbp> words = {{}};
  for (std::size_t axis = 0; axis < axes; ++axis) {
    std::vector<NdSbp> longer;
    for (const NdSbp& prefix : words)
      for (const Sbp& word : alphabet) {
        longer.push_back(prefix);
        longer.back().push_back(word);
      }
    words = std::move(longer);
  }
  const std::size_t plain = words.size();
  for (std::size_t i = 0; i < plain; ++i)
    if (axes == 2 && words[i][0].is_split() && words[i][0] == words[i][1])
      words.push_back({Sbp::split(words[i][0].dim, 2), Sbp::split(words[i][0].dim, 1)});
  return words;
}

const std::vector<Sbp> kAlphabet = {Sbp::split(0), Sbp::split(1), Sbp::broadcast(), Sbp::partial()};

BoxingPlan plan_bytes(const Shape& shape, const Placement& from_placement, const NdSbp& from,
                      const Placement& to_placement, const NdSbp& to) {
  return plan_boxing({.type = {shape, DType::kI64},
                      .from_placement = &from_placement,
                      .to_placement = &to_placement,
                      .from = from,
                      .to = to,
                      .objective = BoxingObjective::kBytes});
}

std::int64_t volume_of(const BoxingStep& step, const Shape& shape, const Placement& from,
                       const Placement& to) {
  std::int64_t total = 0;
  for (const PairBytes& pair : reference_volume(step, {shape, DType::kI64}, from, to))
    total += pair.bytes.value;
  return total;
}

// Runs the plan; checks the values, the counted bytes and the chain of words.
void check_boxing(const Shape& shape, const Placement& from, const NdSbp& from_words,
                  const Placement& to, const NdSbp& to_words) {
  const BoxingPlan plan = plan_bytes(shape, from, from_words, to, to_words);
  std::mt19937_64 random(7);
  const oracle::Spread spread = oracle::spread(shape, from_words, from, random);
  oracle::Held held = spread.held;
  std::int64_t bytes = 0;
  bool on_target = from == to;
  NdSbp words = from_words;
  std::string text;
  for (const BoxingStep& step : plan.steps) {
    text += to_string(step) + "; ";
    REQUIRE(step.from == words);
    words = step.to;
    const bool transfers = step.kind == BoxingKind::kTransfer;
    const Placement& step_from = on_target ? to : from;
    on_target = on_target || transfers;
    const Placement& step_to = on_target ? to : from;
    oracle::Sent sent;
    held = oracle::execute(step, shape, held, step_from, step_to, sent);
    // What was sent is what the reference volume says, pair by pair.
    const auto volume = reference_volume(step, {shape, DType::kI64}, step_from, step_to);
    bool equal = volume.size() == sent.size();
    for (const PairBytes& pair : volume)
      equal = equal && sent.count({pair.source, pair.destination}) == 1 &&
              sent.at({pair.source, pair.destination}) * 8 == pair.bytes.value;
    if (!equal) FAIL("volume of " << to_string(step) << " on " << to_string(shape));
    for (const auto& [pair, elements] : sent) bytes += elements * 8;
  }
  const std::string wrong = oracle::complaint(spread.global, held, shape, to_words, to);
  if (!wrong.empty() || bytes != plan.total_bytes.value || !on_target)
    FAIL(to_string(from_words) << " -> " << to_string(to_words) << " on " << to_string(shape)
                               << to_string(from) << ": " << wrong << ", " << bytes << " bytes of "
                               << plan.total_bytes.value << ": " << text);
}

std::vector<std::int64_t> interesting_extents(std::int64_t parts) {
  std::vector<std::int64_t> extents = {0, 1, parts - 1, parts, parts + 1, 7};
  std::sort(extents.begin(), extents.end());
  extents.erase(std::unique(extents.begin(), extents.end()), extents.end());
  return extents;
}

TEST_CASE("boxing keeps the global value for all pairs of words on one axis") {
  const std::vector<NdSbp> words =
      all_words(1, {Sbp::split(0), Sbp::split(1), Sbp::split(2), Sbp::broadcast(), Sbp::partial(),
                    Sbp::partial(ReduceOp::kMax), Sbp::partial(ReduceOp::kMin)});
  int plans = 0;
  for (std::int64_t parts = 1; parts <= 8; ++parts)
    for (const std::int64_t rows : interesting_extents(parts))
      for (const std::int64_t columns : interesting_extents(parts))
        for (const NdSbp& from : words)
          for (const NdSbp& to : words) {
            check_boxing(Shape{rows, columns, 2}, mesh({parts}), from, mesh({parts}), to);
            ++plans;
          }
  CHECK(plans > 8000);
}

TEST_CASE("boxing keeps the global value for all pairs of words on two axes") {
  const std::vector<NdSbp> words = all_words(2, kAlphabet);
  REQUIRE(words.size() == 18);  // 16 and two with reversed nesting
  for (const auto& extents : {std::array<std::int64_t, 2>{2, 2}, {2, 3}, {3, 2}, {4, 2}, {1, 3}})
    for (const std::int64_t rows : interesting_extents(extents[0] * extents[1]))
      for (const std::int64_t columns : {std::int64_t{1}, extents[1] + 1})
        for (const NdSbp& from : words)
          for (const NdSbp& to : words) {
            const Placement placement = mesh({extents[0], extents[1]});
            check_boxing(Shape{rows, columns}, placement, from, placement, to);
          }
}

TEST_CASE("boxing keeps the global value for all pairs of words on three axes") {
  const std::vector<NdSbp> words = all_words(3, kAlphabet);
  const Placement placement = mesh({2, 2, 2});
  for (const NdSbp& from : words)
    for (const NdSbp& to : words) check_boxing(Shape{5, 3}, placement, from, placement, to);
}

TEST_CASE("boxing keeps the global value between disjoint placements") {
  const std::vector<std::vector<std::int64_t>> meshes = {{1}, {2}, {3}, {2, 2}, {2, 3}};
  for (const auto& source : meshes)
    for (const auto& target : meshes)
      for (const NdSbp& from : all_words(source.size(), kAlphabet))
        for (const NdSbp& to : all_words(target.size(), kAlphabet))
          for (const Shape& shape : {Shape{5, 3}, Shape{1, 7}, Shape{0, 2}})
            check_boxing(shape, mesh(source), from, mesh(target, 100), to);
}

TEST_CASE("scalars are boxed too") {
  for (const Sbp& from : {Sbp::broadcast(), Sbp::partial()})
    for (const Sbp& to : {Sbp::broadcast(), Sbp::partial(), Sbp::partial(ReduceOp::kMax)})
      for (const int first : {0, 10})
        check_boxing(Shape{}, mesh({3, 2}), {from, from}, mesh({3, 2}, first), {to, to});
}

// The devices of a step's group may mix what the words off the group axes keep apart. These rules
// say on boxes alone, without any notion of nesting, which steps keep the value.
class BruteForce {
 public:
  BruteForce(Shape shape, Placement placement, std::vector<NdSbp> words)
      : shape_(std::move(shape)), placement_(std::move(placement)), words_(std::move(words)) {
    const std::size_t n = words_.size();
    cost_.assign(n, std::vector<std::int64_t>(n, kFar));
    for (std::size_t a = 0; a < n; ++a)
      for (std::size_t b = 0; b < n; ++b) cost_[a][b] = a == b ? 0 : cheapest_step(a, b);
    for (std::size_t via = 0; via < n; ++via)
      for (std::size_t a = 0; a < n; ++a)
        for (std::size_t b = 0; b < n; ++b)
          cost_[a][b] = std::min(cost_[a][b], cost_[a][via] + cost_[via][b]);
  }

  std::int64_t cost(std::size_t from, std::size_t to) const { return cost_[from][to]; }

 private:
  static constexpr std::int64_t kFar = std::numeric_limits<std::int64_t>::max() / 4;

  Shard box(std::size_t device, const NdSbp& words) const {
    return shard_of(shape_, words, placement_.hierarchy(), placement_.coordinates_of(device));
  }
  static std::int64_t size(const Shard& box) { return box.local_shape().elements(); }

  std::int64_t cheapest_step(std::size_t a, std::size_t b) const {
    if (is_local(words_[a], words_[b])) return 0;
    std::int64_t best = kFar;
    for (std::size_t set = 1; set < (1U << placement_.axes.size()); ++set)
      for (const Primitive primitive : {Primitive::kAllGather, Primitive::kReduceScatter,
                                        Primitive::kAllReduce, Primitive::kAllToAll}) {
        BoxingStep step;
        step.kind = BoxingKind::kCollective;
        step.primitive = primitive;
        step.from = words_[a];
        step.to = words_[b];
        for (std::size_t axis = 0; axis < placement_.axes.size(); ++axis)
          if ((set >> axis & 1U) != 0) step.group_axes.push_back(axis);
        if (keeps_value(step))
          best = std::min(best, volume_of(step, shape_, placement_, placement_));
      }
    return best;
  }

  // Every device holds what it is to hold, or holds a slice of what becomes partial.
  bool is_local(const NdSbp& from, const NdSbp& to) const {
    for (std::size_t axis = 0; axis < from.size(); ++axis)
      if (from[axis].is_partial() && from[axis] != to[axis]) return false;
    // Seen through its new partial axes: the devices along them together hold the box once each.
    std::int64_t held = 0, wanted = 0;
    for (std::size_t device = 0; device < placement_.ranks.size(); ++device) {
      const Shard common = intersect(box(device, from), box(device, to));
      bool counts = true, first = true;
      for (std::size_t axis = 0; axis < from.size(); ++axis) {
        if (!to[axis].is_partial() || from[axis].is_partial()) continue;
        const bool at_zero = placement_.coordinates_of(device)[axis] == 0;
        first = first && at_zero;
        if (from[axis].is_broadcast()) counts = counts && at_zero;
      }
      if (counts) held += size(common);
      if (first) wanted += size(box(device, to));
    }
    return held == wanted;
  }

  bool keeps_value(const BoxingStep& step) const {
    for (std::size_t axis = 0; axis < step.from.size(); ++axis) {
      const bool in_group = std::count(step.group_axes.begin(), step.group_axes.end(), axis) == 1;
      const bool partial_before = step.from[axis].is_partial();
      const bool partial_after = step.to[axis].is_partial();
      const bool reduces =
          step.primitive == Primitive::kReduceScatter || step.primitive == Primitive::kAllReduce;
      if (in_group && (partial_before != reduces || partial_after)) return false;
      if (!in_group && partial_before != partial_after) return false;
      if (!in_group && !step.from[axis].is_split() != !step.to[axis].is_split()) return false;
    }
    for (const std::vector<Rank>& group :
         groups_of(step, {shape_, DType::kI64}, placement_, placement_))
      if (!group_keeps_value(step, group)) return false;
    return true;
  }

  bool group_keeps_value(const BoxingStep& step, const std::vector<Rank>& group) const {
    std::vector<Shard> from, to;
    for (const Rank rank : group) {
      from.push_back(box(rank.index(), step.from));
      to.push_back(box(rank.index(), step.to));
    }
    switch (step.primitive) {
      case Primitive::kAllGather:
        return are_equal(to) && are_parts(from, to.front());
      case Primitive::kReduceScatter:
        return are_equal(from) && are_parts(to, from.front());
      case Primitive::kAllReduce:
        return are_equal(from) && are_equal(to) && from.front() == to.front();
      case Primitive::kAllToAll:
        return std::all_of(to.begin(), to.end(),
                           [&](const Shard& wanted) { return covers(from, wanted); });
      case Primitive::kBroadcast:
      case Primitive::kTransfer:
        break;
    }
    return false;
  }

  static bool are_equal(const std::vector<Shard>& boxes) {
    return std::all_of(boxes.begin(), boxes.end(),
                       [&](const Shard& box) { return box == boxes.front(); });
  }
  // Disjoint parts that fill `all`: inside it, and their sizes add up.
  static bool are_parts(const std::vector<Shard>& parts, const Shard& all) {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (size(intersect(parts[i], all)) != size(parts[i])) return false;
      for (std::size_t j = 0; j < i; ++j)
        if (size(intersect(parts[i], parts[j])) != 0) return false;
      sum += size(parts[i]);
    }
    return sum == size(all);
  }
  bool covers(const std::vector<Shard>& boxes, const Shard& wanted) const {
    for (const std::int64_t i : oracle::indices_of(wanted, shape_)) {
      const bool found = std::any_of(boxes.begin(), boxes.end(), [&](const Shard& held) {
        const auto indices = oracle::indices_of(held, shape_);
        return std::binary_search(indices.begin(), indices.end(), i);
      });
      if (!found) return false;
    }
    return true;
  }

  Shape shape_;
  Placement placement_;
  std::vector<NdSbp> words_;
  std::vector<std::vector<std::int64_t>> cost_;
};

void check_minimal(const Shape& shape, const Placement& placement,
                   const std::vector<Sbp>& alphabet) {
  const std::vector<NdSbp> words = all_words(placement.axes.size(), alphabet);
  const BruteForce brute(shape, placement, words);
  for (std::size_t a = 0; a < words.size(); ++a)
    for (std::size_t b = 0; b < words.size(); ++b) {
      const BoxingPlan plan = plan_bytes(shape, placement, words[a], placement, words[b]);
      if (plan.total_bytes.value != brute.cost(a, b))
        FAIL_CHECK(to_string(words[a])
                   << " -> " << to_string(words[b]) << " of " << to_string(shape) << " on "
                   << to_string(placement) << ": " << plan.total_bytes.value << ", brute force "
                   << brute.cost(a, b));
    }
}

// The brute force has the triangle inequality built in, so the plans have it too.
TEST_CASE("no sequence of steps moves fewer bytes than the plan") {
  for (const auto& extents : {std::vector<std::int64_t>{3}, {2, 2}, {2, 3}})
    for (const Shape& shape : {Shape{5, 3}, Shape{7, 2}, Shape{4, 6}, Shape{1, 5}, Shape{0, 3}})
      check_minimal(shape, mesh(extents), kAlphabet);
  for (const Shape& shape : {Shape{5, 3, 2}, Shape{2, 1, 7}})
    check_minimal(shape, mesh({2, 3}),
                  {Sbp::split(0), Sbp::split(1), Sbp::split(2), Sbp::broadcast(), Sbp::partial()});
}

// The paper's table (02, "Boxing") with T = bytes of the tensor, p1 = producers, p2 = consumers.
TEST_CASE("bytes between one-dimensional placements are those of the paper's table") {
  const Shape shape{12, 12};
  const std::int64_t t = 144 * 8;
  const NdSbp s0 = {Sbp::split(0)}, s1 = {Sbp::split(1)}, b = {Sbp::broadcast()},
              p = {Sbp::partial()}, max = {Sbp::partial(ReduceOp::kMax)};
  for (const std::int64_t p1 : {1, 2, 3, 4, 6}) {
    const auto same = [&](const NdSbp& from, const NdSbp& to) {
      return plan_bytes(shape, mesh({p1}), from, mesh({p1}), to).total_bytes.value;
    };
    CHECK(same(s0, s0) == 0);
    CHECK(same(s0, s1) * p1 == (p1 - 1) * t);
    CHECK(same(s0, b) == (p1 - 1) * t);
    CHECK(same(s0, p) == 0);
    CHECK(same(b, s0) == 0);
    CHECK(same(b, b) == 0);
    CHECK(same(b, p) == 0);
    CHECK(same(p, s0) == (p1 - 1) * t);
    CHECK(same(p, b) == 2 * (p1 - 1) * t);
    CHECK(same(p, p) == 0);
    CHECK(same(p, max) == (p1 - 1) * t);
    for (const std::int64_t p2 : {1, 2, 3, 4}) {
      const auto apart = [&](const NdSbp& from, const NdSbp& to) {
        return plan_bytes(shape, mesh({p1}), from, mesh({p2}, 50), to).total_bytes.value;
      };
      CHECK(apart(s0, s0) == t);
      CHECK(apart(s0, s1) == t);
      CHECK(apart(s0, b) == p2 * t);
      CHECK(apart(s0, p) == t);
      CHECK(apart(b, s0) == t);
      CHECK(apart(b, b) == p2 * t);
      CHECK(apart(b, p) == t);
      CHECK(apart(p, s0) == p1 * t);
      CHECK(apart(p, b) == (p1 + p2 - 1) * t);
      CHECK(apart(p, p) == p1 * t);
    }
  }
}

std::string steps_text(const BoxingPlan& plan, const Placement& placement) {
  std::string text;
  for (const BoxingStep& step : plan.steps)
    text += (text.empty() ? "" : "; ") + to_string(step, placement);
  return text;
}

std::string steps_between(const char* from, const char* to, const Placement& placement,
                          const Shape& shape = Shape{8, 8}) {
  return steps_text(plan_bytes(shape, placement, parse_nd_sbp(from), placement, parse_nd_sbp(to)),
                    placement);
}

TEST_CASE("a change of one axis runs in the sub-groups of that axis") {
  const Placement placement = consecutive_placement({{"dp", 2}, {"tp", 2}});
  CHECK(steps_between("(S(0), P(sum))", "(S(0), B)", placement) ==
        "all_reduce over tp: (S(0), P(sum)) -> (S(0), B)");
  CHECK(steps_between("(P(sum), S(1))", "(S(0), S(1))", placement) ==
        "reduce_scatter over dp: (P(sum), S(1)) -> (S(0), S(1))");
  CHECK(steps_between("(S(0), S(1))", "(S(0), B)", placement) ==
        "all_gather over tp: (S(0), S(1)) -> (S(0), B)");
  CHECK(steps_between("(S(0), S(1))", "(S(0), S(0))", placement) ==
        "all_to_all over tp: (S(0), S(1)) -> (S(0), S(0))");
  // A nested split that ends on the dp axis: its gather stays a dp sub-group.
  CHECK(steps_between("(S(0)^2, S(0)^1)", "(B, S(0))", placement) ==
        "all_gather over dp: (S(0)^2, S(0)^1) -> (B, S(0))");
}

TEST_CASE("where no sub-group makes the change, one exchange over all axes does") {
  const Placement placement = consecutive_placement({{"dp", 2}, {"tp", 2}});
  CHECK(steps_between("(S(0)^2, S(0)^1)", "(S(0), S(0))", placement) ==
        "all_to_all over dp, tp: (S(0)^2, S(0)^1) -> (S(0), S(0))");
  CHECK(steps_between("(S(0), S(1))", "(S(1), S(0))", placement) ==
        "all_to_all over dp, tp: (S(0), S(1)) -> (S(1), S(0))");
}

TEST_CASE("neighbouring local steps are one step, and equal words need none") {
  const Placement placement = consecutive_placement({{"dp", 2}, {"tp", 2}});
  CHECK(steps_between("(B, B)", "(S(0), S(1))", placement) == "local: (B, B) -> (S(0), S(1))");
  CHECK(steps_between("(S(0), B)", "(S(0), B)", placement) == "");
  CHECK(steps_between("(S(0)^1, S(0)^2)", "(S(0), S(0))", placement) == "");
  // An axis of one device splits nothing.
  CHECK(steps_between("(P(sum), S(0))", "(S(1), S(0))",
                      consecutive_placement({{"dp", 1}, {"tp", 2}})) == "");
}

// Values 0..4 over 2 x 2, the model axis splits first: (d0,m0)=[0,1] (d1,m0)=[2] (d0,m1)=[3]
// (d1,m1)=[4]. Reading the words in axis order would gather 0,1,3,2,4.
TEST_CASE("G06: a split nested minor axis first gathers in the right order") {
  const Placement placement = consecutive_placement({{"data", 2}, {"model", 2}});
  const NdSbp words = {Sbp::split(0, 2), Sbp::split(0, 1)};
  oracle::Held held = {{{0, 0}, {1, 1}}, {{3, 3}}, {{2, 2}}, {{4, 4}}};
  const NdSbp whole = {Sbp::broadcast(), Sbp::broadcast()};
  oracle::Sent sent;
  for (const BoxingStep& step : plan_bytes(Shape{5}, placement, words, placement, whole).steps)
    held = oracle::execute(step, Shape{5}, held, placement, placement, sent);
  CHECK(oracle::complaint({0, 1, 2, 3, 4}, held, Shape{5}, whole, placement) == "");
}

// [5, 10] on 4 ranks: local rows 2, 1, 1, 1.
TEST_CASE("G01: an uneven split gathers to the same tensor") {
  check_boxing(Shape{5, 10}, mesh({4}), {Sbp::broadcast()}, mesh({4}), {Sbp::split(0)});
  check_boxing(Shape{5, 10}, mesh({4}), {Sbp::split(0)}, mesh({4}), {Sbp::broadcast()});
}

TEST_CASE("equal words on equal meshes are transferred between single pairs of ranks") {
  const Placement from = consecutive_placement({{"dp", 2}, {"tp", 2}});
  const Placement to = consecutive_placement({{"dp", 2}, {"tp", 2}}, Rank(4));
  for (const char* words : {"(S(0), B)", "(B, S(1))", "(B, B)", "(S(0), S(1))"}) {
    CAPTURE(words);
    const BoxingPlan plan =
        plan_bytes(Shape{8, 8}, from, parse_nd_sbp(words), to, parse_nd_sbp(words));
    REQUIRE(plan.steps.size() == 1);
    const auto groups = groups_of(plan.steps[0], {Shape{8, 8}, DType::kI64}, from, to);
    REQUIRE(groups.size() == 4);
    for (int i = 0; i < 4; ++i)
      CHECK(groups[static_cast<std::size_t>(i)] == std::vector<Rank>{Rank(i), Rank(4 + i)});
  }
}

TEST_CASE("a rank that has nothing to transfer is a group of its own") {
  // One row goes to the first device only.
  BoxingStep step;
  step.kind = BoxingKind::kTransfer;
  step.primitive = Primitive::kTransfer;
  step.from = {Sbp::split(0)};
  step.to = {Sbp::split(0)};
  const auto groups = groups_of(step, {Shape{1, 3}, DType::kI64}, mesh({2}), mesh({2}, 2));
  CHECK(groups == std::vector<std::vector<Rank>>{{Rank(0), Rank(2)}, {Rank(1)}, {Rank(3)}});
}

// Ring over 3 members of 7 elements, chunks 3, 2, 2 (i64, 8 bytes each). Reduce-scatter: member r
// sends all chunks but its own: 7-3, 7-2, 7-2 elements. All-gather: member r sends all chunks but
// its neighbour's: 7-2, 7-2, 7-3.
TEST_CASE("the volume of a ring is what each member sends to its neighbour") {
  const Placement ring = mesh({3});
  const auto volume = [&](Primitive primitive, Sbp from, Sbp to) {
    BoxingStep step;
    step.kind = BoxingKind::kCollective;
    step.primitive = primitive;
    step.from = {from};
    step.to = {to};
    step.group_axes = {0};
    std::vector<std::int64_t> bytes;
    for (const PairBytes& pair : reference_volume(step, {Shape{7}, DType::kI64}, ring, ring)) {
      CHECK(pair.destination.value == (pair.source.value + 1) % 3);
      bytes.push_back(pair.bytes.value);
    }
    return bytes;
  };
  using Sent = std::vector<std::int64_t>;
  CHECK(volume(Primitive::kReduceScatter, Sbp::partial(), Sbp::split(0)) == Sent{32, 40, 40});
  CHECK(volume(Primitive::kAllGather, Sbp::split(0), Sbp::broadcast()) == Sent{40, 40, 32});
  CHECK(volume(Primitive::kAllReduce, Sbp::partial(), Sbp::broadcast()) == Sent{72, 80, 72});
}

std::string refusal(const NdSbp& from, const Placement& a, const NdSbp& to, const Placement& b,
                    ErrorCode code) {
  try {
    plan_bytes(Shape{4, 4}, a, from, b, to);
  } catch (const Error& error) {
    CHECK(error.code() == code);
    return error.what();
  }
  return "planned";
}

TEST_CASE("what cannot be boxed is refused naming both sides") {
  const NdSbp s0 = {Sbp::split(0)}, b = {Sbp::broadcast()};
  const std::string overlap = refusal(s0, mesh({3}), b, mesh({3}, 2), ErrorCode::kInfeasible);
  CHECK(overlap.find("S(0)@[a0=3]") != std::string::npos);
  CHECK(overlap.find("B@[a0=3]") != std::string::npos);
  CHECK(overlap.find("share 1 devices") != std::string::npos);
  CHECK(refusal({Sbp::split(2)}, mesh({2}), b, mesh({2}), ErrorCode::kUsage).find("dim 2") !=
        std::string::npos);
  CHECK(refusal({Sbp::broadcast(), Sbp::broadcast()}, mesh({2}), b, mesh({2}), ErrorCode::kUsage)
            .find("2 words") != std::string::npos);
  CHECK(refusal({Sbp::partial(), Sbp::partial(ReduceOp::kMax)}, mesh({2, 2}),
                {Sbp::broadcast(), Sbp::broadcast()}, mesh({2, 2}), ErrorCode::kInfeasible)
            .find("two different reductions") != std::string::npos);
}

// Alpha 1 us per ring hop, 1 byte per ns: what a step costs is hops and bytes per member.
class HopModel : public NetworkModel {
 public:
  void complete(const CollectiveCost& cost, std::span<const Time> arrivals,
                std::span<Time> done) const override {
    const Time end = *std::max_element(arrivals.begin(), arrivals.end()) + duration(cost);
    std::fill(done.begin(), done.end(), end);
  }
  Duration duration(const CollectiveCost& cost) const override {
    const auto n = static_cast<std::int64_t>(cost.members.size());
    const std::int64_t hop = 1'000'000 + cost.global_bytes.value * 1000 / n;
    switch (cost.communication->primitive) {
      case Primitive::kAllReduce:
        return Duration(2 * (n - 1) * hop);
      case Primitive::kAllGather:
      case Primitive::kReduceScatter:
        return Duration((n - 1) * hop);
      case Primitive::kAllToAll:
        return Duration((n - 1) * 1'000'000 + cost.largest_volume.value * 1000);
      case Primitive::kBroadcast:
      case Primitive::kTransfer:
        return Duration(1'000'000 + cost.largest_volume.value * 1000);
    }
    return {};
  }
};

TEST_CASE("by time a small tensor is reduced in one step and a large one in shares") {
  // (P, B) on 4 x 2. One all_reduce over dp: 6 hops of 1 us + S/4 ns. Slicing over tp first moves
  // half of it but gathers again: 6 (1 us + S/8) + 1 us + S/2 (S = bytes, in ns). The first takes
  // 6 + 1.5 S, the second 7 + 1.25 S: equal at 4 us = 4000 bytes.
  const Placement placement = consecutive_placement({{"dp", 4}, {"tp", 2}});
  const HopModel network;
  const auto plan = [&](const Shape& shape) {
    return plan_boxing({.type = {shape, DType::kI64},
                        .from_placement = &placement,
                        .to_placement = &placement,
                        .from = {Sbp::partial(), Sbp::broadcast()},
                        .to = {Sbp::broadcast(), Sbp::broadcast()},
                        .objective = BoxingObjective::kTime,
                        .network = &network});
  };
  const BoxingPlan small = plan(Shape{64});  // 512 bytes
  CHECK(small.steps.size() == 1);
  CHECK(small.time == Duration(6 * (1'000'000 + 512'000 / 4)));
  const BoxingPlan large = plan(Shape{8000});  // 64000 bytes
  CHECK(large.steps.size() == 3);
  CHECK(large.time == Duration(6 * (1'000'000 + 32'000'000 / 4) + 1'000'000 + 64'000'000 / 2));
}

TEST_CASE("planning a pair takes tens of microseconds") {
  const Placement placement = consecutive_placement({{"dp", 16}, {"tp", 8}});
  const std::vector<NdSbp> words = all_words(2, kAlphabet);
  const std::clock_t begin = std::clock();  // of the processor: the machine may be busy
  int plans = 0;
  for (const NdSbp& from : words)
    for (const NdSbp& to : words) {
      plan_bytes(Shape{16, 1024, 2048}, placement, from, placement, to);
      ++plans;
    }
  const double each = 1e6 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC / plans;
  MESSAGE("microseconds per plan: " << each);
  // A hundred times what it takes: sanitizers are slow.
  CHECK(each < 10000);
}

}  // namespace
}  // namespace sextant
