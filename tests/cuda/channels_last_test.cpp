// Kernels of images that lie channels-last against the CPU's reference on row-major ones.
#include "backends/cuda/cuda_check.h"
#include "backends/cuda/cuda_context.h"
#include "backends/cuda/cuda_kernel.h"
#include "tests/cuda/call_on_both.h"
#include "tests/cuda/gpu.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

namespace sextant::channels_last_test {
namespace {

using Integers = std::vector<std::int64_t>;

// values[n][c][p] as [n][p][c], or back.
std::vector<double> reordered(const Shape& shape, const std::vector<double>& values, bool back) {
  const std::int64_t channels = shape[1], pixels = shape[2] * shape[3];
  std::vector<double> result(values.size());
  for (std::int64_t n = 0; n < shape[0]; ++n)
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t p = 0; p < pixels; ++p) {
        const auto rows = static_cast<std::size_t>((n * channels + c) * pixels + p);
        const auto last = static_cast<std::size_t>((n * pixels + p) * channels + c);
        result[back ? rows : last] = values[back ? last : rows];
      }
  return result;
}

// One operator on tensors that exist row-major for the reference and, where they are images,
// channels-last for the device. Weights of convolutions are no images.
class LastCall {
 public:
  LastCall(std::string kind, Attributes attributes)
      : kind_(std::move(kind)), attributes_(std::move(attributes)) {}

  LastCall& input(const TensorType& type, std::uint64_t salt, double range, bool is_image = true) {
    add(type, digits(type.shape.elements(), salt, range), is_image);
    return *this;
  }
  LastCall& output(const TensorType& type, bool is_image = true) {
    ++outputs_;
    add(type, std::vector<double>(static_cast<std::size_t>(type.shape.elements()), 7.0), is_image);
    return *this;
  }

  // Results differ by `bound` of the largest one at most.
  void check(double bound) {
    CAPTURE(kind_);
    CudaContext device(CudaOptions{});  // scratch is allocated once
    TwinCall reference(kind_, attributes_, range_of(reference_, true), range_of(reference_, false));
    reference.run_reference();
    TwinCall call(kind_, attributes_, range_of(device_, true), range_of(device_, false));
    KernelContext context = call.for_device();
    const std::size_t inputs = context.in.size();
    for (std::size_t i = 0; i < is_image_.size(); ++i)
      (i < inputs ? context.in[i] : context.out[i - inputs]).channels_last = is_image_[i];
    const CudaKernelTable table = cuda_kernels();
    auto kernel = table.make(context, device);
    REQUIRE(kernel != nullptr);
    device.allocate_scratch();
    kernel->enqueue(nullptr);
    SEXTANT_CUDA(cudaDeviceSynchronize());
    for (std::size_t i = inputs; i < is_image_.size(); ++i) {
      const std::vector<double> wanted = reference_[i].host_values();
      std::vector<double> found = device_[i].device_values();
      if (is_image_[i]) found = reordered(device_[i].type().shape, found, true);
      double largest = 0, worst = 0;
      for (std::size_t e = 0; e < wanted.size(); ++e) {
        largest = std::max(largest, std::abs(wanted[e]));
        worst = std::max(worst, std::abs(wanted[e] - found[e]));
      }
      CHECK(worst <= bound * largest);
    }
  }

 private:
  void add(const TensorType& type, const std::vector<double>& values, bool is_image) {
    is_image = is_image && type.shape.rank() == 4;
    is_image_.push_back(is_image);
    reference_.emplace_back(type, values);
    device_.emplace_back(type, is_image ? reordered(type.shape, values, false) : values);
  }
  std::vector<TwinTensor*> range_of(std::deque<TwinTensor>& tensors, bool inputs) const {
    std::vector<TwinTensor*> range;
    const std::size_t first_output = tensors.size() - outputs_;
    for (std::size_t i = inputs ? 0 : first_output; i < (inputs ? first_output : tensors.size());
         ++i)
      range.push_back(&tensors[i]);
    return range;
  }

