// Every kernel of the CUDA table against the CPU's reference kernels (kernel_conformance.h states
// the bound), and what the table lacks against a list. SEXTANT_SWEEP_FROM names the kind to begin
// with, SEXTANT_SWEEP_KIND the only one.
#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/cuda_check.h"
#include "backends/cuda/cuda_context.h"
#include "backends/cuda/cuda_kernel.h"
#include "core/graphs/fused_kinds.h"
#include "tests/conformance/operators/kernel_sweep.h"
#include "tests/conformance/operators/plan_cases.h"
#include "tests/cuda/cuda_call_runner.h"
#include "tests/cuda/gpu.h"
#include "tests/cuda/missing_kernels.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace sextant::operator_conformance_test {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool is_chosen(const std::string& kind) {
  const std::string from = environment("SEXTANT_SWEEP_FROM"),
                    only = environment("SEXTANT_SWEEP_KIND");
  return kind >= from && (only.empty() || kind == only);
}

// Of the cases of a kind, every which one is tried: SEXTANT_SWEEP_EVERY, all without it.
std::size_t stride() {
  const std::string every = environment("SEXTANT_SWEEP_EVERY");
  return every.empty() ? 1 : std::stoul(every);
}

bool sweeps_everything() {
  return environment("SEXTANT_SWEEP_FROM").empty() && environment("SEXTANT_SWEEP_KIND").empty() &&
         stride() == 1;
}

using Prepare = std::function<PreparedKind()>;

// References of a few kinds ahead of the device.
class Preparation {
 public:
  explicit Preparation(std::vector<Prepare> kinds) : kinds_(std::move(kinds)) {
    for (unsigned i = 0; i < std::max(1U, std::thread::hardware_concurrency()); ++i) begin_one();
  }
  bool has_next() const { return !ahead_.empty(); }
  PreparedKind next() {
    PreparedKind prepared = ahead_.front().get();
    ahead_.pop_front();
    begin_one();
    return prepared;
  }

 private:
  void begin_one() {
    if (begun_ < kinds_.size()) ahead_.push_back(std::async(std::launch::async, kinds_[begun_++]));
  }

  std::vector<Prepare> kinds_;
  std::size_t begun_ = 0;
  std::deque<std::future<PreparedKind>> ahead_;
};

// Operators with a kernel and with examples.
std::vector<Prepare> operator_kinds(const CaseLimits& limits) {
  std::vector<Prepare> kinds;
  for (const std::string& kind : cuda_kernels().kinds()) {
    const OperatorDef* def = builtin_operators().find(kind);
    if (def != nullptr && def->examples != nullptr && is_chosen(kind))
      kinds.push_back([def, limits] { return prepare_kind(*def, limits); });
  }
  return kinds;
}

// The calls of small plans, fused kinds only where they have a kernel of their own.
std::vector<Prepare> kinds_of_plans() {
  const std::vector<std::string> kernels = cuda_kernels().kinds();
  std::map<std::string, std::vector<KernelCase>> calls;
  for (KernelCase& call : small_plan_cases()) {
    const bool has_kernel = std::binary_search(kernels.begin(), kernels.end(), call.kind);
    if (is_chosen(call.kind) && (has_kernel || call.members.empty()))
      calls[call.kind].push_back(std::move(call));
  }
  std::vector<Prepare> kinds;
  for (auto& [kind, of_kind] : calls)
    kinds.push_back([of_kind = std::move(of_kind)] { return prepare_calls(of_kind).front(); });
  return kinds;
}

// The kinds behind `kind` in a process of their own: this one has lost its device.
void sweep_rest_elsewhere(const std::string& kind, const char* test) {
  const std::string command = "SEXTANT_SWEEP_FROM='" + kind + "!' /proc/" +
                              std::to_string(getpid()) + "/exe -nv -tc='" + test + "'";
  CHECK_MESSAGE(std::system(command.c_str()) == 0, "kinds behind ", kind);
}

void print(const std::string& kind, const SweepReport& report, double seconds) {
  std::printf("%-32s %6lld calls, %5.3f of the bound, %lld faults, %lld refused, %.2f s\n",
              kind.c_str(), static_cast<long long>(report.calls), report.share,
              static_cast<long long>(report.num_faults), static_cast<long long>(report.refused),
              seconds);
  for (const std::string& fault : report.faults) std::printf("  FAULT %s\n", fault.c_str());
  std::fflush(stdout);
}

using Sweep = SweepReport (*)(const PreparedKind&, CallRunner&);

