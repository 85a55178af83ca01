// Rotary positions on a GPU: whole packs and single pairs, far positions, in place, and how fast.
#include "backends/cuda/cuda_backend.h"
#include "core/operators/layers/rotary_attributes.h"
#include "tests/cuda/device_call.h"
#include "tests/cuda/gpu.h"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <cmath>
#include <vector>

namespace sextant::rope_test {
namespace {

struct Case {
  std::int64_t batch, positions, heads, size, first;
};

std::vector<double> some_values(std::int64_t count, DType dtype) {
  std::vector<double> values(static_cast<std::size_t>(count));
  std::uint64_t state = 88172645463325252;
  for (double& value : values) {
    state ^= state << 13U;
    state ^= state >> 7U;
    state ^= state << 17U;
    value = static_cast<double>(state >> 11U) * 0x1p-52 - 1;
  }
  std::vector<std::byte> bytes(values.size() * static_cast<std::size_t>(size_of(dtype).value));
  store_from_double(dtype, values, bytes.data());
  load_as_double(dtype, bytes.data(), values);
  return values;
}

double roundoff(DType dtype) {
  if (dtype == DType::kF64) return 0x1p-53;
  if (dtype == DType::kF32) return 0x1p-24;
  return dtype == DType::kF16 ? 0x1p-11 : 0x1p-8;
}

std::unique_ptr<CudaKernel> make(const KernelContext& call, CudaContext& device) {
  return cuda_kernels().make(call, device);
}

}  // namespace

TEST_CASE("rope turns pairs as the reference does, packed or not, at positions of any size" *
          doctest::skip(!has_gpu())) {
  const std::vector<Case> cases = {{2, 7, 3, 64, 0},   {1, 5, 2, 128, 131072}, {3, 4, 1, 2, 0},
                                   {1, 9, 5, 6, 1000}, {1, 1, 70, 256, 7},     {2, 3, 2, 40, 99},
                                   {0, 3, 2, 8, 0},    {1, 5000, 1, 16, 3}};
  CudaContext device(CudaOptions{});
  for (const Case& c : cases)
    for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16})
      for (const bool inverse : {false, true})
        for (const bool accumulate : {false, true}) {
          CAPTURE(c.size);
          CAPTURE(to_string(dtype));
          const Shape shape{c.batch, c.positions, c.heads, c.size};
          const std::vector<double> x = some_values(shape.elements(), dtype);
          const std::vector<double> before = accumulate ? x : std::vector<double>{};
          Attributes attributes = {{"theta", 10000.0}, {"inverse", inverse}};
          // Every second head size with scaled positions.
          if (c.size % 16 == 0)
            add_scaling({.factor = 8, .low_turns = 1, .high_turns = 4, .original_length = 64},
                        attributes);
          DeviceCall call("rope", attributes);
          call.input({{shape, dtype}, x, {0, c.first, 0, 0}});
          call.output({{shape, dtype}, before}, accumulate);
          call.kernel(make, device)->enqueue(nullptr);
          KernelCall oracle("rope", attributes);
          oracle.input({{shape, DType::kF64}, x, {0, c.first, 0, 0}});
          oracle.output({{shape, DType::kF64}, before}, accumulate);
          const auto wanted = oracle.run(reference_kernels())[0];
          const auto got = call.results()[0];
          // An angle is good to a few units of its size in f64, a turn to a few units of f32.
          const double angle = static_cast<double>(c.first + c.positions) * 0x1p-50;
          const double turn = dtype == DType::kF64 ? 0x1p-50 : 0x1p-21;
          double worst = 0;
          for (std::size_t i = 0; i < wanted.size(); ++i)
            worst =
                std::max(worst, std::abs(got[i] - wanted[i]) /
                                    (2 * (angle + turn) + roundoff(dtype) * std::abs(wanted[i]) +
                                     0x1p-25 * (dtype == DType::kF16 ? 1 : 0)));
          CHECK(worst <= 1);
          CHECK(call.is_guarded());
        }
}

TEST_CASE("rope of Llama in bf16: times" * doctest::skip(!has_gpu())) {
  CudaContext device(CudaOptions{});
  for (const Case& c : std::vector<Case>{{1, 4096, 32, 128, 0},
                                         {1, 4096, 8, 128, 0},
                                         {8, 1024, 32, 128, 0},
                                         {4, 2048, 8, 64, 0}}) {
    const Shape shape{c.batch, c.positions, c.heads, c.size};
    DeviceCall call("rope", {{"theta", 10000.0}});
    call.input({{shape, DType::kBF16}, {}}).output({{shape, DType::kBF16}, {}});
    const auto kernel = call.kernel(make, device);
    constexpr int kRuns = 20;
    cudaEvent_t begin = nullptr, end = nullptr;
    SEXTANT_CUDA(cudaEventCreate(&begin));
    SEXTANT_CUDA(cudaEventCreate(&end));
    for (int run = 0; run < 3; ++run) kernel->enqueue(nullptr);
    SEXTANT_CUDA(cudaEventRecord(begin, nullptr));
    for (int run = 0; run < kRuns; ++run) kernel->enqueue(nullptr);
    SEXTANT_CUDA(cudaEventRecord(end, nullptr));
    SEXTANT_CUDA(cudaEventSynchronize(end));
    float total = 0;
    SEXTANT_CUDA(cudaEventElapsedTime(&total, begin, end));
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
    const double us = static_cast<double>(total) * 1e3 / kRuns;
    fmt::print("rope {} x {} x {} x {}: {:7.2f} us {:7.1f} GB/s\n", c.batch, c.positions, c.heads,
               c.size, us, 4e-3 * static_cast<double>(shape.elements()) / us);
  }
}

}  // namespace sextant::rope_test
