// Scales, tensors in 8 bits and products of them on a GPU: the same bits as the CPU's reference
// makes, and how fast they are made. Sums of products are small whole numbers, which tensor cores
// keep exactly however few bits of a sum they carry.
#include "backends/cuda/kernels/products/quantize.h"

#include "backends/cuda/cuda_check.h"
#include "backends/cuda/kernels/shared/noise.h"
#include "backends/cuda/kernels/shared/stopwatch.h"
#include "core/base/dtype.h"
#include "tests/cuda/both_calls.h"
#include "tests/cuda/call_on_both.h"
#include "tests/cuda/gpu.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace sextant::quantize_test {
namespace {

const TensorType kScale{.shape = Shape(), .dtype = DType::kF32};
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TestOperand operand(Shape shape, DType dtype, std::vector<double> values = {}) {
  return {.type = {std::move(shape), dtype}, .values = std::move(values)};
}

// Magnitudes over all exponents that matter, both signs, zeros.
std::vector<double> wide_values(std::int64_t count, double largest) {
  std::vector<double> values = digits(count, 7, 1.0);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = i % 97 == 0 ? 0.0 : values[i] * std::ldexp(largest, -static_cast<int>(i % 23));
  return values;
}

TEST_CASE("scales have the bits of the CPU's, whatever the type, size and place of the largest" *
          doctest::skip(!has_gpu())) {
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16})
    for (const char* to : {"e4m3", "e5m2"})
      for (const std::int64_t size : {0, 1, 7, 8, 4095, 300'000})
        for (const double largest : {0.0, 1e-30, 0.75, 448.0, 449.0, 60'000.0}) {
          CAPTURE(to_string(dtype));
          CAPTURE(size);
          CAPTURE(largest);
          std::vector<double> values = wide_values(size, largest / 4);
          if (size > 0) values[static_cast<std::size_t>(size * 5 / 7)] = -largest;
          check_equal(run_on_both("quantize_scale", {{"dtype", to}},
                                  {operand({size}, dtype, values)},
                                  {operand(Shape(), DType::kF32)}));
        }
}

TEST_CASE("an infinity or NaN anywhere is the scale" * doctest::skip(!has_gpu())) {
  for (const DType dtype : {DType::kF32, DType::kBF16})
    for (const double odd : {kInfinity, -kInfinity, std::nan("")}) {
      std::vector<double> values = wide_values(100'000, 3);
      values[77'777] = odd;
      const BothResults results =
          run_on_both("quantize_scale", {{"dtype", "e4m3"}}, {operand({100'000}, dtype, values)},
                      {operand(Shape(), DType::kF32)});
      CHECK_FALSE(std::isfinite(results.device[0][0]));
      check_equal(results);
    }
}

TEST_CASE("elements have the bits of the CPU's in both orders, by tiles and one by one" *
          doctest::skip(!has_gpu())) {
  const std::vector<Shape> shapes = {{16, 16},  {128, 128}, {144, 272}, {2, 64, 400}, {5, 3},
                                     {17, 128}, {128, 100}, {1, 1},     {0, 16},      {256, 4096}};
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16})
    for (const DType to : {DType::kE4M3, DType::kE5M2})
      for (const Shape& shape : shapes)
        for (const std::string layout : {"rows", "columns", "both"}) {
          CAPTURE(to_string(dtype));
          CAPTURE(to_string(to));
          CAPTURE(to_string(shape));
          CAPTURE(layout);
          const double largest = dtype == DType::kF16 ? 1000.0 : 2e6;  // beyond what 8 bits hold
          std::vector<std::int64_t> turned = shape.extents();
          turned.insert(turned.begin(), turned.back());
          turned.pop_back();
          std::vector<TestOperand> outputs;
          if (layout != "columns") outputs.push_back(operand(shape, to));
          if (layout != "rows") outputs.push_back(operand(Shape(turned), to));
          check_equal(run_on_both("quantize",
                                  {{"dtype", std::string(to_string(to))}, {"layout", layout}},
                                  {operand(shape, dtype, wide_values(shape.elements(), largest)),
                                   operand(Shape(), DType::kF32, {0.25})},
                                  outputs));
        }
}

// a [m, k] and b [n, k]; k so small that sums stay below 2^13.
void check_product(std::int64_t m, std::int64_t n, std::int64_t k, DType a, DType b, DType out,
                   bool accumulate) {
  CAPTURE(m);
  CAPTURE(n);
  CAPTURE(k);
  CAPTURE(to_string(a));
  CAPTURE(to_string(b));
  CAPTURE(to_string(out));
  CAPTURE(accumulate);
  const auto small = [](std::int64_t count, std::uint64_t salt) {
    std::vector<double> values = whole_numbers(count, salt, 7);
    for (double& value : values) value -= 3;
    return values;
  };
  const BothResults results =
      run_on_both("scaled_matmul", {{"out_dtype", std::string(to_string(out))}},
                  {operand({m, k}, a, small(m * k, 1)), operand({n, k}, b, small(n * k, 2)),
                   operand(Shape(), DType::kF32, {0.5}), operand(Shape(), DType::kF32, {4})},
                  {operand({m, n}, out, small(m * n, 3))}, accumulate);
  CHECK_FALSE(results.fault.has_value());
  check_equal(results);
}

TEST_CASE("products of small whole numbers are the CPU's to the bit" * doctest::skip(!has_gpu())) {
  constexpr DType e4m3 = DType::kE4M3, e5m2 = DType::kE5M2;
  const std::pair<DType, DType> operands[] = {{e4m3, e4m3}, {e5m2, e4m3}, {e4m3, e5m2}};
  for (const auto& [a, b] : operands)
    for (const DType out : {DType::kF32, DType::kBF16, DType::kF16})
      for (const bool accumulate : {false, true}) {
        check_product(128, 256, 64, a, b, out, accumulate);
        check_product(48, 80, 112, a, b, out, accumulate);
        check_product(272, 16, 512, a, b, out, accumulate);
        check_product(5, 7, 3, a, b, out, accumulate);  // no whole 16 bytes: the general kernel
        check_product(128, 100, 64, a, b, out, accumulate);
      }
  check_product(16, 16, 32, e4m3, e4m3, DType::kF64, false);
}

class Buffer {
 public:
  explicit Buffer(std::int64_t bytes) {
    SEXTANT_CUDA(cudaMalloc(&data_, static_cast<std::size_t>(bytes)));
    SEXTANT_CUDA(cudaMemset(data_, 0, static_cast<std::size_t>(bytes)));
  }
  ~Buffer() { cudaFree(data_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  void* get() const { return data_; }

 private:
  void* data_ = nullptr;
};

// Printed, and held against a rate that a card which others use too still reaches.
TEST_CASE("scales and copies in 8 bits move bytes at the rate of memory" *
          doctest::skip(!has_gpu())) {
  const std::pair<std::int64_t, std::int64_t> sizes[] = {{8192, 3072}, {8192, 8192}};
  for (const DType dtype : {DType::kBF16, DType::kF32})
    for (const auto& [m, n] : sizes) {
      const std::int64_t elements = m * n, width = size_of(dtype).value;
      const Buffer x(elements * width), rows(elements), columns(elements), scale(sizeof(float)),
          tally(sizeof(QuantizeTally));
      Stopwatch watch;
      SEXTANT_CUDA(enqueue_noise({x.get(), dtype, elements}, watch.stream()));
      const QuantizeScaleArguments scales{.x = x.get(),
                                          .from = dtype,
                                          .elements = elements,
                                          .scale = static_cast<float*>(scale.get()),
                                          .tally = static_cast<QuantizeTally*>(tally.get())};
      const QuantizeArguments copies{.x = x.get(),
                                     .scale = static_cast<const float*>(scale.get()),
                                     .rows = rows.get(),
                                     .columns = columns.get(),
                                     .from = dtype,
                                     .m = m,
                                     .n = n};
      const auto seconds = [&](const auto& enqueue) {
        watch.seconds(3, enqueue);
        return watch.seconds(20, enqueue);
      };
      const double scaling =
          seconds([&] { SEXTANT_CUDA(enqueue_quantize_scale(scales, watch.stream())); });
      const double copying =
          seconds([&] { SEXTANT_CUDA(enqueue_quantize(copies, watch.stream())); });
      const auto read = static_cast<double>(elements * width);
      const double written = 2.0 * static_cast<double>(elements);
      std::printf("%s %lld x %lld: scale %.1f us, %.2f TB/s; both copies %.1f us, %.2f TB/s\n",
                  std::string(to_string(dtype)).c_str(), static_cast<long long>(m),
                  static_cast<long long>(n), scaling * 1e6, read / scaling * 1e-12, copying * 1e6,
                  (read + written) / copying * 1e-12);
      CHECK(read / scaling > 0.5e12);
      CHECK((read + written) / copying > 0.5e12);
    }
}

}  // namespace
}  // namespace sextant::quantize_test
