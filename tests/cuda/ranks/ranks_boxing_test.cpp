// The boxing matrix on ranks of GPUs, by scripts and both exchanges, on one card and on two: values
// compared with ==, bytes with the planner's; sums and NaN of the local exchange with the CPU's
// bits.
#include "actor/runtime.h"
#include "backends/cuda/cuda_backend.h"
#include "compiler/expand/boxing_graph.h"
#include "core/base/error.h"
#include "tests/conformance/operators/boxing_runner.h"
#include "tests/conformance/operators/sharding.h"
#include "tests/cuda/gpu.h"
#include "tests/cuda/ranks/rank_cards.h"
#include "tests/support/mesh_words.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sextant::ranks_boxing_test {
namespace {

using testing::words_over;

const Sbp kRows = Sbp::split(0), kColumns = Sbp::split(1), kLast = Sbp::split(2);
const Sbp kCopy = Sbp::broadcast(), kSum = Sbp::partial();
const Sbp kMost = Sbp::partial(ReduceOp::kMax), kLeast = Sbp::partial(ReduceOp::kMin);

BoxingBackend cpu() {
  CpuOptions options;
  options.queues = CpuQueueKind::kInline;
  return cpu_boxing_backend(options);
}

Placement mesh(const std::vector<std::int64_t>& extents, std::vector<Rank> ranks) {
  Placement placement{{}, std::move(ranks)};
  for (std::size_t axis = 0; axis < extents.size(); ++axis)
    placement.axes.push_back({std::string(1, static_cast<char>('x' + axis)), extents[axis]});
  return placement;
}

Placement line(std::initializer_list<int> ranks) {
  std::vector<Rank> listed;
  for (const int rank : ranks) listed.emplace_back(rank);
  return mesh({static_cast<std::int64_t>(listed.size())}, listed);
}

Placement counted_mesh(const std::vector<std::int64_t>& extents) {
  std::vector<Rank> ranks;
  const std::int64_t size =
      std::accumulate(extents.begin(), extents.end(), std::int64_t{1}, std::multiplies<>());
  for (std::int64_t rank = 0; rank < size; ++rank) ranks.emplace_back(static_cast<int>(rank));
  return mesh(extents, ranks);
}

// Of the cases, every which one is run (tests/conformance/README.md).
int sweep_every() {
  const char* every = std::getenv("SEXTANT_SWEEP_EVERY");
  return every == nullptr ? 1 : std::max(1, std::atoi(every));
}

// Runs cases and says how many there were, and how long they took.
class Sweep {
 public:
  explicit Sweep(const RankCards& cards) : cards_(cards) {}
  ~Sweep() {
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin_;
    MESSAGE(cards_.text() << ": " << cases_ << " cases in " << time.count() << " s");
  }
  void run(const BoxingCase& boxing, std::int64_t repetitions = 1) {
    if (listed_++ % every_ != 0) return;
    ++cases_;
    const std::string fault = fault_on(cards_.boxing(), boxing, repetitions);
    REQUIRE_MESSAGE(fault.empty(), fault);
  }

