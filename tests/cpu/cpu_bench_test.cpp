// What measuring must get right whatever the machine: which calls it times, that more work takes
// longer, and when it says that somebody else was at work.
#include "backends/cpu/cpu_bench.h"

#include "backends/cpu/machine_load.h"
#include "core/base/error.h"

#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <string>
#include <vector>

namespace sextant::cpu_bench_test {
namespace {

// A call on whole tensors, without addresses: as cluster benches make them.
class Call {
 public:
  Call(std::string kind, std::vector<TensorType> inputs, const TensorType& output) {
    actor_.kind = actor_.name = std::move(kind);
    layouts_.reserve(inputs.size() + 1);
    for (const TensorType& input : inputs) add(input, context_.in);
    add(output, context_.out);
    context_.accumulate = {false};
    context_.actor = &actor_;
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  std::span<const KernelContext> calls() const { return {&context_, 1}; }

 private:
  void add(const TensorType& type, std::vector<KernelOperand>& operands) {
    layouts_.push_back({type, {}, {}});
    KernelOperand operand;
    operand.local = type;
    operand.layout = &layouts_.back();
    for (const std::int64_t extent : type.shape.extents()) operand.box.dims.push_back({0, extent});
    operands.push_back(std::move(operand));
  }

  Actor actor_;
  std::vector<Layout> layouts_;
  KernelContext context_;
};

TensorType f32(std::initializer_list<std::int64_t> extents) {
  return {Shape(extents), DType::kF32};
}

double seconds(CpuBench& bench, std::int64_t n) {
  const Call product("matmul", {f32({n, n}), f32({n, n})}, f32({n, n}));
  const auto timing = bench.time(product.calls());
  REQUIRE(timing.has_value());
  CHECK(timing->runs >= 2);
  CHECK(timing->low_quartile_s <= timing->median_s);
  CHECK(timing->median_s <= timing->high_quartile_s);
  return timing->median_s;
}

// Under the thread sanitizer one product of 256 outlasts the time that the bench gives a call.
#if defined(__SANITIZE_THREAD__)
constexpr bool kIsSlow = true;
#else
constexpr bool kIsSlow = false;
#endif

TEST_CASE("ranks share a core only where there are more of them than cores") {
  CHECK(CpuBench({.ranks = 1, .cores = 1}).ranks_per_core() == 1);
  CHECK(CpuBench({.ranks = 2, .cores = 8}).ranks_per_core() == 1);
  CHECK(CpuBench({.ranks = 4, .cores = 2}).ranks_per_core() == 2);
}

// 64 times the products; what a library does for each call costs a small one several times these,
// the more so under a sanitizer.
TEST_CASE("a larger product takes longer, and ranks that share a core take as many times longer" *
          doctest::skip(kIsSlow)) {
  CpuBench alone({.ranks = 1, .cores = 1, .seconds_per_call = 0.03});
  CpuBench shared({.ranks = 4, .cores = 2, .seconds_per_call = 0.03});
  const double small = seconds(shared, 64), large = seconds(shared, 256);
  CHECK(large > 4 * small);
  // Twice as long, and what caches and memory that are shared add.
  CHECK(seconds(alone, 256) < large);
}

TEST_CASE("a kind without a kernel has no time; ids have a limit") {
  CpuBench bench({.ranks = 2, .cores = 2, .seconds_per_call = 0.001});
  const Call unknown("no_such_kind", {f32({4})}, f32({4}));
  CHECK(!bench.time(unknown.calls()));
  const Call rows("embedding", {{Shape{8}, DType::kI32}, f32({4, 2})}, f32({8, 2}));
  bench.set_id_limit(4);
  CHECK(bench.time(rows.calls()));
  CHECK_THROWS_AS(bench.set_id_limit(0), Error);
  CHECK_THROWS_AS(CpuBench({.ranks = 0, .cores = 2}), Error);
}

TEST_CASE("meetings of all primitives end, and more bytes take longer") {
  CpuBench bench({.ranks = 3, .cores = 2});
  for (const Primitive primitive :
       {Primitive::kAllReduce, Primitive::kReduceScatter, Primitive::kAllGather,
        Primitive::kAllToAll, Primitive::kBroadcast, Primitive::kShift, Primitive::kTransfer}) {
    CAPTURE(to_string(primitive));
    CHECK(bench.meet(primitive, Bytes(1 << 10)).median_s > 0);
  }
  CHECK(bench.meet(Primitive::kAllReduce, Bytes(8 << 20)).median_s >
        bench.meet(Primitive::kAllReduce, Bytes(1 << 10)).median_s);
  CpuBench alone({.ranks = 1, .cores = 1});
  CHECK_THROWS_WITH_AS(alone.meet(Primitive::kAllReduce, Bytes(4)), doctest::Contains("nobody"),
                       Error);
}

TEST_CASE("a machine is called busy by what others take of it") {
  CHECK(busy_text({.others = 0.04, .stolen = 0}).empty());
  const std::string busy = busy_text({.others = 0.43, .stolen = 0.02});
  CHECK(busy.find("43 % of this machine's processor time (2 % by other guests") !=
        std::string::npos);
  CHECK(busy_text({.others = 0.43, .stolen = 0}).find("guests") == std::string::npos);
  CHECK(usable_cores() >= 1);
  if (const auto load = LoadWatch().load()) CHECK(load->others <= 1);
}

}  // namespace
}  // namespace sextant::cpu_bench_test
