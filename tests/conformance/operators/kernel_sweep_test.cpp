// The sweep over the CPU's own kernels: the fast ones lie within its bound, the reference ones
// exactly so, none takes more workspace than it states, and kernels that are wrong in the ways that
// kernels are wrong are caught.
#include "tests/conformance/operators/kernel_sweep.h"

#include "backends/cpu/kernels/shared/kernel.h"
#include "core/graphs/fused_kinds.h"
#include "tests/conformance/operators/host_member_calls.h"
#include "tests/conformance/operators/plan_cases.h"

#include <doctest/doctest.h>

#include <cstring>
#include <functional>
#include <string>

namespace sextant::kernel_sweep_test {
namespace {

class CpuRunner final : public CallRunner {
 public:
  using Spoil = std::function<void(const KernelContext&)>;
  explicit CpuRunner(KernelTable kernels, Spoil spoil = nullptr)
      : kernels_(std::move(kernels)), spoil_(std::move(spoil)) {
    workspace_.reserve(std::int64_t{1} << 26);  // one piece, so that what is in use is what counts
  }
  bool run(const KernelContext& call) override {
    if (call.actor->members.empty()) return run_one(call);
    HostMemberCalls members(call);
    for (const KernelContext& member : members.calls())
      if (!run_one(member)) return false;
    return true;
  }

 private:
  bool run_one(const KernelContext& call) {
    const Kernel kernel = kernels_.find(call.actor->kind, call);
    if (kernel == nullptr) return false;
    const Workspace::Frame frame(workspace_);
    workspace_.forget_most();
    kernel(call, workspace_);
    const std::int64_t stated = kernels_.workspace(call.actor->kind, call);
    CHECK_MESSAGE(workspace_.most() <= stated, call.actor->kind);
    if (spoil_) spoil_(call);
    return true;
  }

  KernelTable kernels_;
  Spoil spoil_;
  Workspace workspace_;
};

// Small enough for seconds on two slow cores.
constexpr CaseLimits kSmall{.flops = 3e5, .elements = 1 << 13};

void check_all(CallRunner& runner) {
  for (const std::string& kind : builtin_operators().kinds()) {
    const OperatorDef& def = builtin_operators().get(kind);
    const SweepReport report = sweep(prepare_kind(def, kSmall), runner);
    CHECK_MESSAGE(report.uncovered.empty(), kind);
    for (const std::string& fault : report.faults) FAIL_CHECK(fault);
  }
}

std::int64_t faults_of(const std::string& kind, const CpuRunner::Spoil& spoil) {
  CpuRunner runner(reference_kernels(), spoil);
  return sweep(prepare_kind(builtin_operators().get(kind), kSmall), runner).num_faults;
}

}  // namespace

TEST_CASE("the fast kernels of the CPU lie within the bound of the reference") {
  CpuRunner runner(fast_kernels());
  check_all(runner);
}

TEST_CASE("the sweep has cases of every operator that computes, odd, empty and long ones") {
  std::size_t calls = 0;
  for (const std::string& kind : builtin_operators().kinds()) {
    const OperatorDef& def = builtin_operators().get(kind);
    if (def.examples == nullptr) continue;
    CHECK_MESSAGE(whole_cases(def, kSmall).size() >= def.examples().size(), kind);
    calls += shard_cases(def).size();
  }
  CHECK(calls > 1000);
  const auto cases = whole_cases(builtin_operators().get("layer_norm"), CaseLimits{});
  for (const std::int64_t extent : {0, 1, 1023, 1024, 1600, 4096})
    CHECK(std::any_of(cases.begin(), cases.end(), [extent](const KernelCase& on) {
      const Shape& shape = on.in[0].global.shape;
      return shape[shape.rank() - 1] == extent;
    }));
}

// Members one by one, as a device without kernels for the whole runs them.
TEST_CASE("the calls of compiled plans lie within the bound of the reference, fused ones too") {
  CpuRunner runner(fast_kernels());
  int fused = 0;
  for (const PreparedKind& prepared : prepare_calls(small_plan_cases())) {
    const SweepReport report = sweep(prepared, runner);
    CHECK_MESSAGE(report.uncovered.empty(), prepared.kind);
    for (const std::string& fault : report.faults) FAIL_CHECK(fault);
    fused += find_fused_kind(prepared.kind) != nullptr ? 1 : 0;
  }
  CHECK(fused >= 8);
}

TEST_CASE("the sweep notices what goes wrong in kernels") {
  // One element too few.
  CHECK(faults_of("add", [](const KernelContext& call) {
          if (call.out[0].local.shape.elements() > 0)
            std::memset(call.out[0].data, 0xFF,
                        static_cast<std::size_t>(size_of(call.out[0].local.dtype).value));
        }) > 100);
  // One byte too many.
  CHECK(faults_of("add", [](const KernelContext& call) {
          call.out[0].data[size_of(call.out[0].local).value] = std::byte{0};
        }) > 100);
  // f32 products with ten bits, as tensor cores have them.
  CHECK(faults_of("matmul", [](const KernelContext& call) {
          if (call.out[0].local.dtype != DType::kF32) return;
          auto* values = reinterpret_cast<std::uint32_t*>(call.out[0].data);
          for (std::int64_t i = 0; i < call.out[0].local.shape.elements(); ++i)
            values[i] &= 0xFFFFE000U;
        }) > 10);
  // Accumulation that overwrites.
  CHECK(faults_of("mul", [](const KernelContext& call) {
          if (call.accumulate[0])
            std::memset(call.out[0].data, 0,
                        static_cast<std::size_t>(size_of(call.out[0].local).value));
        }) > 50);
}

}  // namespace sextant::kernel_sweep_test