 private:
  const RankCards& cards_;
  const int every_ = sweep_every();
  int listed_ = 0, cases_ = 0;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

void sweep_pairs(const RankCards& cards, std::initializer_list<std::int64_t> sizes) {
  Sweep sweep(cards);
  const std::vector<NdSbp> words = words_over({kRows, kColumns, kLast, kCopy, kSum, kMost}, 1);
  std::size_t next = 0;
  for (const std::int64_t n : sizes) {
    const std::vector<Shape> shapes{Shape{7, n + 1, n - 1}, Shape{n, 2 * n, n}, Shape{0, n, 7},
                                    Shape{n - 1, 5, 1}, Shape{2 * n, n, 3}};
    for (const NdSbp& from : words)
      for (const NdSbp& to : words)
        sweep.run({{shapes[next++ % shapes.size()], DType::kF32},
                   counted_mesh({n}),
                   counted_mesh({n}),
                   from,
                   to});
  }
}

using Places = std::vector<std::pair<Placement, Placement>>;

// Each `every`-th case: strides that share no factor with the numbers of words and types.
void sweep_types(const RankCards& cards, const Places& places, std::size_t every) {
  Sweep sweep(cards);
  const std::vector<Sbp> words{kRows, kColumns, kCopy, kSum, kMost, kLeast};
  std::size_t next = 0, listed = 0;
  for (const DType dtype :
       {DType::kF32, DType::kBF16, DType::kF16, DType::kI32, DType::kI64, DType::kBool})
    for (const Sbp& from : words)
      for (const Sbp& to : words) {
        // One reduction at most is pending.
        if (from.is_partial() && to.is_partial() && from.reduce != to.reduce) continue;
        if (listed++ % every != 0) continue;
        const auto& [source, target] = places[next++ % places.size()];
        sweep.run({{Shape{5, 6, 2}, dtype}, source, target, {from}, {to}}, next % 4 == 0 ? 3 : 1);
      }
}

bool same_bits(double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); }

// A value that a sum of floats rounds, with NaN among those that are compared.
std::vector<Piece> pieces_that_round(const BoxingCase& boxing, bool has_nans) {
  std::vector<Piece> pieces = pieces_on_source(boxing, small_integers(boxing.type));
  for (std::size_t device = 0; device < pieces.size(); ++device)
    for (std::size_t i = 0; i < pieces[device].values.size(); ++i) {
      double& value = pieces[device].values[i];
      value = (value + 30.0 * static_cast<double>(device) + 1) / 3;
      if (has_nans && (i + device) % 11 == 0) value = std::nan("");
    }
  return pieces;
}

// How many NaN there are; both hold the same.
std::int64_t check_same(const BoxingOutcome& found, const BoxingOutcome& expected) {
  REQUIRE(found.pieces.size() == expected.pieces.size());
  std::int64_t nans = 0;
  for (std::size_t device = 0; device < found.pieces.size(); ++device) {
    const std::vector<double>& a = found.pieces[device].values;
    const std::vector<double>& b = expected.pieces[device].values;
    nans += std::count_if(b.begin(), b.end(), [](double value) { return std::isnan(value); });
    CHECK(std::equal(a.begin(), a.end(), b.begin(), b.end(), same_bits));
  }
  return nans;
}

}  // namespace

TEST_CASE("all 36 pairs of words run right on 2, 4 and 8 ranks of one GPU" *
          doctest::skip(!has_gpu())) {
  sweep_pairs(kOneCard, {2, 4, 8});
}

TEST_CASE("all 36 pairs of words run right on 2 and 4 ranks of two GPUs" *
          doctest::skip(!has_gpus(2))) {
  sweep_pairs(kTwoCards, {2, 4});
}

TEST_CASE("all 36 pairs of words run right on two GPUs by NCCL" * doctest::skip(!has_gpus(2))) {
  sweep_pairs(kTwoCardsNccl, {2});
}

TEST_CASE("pairs of words run right on meshes of 2x2, 2x3, 4x2 and 2x2x2 ranks of one GPU" *
          doctest::skip(!has_gpu())) {
  Sweep sweep(kOneCard);
  const std::vector<Shape> shapes{Shape{7, 5}, Shape{4, 8}, Shape{13, 1}, Shape{4, 6}, Shape{0, 3}};
  std::size_t next = 0;
  // A sample: strides that share no factor with the count of words.
  const auto sweep_mesh = [&](const std::vector<std::int64_t>& extents, std::size_t every) {
    const std::vector<NdSbp> words = words_over({kRows, kColumns, kCopy, kSum}, extents.size());
    for (const NdSbp& from : words)
      for (const NdSbp& to : words)
        if (++next % every == 0)
          sweep.run({{shapes[next / every % shapes.size()], DType::kF32},
                     counted_mesh(extents),
                     counted_mesh(extents),
                     from,
                     to});
  };
  sweep_mesh({2, 2}, 1);
  sweep_mesh({2, 3}, 1);
  sweep_mesh({4, 2}, 1);
  sweep_mesh({2, 2, 2}, 7);
}

