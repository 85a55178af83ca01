// The boxing matrix on ranks that share one GPU, by scripts and the local exchange: values compared
// with ==, bytes with the planner's, sums and NaN with the CPU's bits.
#include "actor/runtime.h"
#include "backends/cuda/cuda_backend.h"
#include "compiler/boxing_graph.h"
#include "core/error.h"
#include "tests/conformance/boxing_runner.h"
#include "tests/conformance/sharding.h"
#include "tests/cuda/gpu.h"
#include "tests/support/mesh_words.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

namespace sextant::ranks_boxing_test {
namespace {

using testing::words_over;

const Sbp kRows = Sbp::split(0), kColumns = Sbp::split(1), kLast = Sbp::split(2);
const Sbp kCopy = Sbp::broadcast(), kSum = Sbp::partial();
const Sbp kMost = Sbp::partial(ReduceOp::kMax), kLeast = Sbp::partial(ReduceOp::kMin);

constexpr int kManyRanks = 64;

class CudaBoxingDevices final : public BoxingDevices {
 public:
  CudaBoxingDevices(const PhysicalGraph& graph, const CudaWorldOptions& options)
      : world_(graph, options) {}
  std::vector<Device*> devices() override { return world_.devices(); }
  std::vector<PairBytes> moved_bytes() const override { return world_.moved_bytes(); }

 private:
  CudaWorld world_;
};

CudaWorldOptions on_one_card() {
  CudaWorldOptions options;
  options.gpus = {0};
  options.ranks_per_gpu = kManyRanks;
  options.meeting_timeout_ms = 20'000;
  return options;
}

BoxingBackend one_card() {
  return {[](const PhysicalGraph& graph) {
            return std::make_unique<CudaBoxingDevices>(graph, on_one_card());
          },
          true};
}

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

// Runs cases and says how many there were, and how long they took.
class Sweep {
 public:
  ~Sweep() {
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin_;
    MESSAGE(cases_ << " cases in " << time.count() << " s");
  }
  void run(const BoxingCase& boxing, std::int64_t repetitions = 1) {
    ++cases_;
    const std::string fault = fault_on(one_card(), boxing, repetitions);
    REQUIRE_MESSAGE(fault.empty(), fault);
  }

 private:
  int cases_ = 0;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace

TEST_CASE("all 36 pairs of words run right on 2, 4 and 8 ranks of one GPU" *
          doctest::skip(!has_gpu())) {
  Sweep sweep;
  const std::vector<NdSbp> words = words_over({kRows, kColumns, kLast, kCopy, kSum, kMost}, 1);
  std::size_t next = 0;
  for (const std::int64_t n : {2, 4, 8}) {
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

TEST_CASE("pairs of words run right on meshes of 2x2, 2x3, 4x2 and 2x2x2 ranks of one GPU" *
          doctest::skip(!has_gpu())) {
  Sweep sweep;
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
  Sweep sweep;
  const std::vector<std::pair<Placement, Placement>> places{
      {line({0, 1, 2}), line({0, 1, 2})}, {line({0, 1, 2, 3}), line({3, 1, 0, 2})},
      {line({0, 1, 2, 3}), line({2, 0})}, {line({1, 0}), line({0, 1, 2, 3, 4})},
      {line({0, 1, 2}), line({2, 3, 4})}, {line({0, 1, 2}), line({3, 4})}};
  const std::vector<Sbp> words{kRows, kColumns, kCopy, kSum, kMost, kLeast};
  std::size_t next = 0;
  for (const DType dtype :
       {DType::kF32, DType::kBF16, DType::kF16, DType::kI32, DType::kI64, DType::kBool})
    for (const Sbp& from : words)
      for (const Sbp& to : words) {
        // One reduction at most is pending.
        if (from.is_partial() && to.is_partial() && from.reduce != to.reduce) continue;
        const auto& [source, target] = places[next++ % places.size()];
        sweep.run({{Shape{5, 6, 2}, dtype}, source, target, {from}, {to}}, next % 4 == 0 ? 3 : 1);
      }
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
          std::vector<Piece> pieces = pieces_on_source(boxing, small_integers(boxing.type));
          for (std::size_t device = 0; device < pieces.size(); ++device)
            for (std::size_t i = 0; i < pieces[device].values.size(); ++i) {
              double& value = pieces[device].values[i];
              value = (value + 30.0 * static_cast<double>(device) + 1) / 3;
              if (from != kSum && (i + device) % 11 == 0) value = std::nan("");
            }
          const std::vector<BoxingStep> steps = plan_boxing(boxing.request()).steps;
          const BoxingOutcome found = run_boxing_on(one_card(), boxing, steps, pieces);
          const BoxingOutcome expected = run_boxing_on(cpu(), boxing, steps, pieces);
          REQUIRE(found.pieces.size() == expected.pieces.size());
          std::int64_t nans = 0;
          for (std::size_t device = 0; device < found.pieces.size(); ++device) {
            const std::vector<double>& a = found.pieces[device].values;
            const std::vector<double>& b = expected.pieces[device].values;
            nans +=
                std::count_if(b.begin(), b.end(), [](double value) { return std::isnan(value); });
            CHECK(std::equal(a.begin(), a.end(), b.begin(), b.end(), [](double x, double y) {
              return x == y || (std::isnan(x) && std::isnan(y));
            }));
          }
          CHECK((nans > 0) == (from != kSum));
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
  CudaWorldOptions options = on_one_card();
  options.ranks_per_gpu = 3;
  check_refused(graph, options, ErrorCode::kInfeasible, {"4 ranks", "--ranks-per-gpu 4"});
  options.gpus = {0, 0};
  check_refused(graph, options, ErrorCode::kUsage, {"twice"});
  options.gpus = {99};
  check_refused(graph, options, ErrorCode::kDevice, {"GPU 99"});
  // Each alone would fit on any card of the next years, all together on none.
  options = on_one_card();
  for (RankProgram& program : graph.programs) program.arena.size = Bytes(std::int64_t{1} << 45);
  check_refused(graph, options, ErrorCode::kInfeasible,
                {"ranks 0", "together need", "staging of communications", "too much"});
}

TEST_CASE("a rank that never comes ends the others in time, and an abort at once" *
          doctest::skip(!has_gpu())) {
  const PhysicalGraph graph = boxing_graph(2);
  class Nothing final : public HostActors {
   public:
    void act(const HostAct&) override {}
  };
  for (const bool aborted : {false, true}) {
    CAPTURE(aborted);
    CudaWorldOptions options = on_one_card();
    options.meeting_timeout_ms = aborted ? 60'000 : 300;
    CudaWorld world(graph, options);
    Nothing host;
    RankRuntime alone(graph, Rank(0), *world.devices()[0], host);
    if (aborted) world.abort("rank 1 is gone");
    const auto begin = std::chrono::steady_clock::now();
    try {
      alone.run(1);
      FAIL("no error");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::kRankFailed);
      const std::string text = error.what();
      CHECK_MESSAGE(text.find(aborted ? "rank 1 is gone" : "ranks 1 did not") != std::string::npos,
                    text);
    }
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10));
    alone.stop("the test is over");
  }
}

}  // namespace sextant::ranks_boxing_test
