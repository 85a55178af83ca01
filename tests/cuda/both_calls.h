// One call on the CPU's reference kernels and on CUDA, operands given in double, parts of sharded
// tensors too.
#pragma once

#include "backends/cuda/cuda_backend.h"
#include "core/base/error.h"
#include "tests/cuda/device_call.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace sextant {

struct BothResults {
  std::vector<std::vector<double>> reference, device;
  std::optional<std::string> fault;    // of the device
  std::optional<std::string> refusal;  // of the reference, which then has no results
};

inline BothResults run_on_both(const std::string& kind, const Attributes& attributes,
                               const std::vector<TestOperand>& inputs,
                               const std::vector<TestOperand>& outputs, bool accumulate = false) {
  CudaContext context{CudaOptions{}};
  KernelCall on_host(kind, attributes);
  DeviceCall on_device(kind, attributes);
  for (const TestOperand& input : inputs) {
    on_host.input(input);
    on_device.input(input);
  }
  for (const TestOperand& output : outputs) {
    on_host.output(output, accumulate);
    on_device.output(output, accumulate);
  }
  const auto kernel =
      on_device.kernel([](const KernelContext& call,
                          CudaContext& device) { return cuda_kernels().make(call, device); },
                       context);
  REQUIRE(kernel != nullptr);
  kernel->enqueue(nullptr);
  BothResults results;
  try {
    results.reference = on_host.run(reference_kernels());
  } catch (const Error& error) {
    results.refusal = error.what();
  }
  results.device = on_device.results();
  results.fault = context.fault();
  CHECK(on_device.is_guarded());
  return results;
}

// Equal, both NaN, or `absolute` + `relative` |wanted| apart.
inline bool are_close(double found, double wanted, double absolute, double relative) {
  if (std::isnan(wanted) || std::isnan(found)) return std::isnan(wanted) && std::isnan(found);
  return found == wanted || std::abs(found - wanted) <= absolute + relative * std::abs(wanted);
}

inline void check_close(const std::vector<double>& found, const std::vector<double>& wanted,
                        double absolute, double relative) {
  REQUIRE(found.size() == wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (are_close(found[i], wanted[i], absolute, relative)) continue;
    CAPTURE(i);
    CAPTURE(wanted[i]);
    CHECK(found[i] == wanted[i]);
    return;  // one is enough
  }
}

// All outputs, to the last bit.
inline void check_equal(const BothResults& results) {
  for (std::size_t i = 0; i < results.reference.size(); ++i)
    check_close(results.device[i], results.reference[i], 0, 0);
}

}  // namespace sextant