TEST_CASE("every element type runs right between placements in every relation on one GPU" *
          doctest::skip(!has_gpu())) {
  sweep_types(kOneCard,
              {{line({0, 1, 2}), line({0, 1, 2})},
               {line({0, 1, 2, 3}), line({3, 1, 0, 2})},
               {line({0, 1, 2, 3}), line({2, 0})},
               {line({1, 0}), line({0, 1, 2, 3, 4})},
               {line({0, 1, 2}), line({2, 3, 4})},
               {line({0, 1, 2}), line({3, 4})}},
              1);
}

TEST_CASE("every element type runs right between placements of two GPUs, by both exchanges" *
          doctest::skip(!has_gpus(2))) {
  const Places places{{line({0, 1}), line({0, 1})}, {line({0, 1}), line({1, 0})},
                      {line({1, 0}), line({0})},    {line({1}), line({0, 1})},
                      {line({0}), line({1})},       {line({1}), line({0})},
                      {line({0, 1}), line({0, 1})}};
  // A world of NCCL takes a third of a second to start.
  sweep_types(kTwoCardsNccl, places, 5);
  sweep_types(kTwoCards, places, 1);
}

TEST_CASE("sums of floats have the CPU's bits, and NaN survives maxima, on ranks of one GPU" *
          doctest::skip(!has_gpu())) {
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16})
    for (const std::int64_t n : {2, 3, 4})
      for (const auto& [from, to] : {std::pair(kSum, kCopy),
                                     {kSum, kRows},
                                     {kSum, kColumns},
                                     {kMost, kCopy},
                                     {kMost, kRows},
                                     {kLeast, kCopy}})
        for (const Shape& shape : {Shape{n, 2 * n, 3}, Shape{7, 5, 1}}) {
          const BoxingCase boxing{
              {shape, dtype}, counted_mesh({n}), counted_mesh({n}), {from}, {to}};
          CAPTURE(boxing.text());
          const std::vector<Piece> pieces = pieces_that_round(boxing, from != kSum);
          const std::vector<BoxingStep> steps = plan_boxing(boxing.request()).steps;
          const std::int64_t nans =
              check_same(run_boxing_on(kOneCard.boxing(), boxing, steps, pieces),
                         run_boxing_on(cpu(), boxing, steps, pieces));
          CHECK((nans > 0) == (from != kSum));
        }
}

// With two members a sum has one order, so rounding shows no difference either.
TEST_CASE("NCCL and the local exchange leave the same bits on two GPUs, NaN included" *
          doctest::skip(!has_gpus(2))) {
  std::size_t next = 0, listed = 0;
  const std::vector<Shape> shapes{Shape{4, 6, 3}, Shape{7, 5, 1}, Shape{257, 1031, 2}};
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16, DType::kI32,
                            DType::kI64, DType::kBool})
    for (const auto& [from, to] : {std::pair(kSum, kCopy),
                                   {kSum, kRows},
                                   {kMost, kCopy},
                                   {kLeast, kRows},
                                   {kRows, kColumns},
                                   {kColumns, kCopy}}) {
      // Every second of six, and of the next type the others.
      const std::size_t number = listed++;
      if ((number + number / 6) % 2 == 1) continue;
      const BoxingCase boxing{{shapes[next++ % shapes.size()], dtype},
                              counted_mesh({2}),
                              counted_mesh({2}),
                              {from},
                              {to}};
      CAPTURE(boxing.text());
      const bool has_nans = is_floating(dtype) && from.is_partial() && from != kSum;
      const std::vector<Piece> pieces = is_floating(dtype)
                                            ? pieces_that_round(boxing, has_nans)
                                            : pieces_on_source(boxing, small_integers(boxing.type));
      const std::vector<BoxingStep> steps = plan_boxing(boxing.request()).steps;
      const std::int64_t nans =
          check_same(run_boxing_on(kTwoCardsNccl.boxing(), boxing, steps, pieces),
                     run_boxing_on(kTwoCards.boxing(), boxing, steps, pieces));
      CHECK((nans > 0) == has_nans);
    }
}

// ---------------------------------------------------------------- refusals