struct Coverage {
  std::set<std::string> uncovered;      // "matmul f16"
  std::set<std::string> never_covered;  // kinds of which no call was one kernel's
};

Coverage sweep_all(const char* test, const CudaOptions& options, std::vector<Prepare> kinds,
                   Sweep sweep_one) {
  Coverage coverage;
  Preparation preparation(std::move(kinds));
  CudaCallRunner runner(options);
  while (preparation.has_next()) {
    PreparedKind prepared = preparation.next();
    thin_out(prepared, stride());
    const auto begin = std::chrono::steady_clock::now();
    try {
      const SweepReport report = sweep_one(prepared, runner);
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
      print(prepared.kind, report, seconds.count());
      CHECK_MESSAGE(report.num_faults == 0, prepared.kind);
      coverage.uncovered.insert(report.uncovered.begin(), report.uncovered.end());
      if (report.covered == 0) coverage.never_covered.insert(prepared.kind);
    } catch (const LostDevice& lost) {
      FAIL_CHECK(prepared.kind, ": ", lost.what());
      sweep_rest_elsewhere(prepared.kind, test);
      break;
    }
  }
  return coverage;
}

void require_listed(const std::set<std::string>& uncovered) {
  for (const std::string& types : uncovered)
    CHECK_MESSAGE((missing_kernels().contains(types) ||
                   missing_kernels().contains(types.substr(0, types.find(' ')))),
                  "no kernel covers ", types,
                  ", and tests/cuda/missing_kernels.txt does not say so");
}

}  // namespace

TEST_CASE("CUDA kernels lie within the bound of the reference, for every kind" *
          doctest::skip(!has_gpu())) {
  const auto uncovered =
      sweep_all("CUDA kernels lie within the bound*", CudaOptions{}, operator_kinds({}), sweep)
          .uncovered;
  require_listed(uncovered);
  if (!sweeps_everything()) return;
  for (const auto& [types, reason] : missing_kernels())
    CHECK_MESSAGE((types.find(' ') == std::string::npos || uncovered.contains(types)), types,
                  " is covered: remove its line from tests/cuda/missing_kernels.txt");
}

TEST_CASE("CUDA kernels of a deterministic device give the same bits twice, for every kind" *
          doctest::skip(!has_gpu())) {
  CudaOptions options;
  options.deterministic = true;
  sweep_all("CUDA kernels of a deterministic device*", options,
            operator_kinds({.flops = 4e6, .elements = std::int64_t{1} << 17}), sweep_twice);
}

TEST_CASE("CUDA kernels give the calls of compiled plans within the bound, fused ones too" *
          doctest::skip(!has_gpu())) {
  const Coverage coverage = sweep_all("CUDA kernels give the calls of compiled plans*",
                                      CudaOptions{}, kinds_of_plans(), sweep);
  require_listed(coverage.uncovered);
  if (!sweeps_everything()) return;
  // What runs member by member in every plan has a kernel for nothing.
  for (const std::string& kind : coverage.never_covered)
    CHECK_MESSAGE(find_fused_kind(kind) == nullptr, "no call of fused kind ", kind,
                  " is served by its kernel");
}

TEST_CASE("every operator kind and fused kind has a CUDA kernel or a line that says why not") {
  const std::vector<std::string> kernels = cuda_kernels().kinds();
  std::vector<std::string> kinds = builtin_operators().kinds();
  for (const std::string& kind : fused_kind_names()) kinds.push_back(kind);
  for (const std::string& kind : kinds) {
    const bool has_kernel = std::binary_search(kernels.begin(), kernels.end(), kind);
    const bool is_listed = missing_kernels().contains(kind);
    CHECK_MESSAGE(!(has_kernel && is_listed), kind,
                  " has a kernel: remove its line from tests/cuda/missing_kernels.txt");
    CHECK_MESSAGE((has_kernel || is_listed), kind,
                  " has no kernel and no line in tests/cuda/missing_kernels.txt");
    if (is_listed) MESSAGE("no CUDA kernel for ", kind, ": ", missing_kernels().at(kind));
  }
  for (const auto& [name, reason] : missing_kernels()) {
    const std::string kind = name.substr(0, name.find(' '));
    CHECK_MESSAGE(std::find(kinds.begin(), kinds.end(), kind) != kinds.end(), name,
                  " is no operator");
    CHECK_MESSAGE(reason.size() > 10, name, " is without reason");
  }
}

}  // namespace sextant::operator_conformance_test