  std::string kind_;
  Attributes attributes_;
  std::deque<TwinTensor> reference_, device_;
  std::vector<bool> is_image_;
  std::size_t outputs_ = 0;
};

// A result is rounded once to 8 bits of mantissa, sums are made in f32 of products of 16 bits.
constexpr double kRounding = 0x1p-7;

}  // namespace

TEST_CASE("images that lie channels-last give what row-major ones give" *
          doctest::skip(!has_gpu())) {
  const DType bf16 = DType::kBF16, f32 = DType::kF32;
  // 6 x 9 x 7 positions are no whole number of rows of a block; 40 channels are five packs.
  const TensorType x{{6, 40, 9, 7}, bf16}, y{{6, 40, 5, 4}, bf16}, channel{{40}, f32},
      weight{{40}, bf16};
  const Attributes norm{{"dims", Integers{0, 2, 3}}, {"weight_dims", Integers{1}}};
  const Attributes pool{
      {"kernel", Integers{3, 3}}, {"stride", Integers{2, 2}}, {"padding", Integers{1, 1}}};
  LastCall("add", {}).input(x, 1, 3).input(x, 2, 3).output(x).check(kRounding);
  LastCall("max_pool", pool).input(x, 1, 3).output(y).check(0);
  LastCall("max_pool_grad", pool).input(x, 1, 3).input(y, 2, 3).output(x).check(kRounding);
  LastCall("normalize", norm)
      .input(x, 1, 3)
      .input(channel, 2, 1)
      .input(channel, 3, 1)
      .input(weight, 4, 2)
      .input(weight, 5, 2)
      .output(x)
      .check(kRounding);
  LastCall("normalize_grad_weight", norm)
      .input(x, 1, 3)
      .input(channel, 2, 1)
      .input(channel, 3, 1)
      .input(x, 4, 3)
      .output(channel)
      .output(channel)
      .check(1e-5);
  Attributes of_weights = norm;
  of_weights.set("sums", std::string("of_weights"));
  LastCall("normalize_grad_input", of_weights)
      .input(x, 1, 3)
      .input(channel, 2, 1)
      .input(channel, 3, 1)
      .input(weight, 4, 2)
      .input(channel, 5, 9)
      .input(channel, 6, 9)
      .input(x, 7, 3)
      .output(x)
      .check(kRounding);
  const Attributes pixels{{"dims", Integers{2, 3}}};
  LastCall("reduce_mean", pixels).input(x, 1, 3).output({{6, 40}, bf16}).check(kRounding);
  Attributes repeat = pixels;
  repeat.set("shape", x.shape.extents());
  LastCall("expand", repeat).input({{6, 40}, bf16}, 1, 3).output(x).check(0);
}

#ifdef SEXTANT_HAS_CUDNN
TEST_CASE("convolutions of channels-last images give what row-major ones give" *
          doctest::skip(!has_gpu())) {
  const DType bf16 = DType::kBF16, f32 = DType::kF32;
  for (const bool x_is_last : {true, false})
    for (const std::int64_t kernel : {1, 3}) {
      const TensorType x{{4, 16, 8, 8}, bf16}, y{{4, 24, 4, 4}, bf16};
      const Shape w{24, 16, kernel, kernel};
      const Attributes attributes{{"stride", Integers{2, 2}},
                                  {"padding", Integers{kernel / 2, kernel / 2}}};
      Attributes of_x = attributes, of_w = attributes;
      of_x.set("shape", x.shape.extents());
      of_w.set("shape", w.extents());
      LastCall("conv", attributes)
          .input(x, 1, 1, x_is_last)
          .input({w, bf16}, 2, 1, false)
          .output(y)
          .check(kRounding);
      LastCall("conv_grad_input", of_x)
          .input(y, 1, 1)
          .input({w, bf16}, 2, 1, false)
          .output(x, x_is_last)
          .check(kRounding);
      LastCall("conv_grad_weight", of_w)
          .input(x, 1, 1, x_is_last)
          .input(y, 2, 1)
          .output({w, f32}, false)
          .check(kRounding);
    }
}
#endif

}  // namespace sextant::channels_last_test
