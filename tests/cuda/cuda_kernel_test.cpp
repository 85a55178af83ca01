// CUDA kernels against sums of small integers, which f32 and bf16 hold exactly.
#include "backends/cuda/cuda_kernel.h"

#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/cuda_check.h"
#include "backends/cuda/cuda_context.h"
#include "tests/cuda/gpu.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <vector>

namespace sextant::cuda_kernel_test {
namespace {

// f32 device memory, poisoned when made without values.
class DeviceVector {
 public:
  explicit DeviceVector(std::size_t size) : size_(size) {
    SEXTANT_CUDA(cudaMalloc(&data_, std::max<std::size_t>(1, size * sizeof(float))));
    SEXTANT_CUDA(cudaMemset(data_, 0xFF, size * sizeof(float)));
  }
  explicit DeviceVector(const std::vector<float>& values) : DeviceVector(values.size()) {
    SEXTANT_CUDA(cudaMemcpy(data_, values.data(), size_ * sizeof(float), cudaMemcpyHostToDevice));
  }
  ~DeviceVector() { cudaFree(data_); }
  DeviceVector(const DeviceVector&) = delete;
  DeviceVector& operator=(const DeviceVector&) = delete;
  void* data() const { return data_; }
  std::vector<float> values() const {
    std::vector<float> host(size_);
    SEXTANT_CUDA(cudaDeviceSynchronize());
    SEXTANT_CUDA(cudaMemcpy(host.data(), data_, size_ * sizeof(float), cudaMemcpyDeviceToHost));
    return host;
  }

 private:
  void* data_ = nullptr;
  std::size_t size_;
};

KernelOperand operand(const DeviceVector& vector, const TensorType& type) {
  KernelOperand operand;
  operand.data = static_cast<std::byte*>(vector.data());
  operand.local = type;
  return operand;
}

// -3 .. 3, another sequence per salt.
std::vector<float> small_integers(std::int64_t count, int salt) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i)
    values.push_back(static_cast<float>((i * 7 + i / 5 + salt) % 7 - 3));
  return values;
}

struct MatmulCase {
  std::int64_t m, n, k;
  bool transpose_w, accumulate;
};

std::vector<float> matmul_oracle(const MatmulCase& c, const std::vector<float>& x,
                                 const std::vector<float>& w, std::vector<float> y) {
  for (std::int64_t i = 0; i < c.m; ++i)
    for (std::int64_t j = 0; j < c.n; ++j) {
      float sum = c.accumulate ? y[static_cast<std::size_t>(i * c.n + j)] : 0.0f;
      for (std::int64_t k = 0; k < c.k; ++k)
        sum += x[static_cast<std::size_t>(i * c.k + k)] *
               w[static_cast<std::size_t>(c.transpose_w ? j * c.k + k : k * c.n + j)];
      y[static_cast<std::size_t>(i * c.n + j)] = sum;
    }
  return y;
}

}  // namespace

TEST_CASE("matmul equals the sum of products for odd, empty, transposed and accumulated shapes" *
          doctest::skip(!has_gpu())) {
  CudaContext device(CudaOptions{});
  for (const MatmulCase& c : std::vector<MatmulCase>{{4, 8, 16, false, false},
                                                     {5, 7, 3, false, false},
                                                     {5, 7, 3, true, false},
                                                     {5, 7, 3, false, true},
                                                     {65, 33, 129, true, true},
                                                     {1, 1, 1, false, false},
                                                     {3, 4, 0, false, false},
                                                     {0, 4, 2, false, false}}) {
    CAPTURE(c.m);
    CAPTURE(c.n);
    CAPTURE(c.k);
    const auto x = small_integers(c.m * c.k, 1);
    const auto w = small_integers(c.k * c.n, 2);
    const auto y = small_integers(c.m * c.n, 3);
    const DeviceVector dx(x), dw(w), dy(y);
    Actor actor;
    actor.kind = "matmul";
    actor.name = "product";
    actor.attributes.set("transpose_w", c.transpose_w);
    KernelContext call;
    call.actor = &actor;
    call.in = {operand(dx, {Shape{c.m, c.k}, DType::kF32}),
               operand(dw, {c.transpose_w ? Shape{c.n, c.k} : Shape{c.k, c.n}, DType::kF32})};
    call.out = {operand(dy, {Shape{c.m, c.n}, DType::kF32})};
    call.accumulate = {c.accumulate};
    cuda_kernels().make(call, device)->enqueue(nullptr);
    CHECK(dy.values() == matmul_oracle(c, x, w, y));
  }
}

