// Every boxing plan runs: executed on CPU devices it gives the global tensor, compared with ==, and
// moves, between each two ranks, the bytes that planner and simulator say. All pairs of words
// inline in one element type; element types, queues and placements in a seeded sample that has
// every combination with every kind of pair. Once more by scripts, as libraries of collectives run.
#include "tests/conformance/operators/boxing_runner.h"
#include "tests/conformance/operators/sharding.h"
#include "tests/support/long_run.h"
#include "tests/support/mesh_words.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <utility>

namespace sextant::boxing_matrix_test {
namespace {

using testing::words_over;

const Sbp kRows = Sbp::split(0), kColumns = Sbp::split(1), kLast = Sbp::split(2);
const Sbp kCopy = Sbp::broadcast(), kSum = Sbp::partial();
const Sbp kMost = Sbp::partial(ReduceOp::kMax), kLeast = Sbp::partial(ReduceOp::kMin);

CpuOptions options_of(CpuQueueKind queues) {
  CpuOptions options;
  options.queues = queues;
  options.max_delay_us = 50;
  options.rendezvous_timeout_ms = 20'000;
  options.memory = Bytes(std::int64_t{1} << 31);  // given, so that no case asks the machine
  return options;
}

// Runs cases and says how many there were, and how long they took.
class Sweep {
 public:
  Sweep() : begin_(std::chrono::steady_clock::now()) {}
  ~Sweep() {
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin_;
    MESSAGE(cases_ << " cases in " << time.count() << " s");
  }
  Sweep(const Sweep&) = delete;
  Sweep& operator=(const Sweep&) = delete;

  void run(const BoxingCase& boxing, std::span<const BoxingStep> steps) {
    ++cases_;
    const std::string fault = fault_of(boxing, steps, options_of(CpuQueueKind::kInline));
    REQUIRE_MESSAGE(fault.empty(), fault);
  }
  void run(const BoxingCase& boxing, CpuQueueKind queues = CpuQueueKind::kInline) {
    run_with(boxing, options_of(queues));
  }
  void run_with(const BoxingCase& boxing, const CpuOptions& options) {
    ++cases_;
    const std::string fault =
        fault_of(boxing, options, options.queues == CpuQueueKind::kInline ? 1 : 2);
    REQUIRE_MESSAGE(fault.empty(), fault);
  }