namespace {

PhysicalGraph boxing_graph(std::int64_t ranks) {
  const BoxingCase boxing{
      {Shape{8, 8}, DType::kF32}, counted_mesh({ranks}), counted_mesh({ranks}), {kSum}, {kCopy}};
  return make_boxing_graph(boxing.request(), plan_boxing(boxing.request()).steps);
}

void check_refused(const PhysicalGraph& graph, const CudaWorldOptions& options, ErrorCode code,
                   std::initializer_list<const char*> words) {
  try {
    const CudaWorld world(graph, options);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.code() == code);
    for (const char* word : words)
      CHECK_MESSAGE(std::string(error.what()).find(word) != std::string::npos, error.what());
  }
}

}  // namespace

TEST_CASE("ranks without a place, GPUs twice and memory that ranks lack together are refused" *
          doctest::skip(!has_gpu())) {
  PhysicalGraph graph = boxing_graph(4);
  CudaWorldOptions options = kOneCard.options(4);
  options.ranks_per_gpu = 3;
  check_refused(graph, options, ErrorCode::kInfeasible, {"4 ranks", "--ranks-per-gpu 4"});
  options.gpus = {0, 0};
  check_refused(graph, options, ErrorCode::kUsage, {"twice"});
  options.gpus = {99};
  check_refused(graph, options, ErrorCode::kDevice, {"GPU 99"});
  // Each alone would fit on any card of the next years, all together on none.
  options = kOneCard.options(4);
  for (RankProgram& program : graph.programs) program.arena.size = Bytes(std::int64_t{1} << 45);
  check_refused(graph, options, ErrorCode::kInfeasible,
                {"ranks 0", "together need", "staging of communications", "too much"});
}

TEST_CASE("what NCCL cannot do, and memory that communicators lack, is refused" *
          doctest::skip(!has_gpus(2))) {
  PhysicalGraph graph = boxing_graph(4);
  check_refused(graph, kTwoCardsNccl.options(4), ErrorCode::kUsage,
                {"4 ranks share 2 GPUs", "--collectives local"});
  graph = boxing_graph(2);
  for (RankProgram& program : graph.programs) program.arena.size = Bytes(std::int64_t{1} << 45);
  check_refused(graph, kTwoCardsNccl.options(2), ErrorCode::kInfeasible,
                {"rank 0", "communicators", "too much"});
}

namespace {

class Nothing final : public HostActors {
 public:
  void act(const HostAct&) override {}
};

// Rank 0 runs alone: its peer never comes, or somebody says that it is gone.
void check_alone(const RankCards& cards, bool aborted) {
  CAPTURE(cards.text());
  CAPTURE(aborted);
  const PhysicalGraph graph = boxing_graph(2);
  CudaWorldOptions options = cards.options(2);
  options.timeout_ms = aborted ? 60'000 : 5'000;
  CudaWorld world(graph, options);
  Nothing host;
  RankRuntime alone(graph, Rank(0), *world.devices()[0], host);
  std::thread other;
  if (aborted)
    other = std::thread([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      world.abort("rank 1 is gone");
    });
  const auto begin = std::chrono::steady_clock::now();
  try {
    alone.run(1);
    alone.drain();
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kRankFailed);
    const std::string text = error.what();
    CHECK_MESSAGE(text.find(aborted ? "rank 1 is gone" : "ranks 1 did not") != std::string::npos,
                  text);
    CHECK_MESSAGE((aborted || text.find("communication 0 of group") != std::string::npos), text);
  }
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10));
  if (other.joinable()) other.join();
  alone.stop("the test is over");
}

}  // namespace

TEST_CASE("a rank that never comes ends the others in time, and an abort at once" *
          doctest::skip(!has_gpu())) {
  for (const bool aborted : {false, true}) check_alone(kOneCard, aborted);
}

TEST_CASE("kernels that wait on a card for a rank that never comes are ended" *
          doctest::skip(!has_gpus(2))) {
  for (const bool aborted : {false, true}) {
    check_alone(kTwoCards, aborted);
    check_alone(kTwoCardsNccl, aborted);
  }
  // Both cards are of use afterwards.
  const BoxingCase boxing{
      {Shape{8, 8}, DType::kF32}, counted_mesh({2}), counted_mesh({2}), {kSum}, {kCopy}};
  const std::string fault = fault_on(kTwoCardsNccl.boxing(), boxing);
  CHECK_MESSAGE(fault.empty(), fault);
}

}  // namespace sextant::ranks_boxing_test