TEST_CASE("element-wise kernels write every element, and add when they accumulate" *
          doctest::skip(!has_gpu())) {
  CudaContext device(CudaOptions{});
  for (const std::int64_t count : {0, 1, 255, 1000, 1'000'003}) {
    const auto a = small_integers(count, 1);
    const auto b = small_integers(count, 2);
    for (const char* kind : {"add", "mul"}) {
      for (const bool accumulate : {false, true}) {
        const DeviceVector da(a), db(b);
        const DeviceVector out = DeviceVector(small_integers(count, 4));
        Actor actor;
        actor.kind = kind;
        KernelContext call;
        call.actor = &actor;
        const TensorType type{Shape{count}, DType::kF32};
        call.in = {operand(da, type), operand(db, type)};
        call.out = {operand(out, type)};
        call.accumulate = {accumulate};
        cuda_kernels().make(call, device)->enqueue(nullptr);
        std::vector<float> expected = small_integers(count, 4);
        for (std::size_t i = 0; i < expected.size(); ++i) {
          const float value = std::string(kind) == "add" ? a[i] + b[i] : a[i] * b[i];
          expected[i] = accumulate ? expected[i] + value : value;
        }
        CHECK(out.values() == expected);
      }
    }
  }
}

TEST_CASE("activations agree with double precision to a few units in the last place" *
          doctest::skip(!has_gpu())) {
  CudaContext device(CudaOptions{});
  const auto x = small_integers(701, 5);
  const DeviceVector dx(x);
  const auto run = [&](const char* kind, const char* approximate) {
    const DeviceVector out(x.size());
    Actor actor;
    actor.kind = kind;
    actor.attributes.set("approximate", std::string(approximate));
    KernelContext call;
    call.actor = &actor;
    const TensorType type{Shape{static_cast<std::int64_t>(x.size())}, DType::kF32};
    call.in = {operand(dx, type)};
    call.out = {operand(out, type)};
    call.accumulate = {false};
    cuda_kernels().make(call, device)->enqueue(nullptr);
    return out.values();
  };
  const auto check = [&](const std::vector<float>& got, const std::function<double(double)>& f) {
    for (std::size_t i = 0; i < x.size(); ++i)
      // erff, expf and tanhf are good to 2 ulp; three operations around them add one each. At
      // x = -3 the sum 1 + erf cancels to 0.0027, so the error is relative to 1: 5 * 2^-24 * |x|.
      CHECK(std::abs(got[i] - f(x[i])) <= 5 * 0x1p-24 * 3);
  };
  check(run("gelu", "none"), [](double v) { return 0.5 * v * (1 + std::erf(v / std::sqrt(2.0))); });
  check(run("gelu", "tanh"), [](double v) {
    return 0.5 * v * (1 + std::tanh(std::sqrt(2 / 3.14159265358979) * (v + 0.044715 * v * v * v)));
  });
  check(run("silu", "none"), [](double v) { return v / (1 + std::exp(-v)); });
}

TEST_CASE("a call without kernel is refused by operator, kind and types" *
          doctest::skip(!has_gpu())) {
  CudaContext device(CudaOptions{});
  Actor actor;
  actor.kind = "no_such_kind";
  actor.name = "sum";
  KernelContext call;
  call.actor = &actor;
  call.in.resize(1);
  call.in[0].local = {Shape{2}, DType::kF64};
  CHECK_THROWS_WITH_AS(cuda_kernels().make_all(std::vector{call}, device),
                       "CUDA has no kernel for operator kind 'no_such_kind' ('sum') on 2 f64 ->",
                       NoCudaKernel);
}

}  // namespace sextant::cuda_kernel_test