 private:
  int cases_ = 0;
  std::chrono::steady_clock::time_point begin_;
};

Placement mesh(const std::vector<std::int64_t>& extents, std::vector<Rank> ranks) {
  Placement placement{{}, std::move(ranks)};
  for (std::size_t axis = 0; axis < extents.size(); ++axis)
    placement.axes.push_back({std::string(1, static_cast<char>('x' + axis)), extents[axis]});
  return placement;
}

std::vector<Rank> counted(std::int64_t first, std::int64_t count) {
  std::vector<Rank> ranks;
  for (std::int64_t rank = first; rank < first + count; ++rank)
    ranks.push_back(Rank(static_cast<int>(rank)));
  return ranks;
}

// Extents around the number of parts: none, one, one less, equal, one more, a prime.
std::vector<Shape> shapes_around(std::int64_t n) {
  return {Shape{7, n + 1, n - 1}, Shape{n, 1, 7}, Shape{n + 1, n, 2},
          Shape{1, 7, n + 1},     Shape{0, n, 7}, Shape{n - 1, 5, 1}};
}

// Extents from none to a prime.
void sweep_lines(const CpuOptions& options) {
  Sweep sweep;
  const std::vector<NdSbp> words = words_over({kRows, kColumns, kLast, kCopy, kSum, kMost}, 1);
  for (std::int64_t n = 1; n <= 8; ++n)
    for (const NdSbp& from : words)
      for (const NdSbp& to : words)
        for (const Shape& shape : shapes_around(n)) {
          const Placement line = mesh({n}, counted(0, n));
          sweep.run_with({{shape, DType::kF32}, line, line, from, to}, options);
        }
}

TEST_CASE("all 36 pairs of words run right on one to eight devices, extents from none to a prime") {
  sweep_lines(options_of(CpuQueueKind::kInline));
}

TEST_CASE("all 36 pairs of words run right for a tensor larger than any mesh") {
  Sweep sweep;
  const std::vector<NdSbp> words = words_over({kRows, kColumns, kLast, kCopy, kSum, kMost}, 1);
  for (const std::int64_t n : {3, 8})
    for (const NdSbp& from : words)
      for (const NdSbp& to : words) {
        const Placement line = mesh({n}, counted(0, n));
        sweep.run({{Shape{101, 13, 17}, DType::kF32}, line, line, from, to});
      }
}

// Pairs of words on one mesh, every `stride`-th; each with one of the shapes, or with all.
struct MeshSweep {
  bool all_shapes = false;
  std::size_t stride = 1;
  CpuOptions options = options_of(CpuQueueKind::kInline);
};
void sweep_mesh(const std::vector<std::int64_t>& extents, const MeshSweep& how = {}) {
  Sweep sweep;
  const std::vector<Shape> shapes{Shape{7, 5}, Shape{2, 9}, Shape{13, 1}, Shape{4, 6}, Shape{0, 3}};
  std::int64_t devices = 1;
  for (const std::int64_t extent : extents) devices *= extent;
  const Placement placement = mesh(extents, counted(0, devices));
  std::size_t pair = 0, next = 0;
  for (const NdSbp& from : words_over({kRows, kColumns, kCopy, kSum}, extents.size()))
    for (const NdSbp& to : words_over({kRows, kColumns, kCopy, kSum}, extents.size())) {
      if (pair++ % how.stride != 0) continue;
      ++next;
      for (std::size_t i = 0; i < shapes.size(); ++i)
        if (how.all_shapes || i == next % shapes.size())
          sweep.run_with({{shapes[i], DType::kF32}, placement, placement, from, to}, how.options);
    }
}

TEST_CASE("all 256 pairs of words run right on 2x2, for every shape") {
  sweep_mesh({2, 2}, {.all_shapes = true});
}
TEST_CASE("all 256 pairs of words run right on 2x3") { sweep_mesh({2, 3}); }
TEST_CASE("all 256 pairs of words run right on 3x2") { sweep_mesh({3, 2}); }
TEST_CASE("all 256 pairs of words run right on 4x2") { sweep_mesh({4, 2}); }
TEST_CASE("all 4096 pairs of words run right on 2x2x2") { sweep_mesh({2, 2, 2}); }

// Splits of one dim in either order of nesting (G06), beside everything else.
void sweep_nested_splits(const CpuOptions& options) {
  Sweep sweep;
  std::vector<NdSbp> words = words_over({kRows, kCopy, kSum}, 2);
  words.push_back({Sbp::split(0, 2), Sbp::split(0, 1)});
  words.push_back({kLeast, kLeast});
  words.push_back({kLeast, kRows});
  const Placement placement = mesh({2, 3}, counted(0, 6));
  for (const NdSbp& from : words)
    for (const NdSbp& to : words)
      for (const Shape& shape : {Shape{7}, Shape{5, 2}, Shape{3, 4}})
        sweep.run_with({{shape, DType::kI32}, placement, placement, from, to}, options);
}

TEST_CASE("all pairs of words with nested splits run right on 2x3, in either order") {
  sweep_nested_splits(options_of(CpuQueueKind::kInline));
}

// ---------------------------------------------------------------- placements

enum class Relation { kSame, kPermuted, kSubset, kSuperset, kOverlapping, kDisjoint };
constexpr Relation kRelations[] = {Relation::kSame,        Relation::kPermuted,
                                   Relation::kSubset,      Relation::kSuperset,
                                   Relation::kOverlapping, Relation::kDisjoint};

void shuffle(std::vector<Rank>& ranks, Random& random) {
  for (std::size_t i = ranks.size(); i > 1; --i)
    std::swap(ranks[i - 1],
              ranks[static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(i) - 1))]);
}

// Extents of a mesh of `devices`: one, two or three axes, some of extent 1.
std::vector<std::int64_t> random_extents(std::int64_t devices, Random& random) {
  std::vector<std::int64_t> extents;
  while (extents.size() < 2) {
    std::vector<std::int64_t> divisors;
    for (std::int64_t d = 1; d <= devices; ++d)
      if (devices % d == 0) divisors.push_back(d);
    const std::int64_t extent = divisors[static_cast<std::size_t>(
        random.integer(0, static_cast<std::int64_t>(divisors.size()) - 1))];
    extents.push_back(extent);
    devices /= extent;
    if (devices == 1 && random.integer(0, 3) > 0) return extents;
  }
  if (devices > 1) extents.push_back(devices);
  return extents;
}

