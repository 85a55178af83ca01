// Bytes of images as numbers on a GPU: the bits of the CPU's reference, and the rate of memory.
#include "backends/cuda/kernels/pointwise/normalize_images.h"

#include "backends/cuda/cuda_check.h"
#include "backends/cuda/kernels/shared/device_table.h"
#include "backends/cuda/kernels/shared/stopwatch.h"
#include "core/base/dtype.h"
#include "tests/cuda/both_calls.h"
#include "tests/cuda/call_on_both.h"
#include "tests/cuda/gpu.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

namespace sextant::cuda_normalize_images_test {
namespace {

TestOperand operand(Shape shape, DType dtype, std::vector<double> values = {}) {
  return {.type = {std::move(shape), dtype}, .values = std::move(values)};
}

TEST_CASE("every byte of every channel becomes the CPU's bits, by packs and one by one" *
          doctest::skip(!has_gpu())) {
  // The last shapes are no multiples of a pack, or nothing.
  const std::vector<Shape> shapes = {{3, 3, 32, 16}, {1, 3, 224, 224}, {2, 3, 16}, {5, 3, 7, 9},
                                     {4, 3},         {0, 3, 8, 8},     {2, 3, 12}};
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16})
    for (const Shape& shape : shapes)
      for (const bool accumulate : {false, true}) {
        CAPTURE(to_string(dtype));
        CAPTURE(to_string(shape));
        CAPTURE(accumulate);
        const std::vector<double> bytes = whole_numbers(shape.elements(), 5, 256);
        check_equal(run_on_both("normalize_images",
                                {{"mean", "0.485,0.456,0.406"},
                                 {"deviation", "0.229,0.224,0.225"},
                                 {"dtype", std::string(to_string(dtype))}},
                                {operand(shape, DType::kU8, bytes)},
                                {operand(shape, dtype, whole_numbers(shape.elements(), 6, 3))},
                                accumulate));
      }
}

// Printed, and held against a rate that a card which others use too still reaches.
TEST_CASE("images become numbers at the rate of memory" * doctest::skip(!has_gpu())) {
  constexpr std::int64_t kPlane = 224 * 224, kElements = 256 * 3 * kPlane;
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    const std::int64_t bytes = kElements * (1 + size_of(dtype).value);
    std::byte* data = nullptr;
    SEXTANT_CUDA(cudaMalloc(reinterpret_cast<void**>(&data), static_cast<std::size_t>(bytes)));
    SEXTANT_CUDA(cudaMemset(data, 77, static_cast<std::size_t>(bytes)));
    const DeviceTable<CudaChannelNumbers> numbers(
        std::vector<CudaChannelNumbers>(3, {.mean = 0.5F, .deviation = 0.25F}));
    const NormalizeImagesArguments arguments{.to = dtype,
                                             .in = reinterpret_cast<const std::uint8_t*>(data),
                                             .out = data + kElements,
                                             .elements = kElements,
                                             .of_plane = kPlane,
                                             .channels = 3,
                                             .numbers = numbers.rows(),
                                             .aligned = true};
    Stopwatch watch;
    const auto enqueue = [&] { SEXTANT_CUDA(enqueue_normalize_images(arguments, watch.stream())); };
    watch.seconds(3, enqueue);
    const double seconds = watch.seconds(20, enqueue);
    cudaFree(data);
    const double rate = static_cast<double>(bytes) / seconds;
    std::printf("normalize_images of 256 images into %s: %.1f us, %.2f TB/s\n",
                std::string(to_string(dtype)).c_str(), seconds * 1e6, rate * 1e-12);
    CHECK(rate > 0.5e12);
  }
}

}  // namespace
}  // namespace sextant::cuda_normalize_images_test
