// Every kernel of the CUDA table against the CPU's reference kernels (kernel_conformance.h states
// the bound), and what the table lacks against a list. SEXTANT_SWEEP_FROM names the kind to begin
// with, SEXTANT_SWEEP_KIND the only one.
#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/cuda_check.h"
#include "backends/cuda/cuda_context.h"
#include "backends/cuda/cuda_kernel.h"
#include "core/fused_kinds.h"
#include "tests/conformance/kernel_sweep.h"
#include "tests/cuda/cuda_call_runner.h"
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
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace sextant {
namespace {

bool has_gpu() {
  if (num_cuda_devices() > 0) return true;
  MESSAGE("skipped: no GPU");
  return false;
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Operators with a kernel and with examples, from SEXTANT_SWEEP_FROM on.
std::vector<std::string> swept_kinds() {
  const std::string from = environment("SEXTANT_SWEEP_FROM"),
                    only = environment("SEXTANT_SWEEP_KIND");
  std::vector<std::string> kinds;
  for (const std::string& kind : cuda_kernels().kinds()) {
    const OperatorDef* def = builtin_operators().find(kind);
    if (def == nullptr || def->examples == nullptr || kind < from) continue;
    if (only.empty() || kind == only) kinds.push_back(kind);
  }
  return kinds;
}

// References of a few kinds ahead of the device.
class Preparation {
 public:
  Preparation(std::vector<std::string> kinds, const CaseLimits& limits)
      : kinds_(std::move(kinds)), limits_(limits) {
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
    if (begun_ == kinds_.size()) return;
    const OperatorDef& def = builtin_operators().get(kinds_[begun_++]);
    ahead_.push_back(std::async(std::launch::async,
                                [&def, limits = limits_] { return prepare_kind(def, limits); }));
  }

  std::vector<std::string> kinds_;
  CaseLimits limits_;
  std::size_t begun_ = 0;
  std::deque<std::future<PreparedKind>> ahead_;
};

// The kinds behind `kind` in a process of their own: this one has lost its device.
void sweep_rest_elsewhere(const std::string& kind, const char* test) {
  const std::string command = "SEXTANT_SWEEP_FROM='" + kind + "!' /proc/" +
                              std::to_string(getpid()) + "/exe -nv -tc='" + test + "'";
  CHECK_MESSAGE(std::system(command.c_str()) == 0, "kinds behind ", kind);
}

void print(const std::string& kind, const SweepReport& report, double seconds) {
  std::printf("%-32s %6lld calls, %5.3f of the bound, %lld faults, %.2f s\n", kind.c_str(),
              static_cast<long long>(report.calls), report.share,
              static_cast<long long>(report.num_faults), seconds);
  for (const std::string& fault : report.faults) std::printf("  FAULT %s\n", fault.c_str());
  std::fflush(stdout);
}

using Sweep = SweepReport (*)(const PreparedKind&, CallRunner&);

// Returns what no kernel covers.
std::set<std::string> sweep_all(const char* test, const CudaOptions& options,
                                const CaseLimits& limits, Sweep sweep_one) {
  std::set<std::string> uncovered;
  Preparation preparation(swept_kinds(), limits);
  CudaCallRunner runner(options);
  while (preparation.has_next()) {
    const PreparedKind prepared = preparation.next();
    const auto begin = std::chrono::steady_clock::now();
    try {
      const SweepReport report = sweep_one(prepared, runner);
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
      print(prepared.kind, report, seconds.count());
      CHECK_MESSAGE(report.num_faults == 0, prepared.kind);
      uncovered.insert(report.uncovered.begin(), report.uncovered.end());
    } catch (const LostDevice& lost) {
      FAIL_CHECK(prepared.kind, ": ", lost.what());
      sweep_rest_elsewhere(prepared.kind, test);
      break;
    }
  }
  return uncovered;
}

}  // namespace

TEST_CASE("CUDA kernels lie within the bound of the reference, for every kind") {
  if (!has_gpu()) return;
  const auto uncovered =
      sweep_all("CUDA kernels lie within the bound*", CudaOptions{}, CaseLimits{}, sweep);
  for (const std::string& types : uncovered)
    CHECK_MESSAGE(missing_kernels().contains(types), "no kernel covers ", types,
                  ", and tests/cuda/missing_kernels.txt does not say so");
  if (!environment("SEXTANT_SWEEP_FROM").empty() || !environment("SEXTANT_SWEEP_KIND").empty())
    return;
  for (const auto& [types, reason] : missing_kernels())
    CHECK_MESSAGE((types.find(' ') == std::string::npos || uncovered.contains(types)), types,
                  " is covered: remove its line from tests/cuda/missing_kernels.txt");
}

TEST_CASE("CUDA kernels of a deterministic device give the same bits twice, for every kind") {
  if (!has_gpu()) return;
  CudaOptions options;
  options.deterministic = true;
  sweep_all("CUDA kernels of a deterministic device*", options,
            {.flops = 4e6, .elements = std::int64_t{1} << 17}, sweep_twice);
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

}  // namespace sextant