struct Places {
  Placement source, target;
};

// Two placements in this relation, of at most 12 devices together.
Places random_places(Relation relation, Random& random) {
  const std::int64_t many = random.integer(2, 8);
  const std::int64_t few = random.integer(1, many - 1);
  const std::int64_t common = random.integer(1, few);
  std::vector<Rank> source = counted(0, many), target = source;
  switch (relation) {
    case Relation::kSame:
      break;
    case Relation::kPermuted:
      shuffle(target, random);
      if (target == source) std::swap(target.front(), target.back());
      break;
    case Relation::kSubset:
    case Relation::kSuperset:
      shuffle(target, random);
      target.resize(static_cast<std::size_t>(few));
      if (relation == Relation::kSuperset) std::swap(source, target);
      break;
    case Relation::kOverlapping:
      // The last `common` of the source and at least one more.
      target = counted(many - common, common + random.integer(1, 4));
      if (common == many) source.push_back(Rank(11));
      shuffle(target, random);
      break;
    case Relation::kDisjoint:
      target = counted(many, random.integer(1, 12 - many));
      break;
  }
  if (relation == Relation::kSame) {
    // Half of the time the very same mesh.
    const auto extents = random_extents(many, random);
    return {mesh(extents, source),
            mesh(random.integer(0, 1) == 0 ? extents : random_extents(many, random), target)};
  }
  return {mesh(random_extents(static_cast<std::int64_t>(source.size()), random), source),
          mesh(random_extents(static_cast<std::int64_t>(target.size()), random), target)};
}

void sweep_relations(const CpuOptions& options) {
  Sweep sweep;
  const std::vector<NdSbp> words = words_over({kRows, kColumns, kLast, kCopy, kSum, kMost}, 1);
  Random random("boxing between lines");
  for (const Relation relation : kRelations)
    for (const NdSbp& from : words)
      for (const NdSbp& to : words)
        for (int time = 0; time < 4; ++time) {
          Places places = random_places(relation, random);
          for (Placement* side : {&places.source, &places.target})
            side->axes = {{"x", side->size()}};
          const std::vector<Shape> shapes = shapes_around(places.source.size());
          const Shape& shape = shapes[static_cast<std::size_t>(random.integer(0, 5))];
          sweep.run_with({{shape, DType::kF32}, places.source, places.target, from, to}, options);
        }
}

TEST_CASE("all 36 pairs of words run right between placements in every relation") {
  sweep_relations(options_of(CpuQueueKind::kInline));
}

// ---------------------------------------------------------------- the covering sample

constexpr DType kTypes[] = {DType::kF32, DType::kBF16, DType::kF16,
                            DType::kI32, DType::kI64,  DType::kBool};
constexpr CpuQueueKind kQueues[] = {CpuQueueKind::kInline, CpuQueueKind::kAsynchronous,
                                    CpuQueueKind::kStress};

// What a pair does on the first axis; the other axes are random.
using PairKind = std::pair<Sbp, Sbp>;
std::vector<PairKind> pair_kinds() {
  std::vector<PairKind> kinds{{kRows, kColumns}};
  for (const Sbp& from : {kRows, kCopy, kSum, kMost})
    for (const Sbp& to : {kRows, kCopy, kSum, kMost}) kinds.emplace_back(from, to);
  kinds.emplace_back(kLeast, kColumns);
  kinds.emplace_back(kCopy, kLeast);
  return kinds;
}

// Words that begin with `first`; at most one reduction is pending.
NdSbp random_words(const Sbp& first, std::size_t axes, Random& random) {
  NdSbp words{first};
  Sbp partial = first.is_partial() ? first : random.integer(0, 1) == 0 ? kSum : kMost;
  while (words.size() < axes) {
    const Sbp choices[] = {kRows, kColumns, kLast, kCopy, partial};
    words.push_back(choices[random.integer(0, 4)]);
  }
  return words;
}

BoxingCase random_case(const PairKind& pair, DType dtype, Relation relation, Random& random) {
  const Places places = random_places(relation, random);
  const std::vector<Shape> shapes = shapes_around(random.integer(1, places.source.size()));
  return {{shapes[static_cast<std::size_t>(random.integer(0, 5))], dtype},
          places.source,
          places.target,
          random_words(pair.first, places.source.axes.size(), random),
          random_words(pair.second, places.target.axes.size(), random)};
}

void sweep_sample(const std::string& seed, CpuOptions (*options)(CpuQueueKind)) {
  Sweep sweep;
  Random random(seed);
  for (const PairKind& pair : pair_kinds())
    for (const DType dtype : kTypes)
      for (const CpuQueueKind queues : kQueues)
        for (const Relation relation : kRelations)
          sweep.run_with(random_case(pair, dtype, relation, random), options(queues));
}

TEST_CASE(
    "every kind of pair runs right in every element type, on every queue, between any placements") {
  sweep_sample("boxing sample", options_of);
}

// ---------------------------------------------------------------- by scripts

CpuOptions by_scripts(CpuQueueKind queues) {
  CpuOptions options = options_of(queues);
  options.collectives = CpuCollectives::kScripts;
  return options;
}

// Bytes are never added: no word is pending.
TEST_CASE("bytes move between all splits and copies, inside a placement and between two") {
  for (const CpuOptions& options :
       {options_of(CpuQueueKind::kInline), by_scripts(CpuQueueKind::kInline)}) {
    Sweep sweep;
    Random random("boxing of bytes");
    for (const NdSbp& from : words_over({kRows, kColumns, kCopy}, 2))
      for (const NdSbp& to : words_over({kRows, kColumns, kCopy}, 2)) {
        const Placement two_axes = mesh({2, 2}, counted(0, 4));
        sweep.run_with({{Shape{5, 6, 3}, DType::kU8}, two_axes, two_axes, from, to}, options);
      }
    for (const NdSbp& from : words_over({kRows, kColumns, kCopy}, 1))
      for (const NdSbp& to : words_over({kRows, kColumns, kCopy}, 1)) {
        const Placement source = mesh({2}, counted(0, 2)), target = mesh({3}, counted(2, 3));
        sweep.run_with({{Shape{5, 6, 3}, DType::kU8}, source, target, from, to}, options);
      }
  }
}

TEST_CASE("scripts run all 36 pairs of words right on one to eight devices") {
  sweep_lines(by_scripts(CpuQueueKind::kInline));
}

// The pairs themselves have all been run on 2x2x2 above; scripts run a fifth of those, every one in
// `./test.sh --long`. No list of words is a multiple of five, so every word is met on both sides.
TEST_CASE("scripts run all pairs of words right on meshes of two axes, and on 2x2x2") {
  MeshSweep how{.options = by_scripts(CpuQueueKind::kInline)};
  for (const std::vector<std::int64_t>& extents :
       {std::vector<std::int64_t>{2, 2}, {2, 3}, {3, 2}, {4, 2}})
    sweep_mesh(extents, how);
  how.stride = is_long_run() ? 1 : 5;
  sweep_mesh({2, 2, 2}, how);
}

TEST_CASE("scripts run nested splits right, and all pairs between placements in every relation") {
  sweep_nested_splits(by_scripts(CpuQueueKind::kInline));
  sweep_relations(by_scripts(CpuQueueKind::kInline));
}

TEST_CASE("scripts run every kind of pair right in every element type, between any placements") {
  sweep_sample("boxing by scripts", by_scripts);
}

TEST_CASE("plans that lost are right too, and so are those chosen by time") {
  Sweep sweep;
  Random random("boxing alternatives");
  for (const PairKind& pair : pair_kinds())
    for (const Relation relation : kRelations) {
      BoxingCase boxing = random_case(pair, DType::kF32, relation, random);
      for (const BoxingPlan& plan : plan_alternatives(boxing.request(), 8))
        sweep.run(boxing, plan.steps);
      boxing.objective = BoxingObjective::kTime;
      sweep.run(boxing);
    }
}

TEST_CASE("a boxing casts right on the way, from every element type to every other") {
  Sweep sweep;
  Random random("boxing casts");
  for (const DType from : kTypes)
    for (const DType to : kTypes) {
      if (from == to) continue;
      for (const PairKind& pair : pair_kinds()) {
        const Relation relation = kRelations[random.integer(0, 5)];
        BoxingCase boxing = random_case(pair, from, relation, random);
        boxing.to_dtype = to;
        sweep.run(boxing);
      }
    }
}

}  // namespace
}  // namespace sextant::boxing_matrix_test
