// Matrix products on a GPU, alone and with what follows them, against members computed in f64.
// Factors and what is added are multiples of 1/4 below 1: all products and sums are exact in f32,
// so a result may differ only by its own rounding and by cuBLASLt's gelu.
#include "backends/cpu/kernels/shared/kernel.h"
#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/cuda_check.h"
#include "backends/cuda/cuda_context.h"
#include "backends/cuda/cuda_kernel.h"
#include "backends/cuda/kernels/shared/noise.h"
#include "core/base/elements.h"
#include "tests/cuda/gpu.h"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace sextant::matmul_test {
namespace {

// With scratch for all calls of a test: it is allocated once.
class ScratchDevice : public CudaContext {
 public:
  explicit ScratchDevice(const CudaOptions& options = {}) : CudaContext(options) {
    need_scratch(std::size_t{64} << 20);
    allocate_scratch();
  }
};

// A tensor in host memory as f64 and in device memory as its own type.
class Tensor {
 public:
  Tensor(TensorType type, int salt, bool is_poisoned) : type_(std::move(type)) {
    const auto count = static_cast<std::size_t>(type_.shape.elements());
    for (std::size_t i = 0; i < count; ++i) {
      const auto mixed = static_cast<int>((i * 2654435761U + i / 7 + 97U * salt) % 1009 % 7);
      values_.push_back(is_poisoned ? NAN : 0.25 * (mixed - 3));
    }
    std::vector<std::byte> bytes(size());
    store_from_double(type_.dtype, values_, bytes.data());
    SEXTANT_CUDA(cudaMalloc(&device_, size() + 1));
    SEXTANT_CUDA(cudaMemcpy(device_, bytes.data(), size(), cudaMemcpyHostToDevice));
  }
  // Noise, and nothing on the host.
  explicit Tensor(TensorType type) : type_(std::move(type)) {
    SEXTANT_CUDA(cudaMalloc(&device_, size()));
    SEXTANT_CUDA(enqueue_noise({device_, type_.dtype, type_.shape.elements()}, nullptr));
  }
  ~Tensor() { cudaFree(device_); }
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;

  const TensorType& type() const { return type_; }
  bool is_wide() const { return size_of(type_.dtype).value >= 4; }
  const std::vector<double>& values() const { return values_; }
  std::vector<double> on_device() const { return on_device(0, type_.shape.elements()); }
  std::vector<double> on_device(std::int64_t first, std::int64_t count) const {
    const auto element = static_cast<std::size_t>(size_of(type_.dtype).value);
    std::vector<std::byte> bytes(static_cast<std::size_t>(count) * element);
    SEXTANT_CUDA(cudaDeviceSynchronize());
    SEXTANT_CUDA(cudaMemcpy(
        bytes.data(), static_cast<std::byte*>(device_) + static_cast<std::size_t>(first) * element,
        bytes.size(), cudaMemcpyDeviceToHost));
    std::vector<double> values(static_cast<std::size_t>(count));
    load_as_double(type_.dtype, bytes.data(), values);
    return values;
  }
  KernelOperand device_operand() {
    KernelOperand operand;
    operand.data = static_cast<std::byte*>(device_);
    operand.local = type_;
    return operand;
  }
  KernelOperand host_operand() {
    KernelOperand operand;
    operand.data = reinterpret_cast<std::byte*>(values_.data());
    operand.local = {type_.shape, DType::kF64};
    return operand;
  }

 private:
  std::size_t size() const { return static_cast<std::size_t>(size_of(type_).value); }

  TensorType type_;
  std::vector<double> values_;
  void* device_ = nullptr;
};

using Source = ActorMember::Operand::Source;
constexpr Source kIn = Source::kInput, kOut = Source::kOutput, kInner = Source::kInner;
using Seen = std::vector<ActorMember::Operand>;

// A call of a fused kind, or of a plain one: then it has one member, which is the call.
class Call {
 public:
  explicit Call(std::string kind) {
    actor_.kind = std::move(kind);
    actor_.name = "call";
  }
  // Operands from here on hold noise and have no values on the host: for times.
  Call& blank() {
    is_blank_ = true;
    return *this;
  }
  Call& in(const TensorType& type) { return add(ins_, type, false); }
  Call& out(const TensorType& type, bool accumulates = false) {
    accumulates_.push_back(accumulates);
    return add(outs_, type, !accumulates);
  }
  Call& inner(const TensorType& type) {
    actor_.inner.push_back({"inner", LayoutId(), type});
    return add(inners_, type, true);
  }
  Call& member(std::string kind, const Attributes& attributes, Seen in, Seen out) {
    actor_.members.push_back(
        {std::move(kind), "member", attributes, std::move(in), std::move(out)});
    return *this;
  }

  double input(std::size_t index, std::int64_t element) const {
    return ins_[index]->values()[static_cast<std::size_t>(element)];
  }
  std::vector<double> row_of_output(std::int64_t row, std::int64_t columns) const {
    return outs_[0]->on_device(row * columns, columns);
  }

  // Nothing: no kernel covers it.
  std::unique_ptr<CudaKernel> make(CudaContext& device) {
    KernelContext call;
    Actor& plain = plain_;
    plain = actor_;
    if (actor_.kind == actor_.members.front().kind) {
      plain.attributes = actor_.members.front().attributes;
      plain.members.clear();
    }
    call.actor = &plain;
    for (auto& tensor : ins_) call.in.push_back(tensor->device_operand());
    for (auto& tensor : outs_) call.out.push_back(tensor->device_operand());
    call.accumulate = accumulates_;
    return table_.make(call, device);
  }

  // Outputs in f64, by the reference kernels of the members.
  void run_oracle() {
    const KernelTable kernels = reference_kernels();
    for (const ActorMember& member : actor_.members) {
      Actor actor;
      actor.kind = member.kind;
      actor.attributes = member.attributes;
      KernelContext call;
      call.actor = &actor;
      for (const auto& seen : member.in) call.in.push_back(tensor(seen).host_operand());
      for (const auto& seen : member.out) {
        call.out.push_back(tensor(seen).host_operand());
        call.accumulate.push_back(seen.source == kOut &&
                                  accumulates_[static_cast<std::size_t>(seen.index)]);
      }
      Workspace workspace;
      kernels.find(actor.kind, call)(call, workspace);
    }
  }

  // |device - exact| <= one rounding + `gelu`, element by element.
  void check_outputs(double gelu) {
    for (std::size_t i = 0; i < outs_.size(); ++i) {
      const std::vector<double> got = outs_[i]->on_device();
      const std::vector<double>& exact = outs_[i]->values();
      const double unit = unit_of(outs_[i]->type().dtype);
      // What is added to a product of 16 bits may meet it rounded, as it does with members.
      double rounded = 0;
      if (actor_.kind.ends_with("_add") && !outs_[i]->is_wide())
        for (const auto& tensor : inners_)
          for (const double value : tensor->values())
            rounded = std::max(rounded, unit * std::abs(value));
      double worst = 0;
      for (std::size_t e = 0; e < got.size(); ++e) {
        const double excess =
            std::abs(got[e] - exact[e]) - unit * std::abs(exact[e]) - gelu - rounded;
        worst = std::isnan(excess) ? INFINITY : std::max(worst, excess);
      }
      CAPTURE(actor_.kind);
      CAPTURE(i);
      CAPTURE(to_string(outs_[i]->type().shape));
      CAPTURE(to_string(outs_[i]->type().dtype));
      CHECK(worst <= 0);
    }
  }

 private:
  static double unit_of(DType dtype) {
    switch (dtype) {
      case DType::kBF16:
        return 0x1p-8;
      case DType::kF16:
        return 0x1p-11;
      case DType::kF32:
        return 0x1p-24;
      default:
        return 0;
    }
  }
  Call& add(std::vector<std::unique_ptr<Tensor>>& tensors, const TensorType& type,
            bool is_poisoned) {
    if (is_blank_)
      tensors.push_back(std::make_unique<Tensor>(type));
    else
      tensors.push_back(std::make_unique<Tensor>(type, ++salt_, is_poisoned));
    return *this;
  }
  Tensor& tensor(const ActorMember::Operand& seen) {
    auto& tensors = seen.source == kIn ? ins_ : seen.source == kOut ? outs_ : inners_;
    return *tensors[static_cast<std::size_t>(seen.index)];
  }

  CudaKernelTable table_ = cuda_kernels();
  Actor actor_, plain_;
  std::vector<std::unique_ptr<Tensor>> ins_, outs_, inners_;
  std::vector<bool> accumulates_;
  int salt_ = 0;
  bool is_blank_ = false;
};

// Median of five times of ten launches in a row.
double seconds_of(CudaKernel& kernel) {
  cudaEvent_t begin = nullptr, end = nullptr;
  SEXTANT_CUDA(cudaEventCreate(&begin));
  SEXTANT_CUDA(cudaEventCreate(&end));
  std::vector<float> times;
  for (int round = 0; round < 6; ++round) {
    SEXTANT_CUDA(cudaEventRecord(begin, nullptr));
    for (int i = 0; i < 10; ++i) kernel.enqueue(nullptr);
    SEXTANT_CUDA(cudaEventRecord(end, nullptr));
    SEXTANT_CUDA(cudaEventSynchronize(end));
    times.emplace_back();
    SEXTANT_CUDA(cudaEventElapsedTime(&times.back(), begin, end));
  }
  SEXTANT_CUDA(cudaEventDestroy(begin));
  SEXTANT_CUDA(cudaEventDestroy(end));
  std::sort(times.begin() + 1, times.end());
  return static_cast<double>(times[3]) * 1e-4;
}

// Runs it where a kernel covers it; whether one does.
bool check(Call& call, CudaContext& device, double gelu = 0) {
  const auto kernel = call.make(device);
  if (kernel == nullptr) return false;
  kernel->enqueue(nullptr);
  call.run_oracle();
  call.check_outputs(gelu);
  return true;
}

constexpr DType kFloats[] = {DType::kF64, DType::kF32, DType::kBF16, DType::kF16};
constexpr DType kHalves[] = {DType::kBF16, DType::kF16};

struct Sizes {
  std::int64_t m, n, k;
};
// Tiles and their halves, odd ones, one row, one column, and nothing.
const std::vector<Sizes> kSizes = {{64, 128, 96}, {5, 7, 3}, {65, 33, 129}, {1, 8, 64}, {16, 1, 8},
                                   {256, 24, 40}, {0, 8, 4}, {8, 0, 4},     {8, 4, 0}};

// cuBLASLt's gelu is off by up to 2^-11 |x| where it takes the hardware's tanh; |x| < 2 + k / 16
// here, and its slope by as much times the gradient and a few.
constexpr double kGelu = 0.02;

}  // namespace

TEST_CASE("matmul of every type, size and transposition is the exact sum, rounded once" *
          doctest::skip(!has_gpu())) {
  ScratchDevice device;
  for (const DType in : kFloats)
    for (const DType out : kFloats)
      for (const auto& [m, n, k] : kSizes)
        for (const bool transposed : {false, true})
          for (const bool accumulates : {false, true}) {
            CAPTURE(to_string(in));
            CAPTURE(m);
            CAPTURE(n);
            CAPTURE(k);
            CAPTURE(transposed);
            CAPTURE(accumulates);
            Call matmul("matmul");
            matmul.in({{2, m, k}, in})
                .in({transposed ? Shape{n, k} : Shape{k, n}, in})
                .out({{2, m, n}, out}, accumulates)
                .member("matmul", {{"transpose_w", transposed}}, {{kIn, 0}, {kIn, 1}}, {{kOut, 0}});
            CHECK(check(matmul, device));
            Call weight("matmul_grad_weight");
            weight.in({{2, m, k}, in})
                .in({{2, m, n}, in})
                .out({transposed ? Shape{n, k} : Shape{k, n}, out}, accumulates)
                .member("matmul_grad_weight", {{"transpose_w", transposed}}, {{kIn, 0}, {kIn, 1}},
                        {{kOut, 0}});
            CHECK(check(weight, device));
          }
}

TEST_CASE("batch_matmul of every type, size and transposition is the exact sum, rounded once" *
          doctest::skip(!has_gpu())) {
  ScratchDevice device;
  const auto run = [&](std::int64_t batch, const Sizes& sizes, DType in, DType out, bool in_x,
                       bool in_w, bool accumulates) {
    const auto& [m, n, k] = sizes;
    CAPTURE(to_string(in));
    CAPTURE(m);
    CAPTURE(n);
    CAPTURE(k);
    CAPTURE(in_x);
    CAPTURE(in_w);
    Call call("batch_matmul");
    call.in({in_x ? Shape{batch, k, m} : Shape{batch, m, k}, in})
        .in({in_w ? Shape{batch, n, k} : Shape{batch, k, n}, in})
        .out({{batch, m, n}, out}, accumulates)
        .member("batch_matmul", {{"transpose_x", in_x}, {"transpose_w", in_w}},
                {{kIn, 0}, {kIn, 1}}, {{kOut, 0}});
    CHECK(check(call, device));
  };
  for (const DType in : kFloats)
    for (const Sizes& sizes : kSizes)
      for (const bool in_x : {false, true})
        for (const bool in_w : {false, true}) run(3, sizes, in, in, in_x, in_w, in_x != in_w);
  run(4, {65, 33, 129}, DType::kBF16, DType::kF32, true, false, true);
  run(0, {4, 4, 4}, DType::kF32, DType::kF32, false, false, false);
  // More than one call of cuBLASLt takes.
  run(70'000, {2, 3, 4}, DType::kF32, DType::kF32, false, true, true);
  run(70'000, {8, 8, 8}, DType::kBF16, DType::kBF16, true, false, false);
}

TEST_CASE("a product of more than 2^32 elements is right in its first, middle and last rows" *
          doctest::skip(!has_gpu())) {
  ScratchDevice device;
  constexpr std::int64_t kRows = 65'537, kColumns = 65'536, kK = 16;
  std::size_t free = 0, total = 0;
  SEXTANT_CUDA(cudaMemGetInfo(&free, &total));
  if (free < std::size_t{10} << 30) {
    MESSAGE("skipped: less than 10 GiB free");
    return;
  }
  for (const DType out : {DType::kBF16, DType::kF16}) {  // cuBLASLt, the general kernel
    CAPTURE(to_string(out));
    Call call("matmul");
    call.in({{kRows, kK}, DType::kBF16}).in({{kK, kColumns}, DType::kBF16}).blank();
    call.out({{kRows, kColumns}, out});
    call.member("matmul", {}, {{kIn, 0}, {kIn, 1}}, {{kOut, 0}});
    call.make(device)->enqueue(nullptr);
    for (const std::int64_t row : {std::int64_t{0}, kRows / 2, kRows - 1}) {
      const std::vector<double> got = call.row_of_output(row, kColumns);
      double worst = 0;
      for (std::int64_t column = 0; column < kColumns; ++column) {
        double exact = 0;
        for (std::int64_t k = 0; k < kK; ++k)
          exact += call.input(0, row * kK + k) * call.input(1, k * kColumns + column);
        worst = std::max(worst, std::abs(got[static_cast<std::size_t>(column)] - exact) -
                                    0x1p-8 * std::abs(exact));
      }
      CAPTURE(row);
      CHECK(worst <= 0);
    }
  }
}

TEST_CASE("a matmul with bias, and with what is added to it, equals its members" *
          doctest::skip(!has_gpu())) {
  ScratchDevice device;
  for (const DType dtype : kFloats)
    for (const auto& [m, n, k] : kSizes)
      for (const bool transposed : {false, true}) {
        CAPTURE(to_string(dtype));
        CAPTURE(m);
        CAPTURE(n);
        CAPTURE(k);
        const TensorType x{{m, k}, dtype}, w{transposed ? Shape{n, k} : Shape{k, n}, dtype};
        const TensorType b{{n}, dtype}, y{{m, n}, dtype};
        const Attributes attributes{{"transpose_w", transposed}};
        const bool must = m * n * k > 0 && dtype != DType::kF64 && n % 8 == 0;
        for (const bool accumulates : {false, true}) {
          Call bias("matmul_bias");
          bias.in(x).in(w).in(b).out(y, accumulates).inner(y);
          bias.member("matmul", attributes, {{kIn, 0}, {kIn, 1}}, {{kInner, 0}})
              .member("bias_add", {}, {{kInner, 0}, {kIn, 2}}, {{kOut, 0}});
          const bool covered = check(bias, device);
          // What accumulates in 16 bits is left to the members.
          if (must && (!accumulates || dtype == DType::kF32)) CHECK(covered);
        }
        for (const int product : {0, 1}) {
          const ActorMember::Operand made{kInner, 0}, other{kIn, 2};
          Call sum("matmul_add");
          sum.in(x).in(w).in(y).out(y).inner(y);
          sum.member("matmul", attributes, {{kIn, 0}, {kIn, 1}}, {{kInner, 0}})
              .member("add", {}, product == 0 ? Seen{made, other} : Seen{other, made}, {{kOut, 0}});
          const bool covered = check(sum, device);
          if (must) CHECK(covered);
        }
        Call both("matmul_bias_add");
        both.in(x).in(w).in(b).in(y).out(y).inner(y).inner(y);
        both.member("matmul", attributes, {{kIn, 0}, {kIn, 1}}, {{kInner, 0}})
            .member("bias_add", {}, {{kInner, 0}, {kIn, 2}}, {{kInner, 1}})
            .member("add", {}, {{kIn, 3}, {kInner, 1}}, {{kOut, 0}});
        const bool covered = check(both, device);
        if (must) CHECK(covered);
      }
}

TEST_CASE("a matmul with gelu and its gradient equals its members as far as its tanh goes" *
          doctest::skip(!has_gpu())) {
  ScratchDevice device;
  const Attributes tanh{{"approximate", "tanh"}};
  for (const DType dtype : kHalves)
    for (const auto& [m, n, k] : kSizes)
      for (const bool transposed : {false, true}) {
        CAPTURE(to_string(dtype));
        CAPTURE(m);
        CAPTURE(n);
        CAPTURE(k);
        const TensorType x{{m, k}, dtype}, w{transposed ? Shape{n, k} : Shape{k, n}, dtype};
        const TensorType b{{n}, dtype}, y{{m, n}, dtype};
        const Attributes attributes{{"transpose_w", transposed}};
        const bool must = m * n * k > 0 && n % 8 == 0 && k % 8 == 0;
        for (const bool keeps : {false, true}) {
          const ActorMember::Operand before{keeps ? kOut : kInner, keeps ? 0 : 1};
          const ActorMember::Operand after{kOut, keeps ? 1 : 0};
          Call gelu("matmul_bias_gelu");
          gelu.in(x).in(w).in(b).inner(y);
          if (keeps)
            gelu.out(y);
          else
            gelu.inner(y);
          gelu.out(y);
          gelu.member("matmul", attributes, {{kIn, 0}, {kIn, 1}}, {{kInner, 0}})
              .member("bias_add", {}, {{kInner, 0}, {kIn, 2}}, {before})
              .member("gelu", tanh, {before}, {after});
          const bool covered = check(gelu, device, kGelu);
          if (must) CHECK(covered);
        }
        Call grad("matmul_gelu_grad");
        grad.in(x).in(w).in(y).out(y).inner(y);
        grad.member("matmul", attributes, {{kIn, 0}, {kIn, 1}}, {{kInner, 0}})
            .member("gelu_grad", tanh, {{kIn, 2}, {kInner, 0}}, {{kOut, 0}});
        const bool covered = check(grad, device, kGelu * static_cast<double>(k));
        if (must) CHECK(covered);
      }
}

TEST_CASE("the other form of gelu, and f32, are left to the members" * doctest::skip(!has_gpu())) {
  ScratchDevice device;
  for (const bool is_f32 : {false, true}) {
    const TensorType y{{16, 16}, is_f32 ? DType::kF32 : DType::kBF16};
    Call call("matmul_bias_gelu");
    call.in(y).in(y).in({{16}, y.dtype}).inner(y).inner(y).out(y);
    call.member("matmul", {}, {{kIn, 0}, {kIn, 1}}, {{kInner, 0}})
        .member("bias_add", {}, {{kInner, 0}, {kIn, 2}}, {{kInner, 1}})
        .member("gelu", {{"approximate", is_f32 ? "tanh" : "none"}}, {{kInner, 1}}, {{kOut, 0}});
    CHECK_FALSE(check(call, device));
  }
}

TEST_CASE("the gradient of a weight with that of its bias equals its members" *
          doctest::skip(!has_gpu())) {
  ScratchDevice device;
  std::map<std::string, int> covered, all;
  for (const DType in : kFloats)
    for (const DType out : {in, DType::kF32})
      for (const auto& [m, n, k] : kSizes)
        for (const bool transposed : {false, true})
          for (const int accumulates : {0, 3}) {
            if (in != DType::kBF16 && in != DType::kF16 && out != in) continue;
            CAPTURE(to_string(in));
            CAPTURE(m);
            CAPTURE(n);
            CAPTURE(k);
            CAPTURE(transposed);
            CAPTURE(accumulates);
            Call call("matmul_grad_weight_bias");
            call.in({{2, m, k}, in})
                .in({{2, m, n}, in})
                .out({transposed ? Shape{n, k} : Shape{k, n}, out}, (accumulates & 1) != 0)
                .out({{n}, out}, (accumulates & 2) != 0)
                .member("matmul_grad_weight", {{"transpose_w", transposed}}, {{kIn, 0}, {kIn, 1}},
                        {{kOut, 0}})
                .member("reduce_to_bias", {}, {{kIn, 1}}, {{kOut, 1}});
            const std::string what = std::string(to_string(in)) + " -> " +
                                     std::string(to_string(out)) + (transposed ? " dy^T x" : "");
            covered[what] += check(call, device) ? 1 : 0;
            ++all[what];
          }
  for (const auto& [what, count] : all)
    MESSAGE("cuBLASLt sums beside " << covered[what] << " of " << count << " products " << what);
}

// Not a test of numbers: what the products of a GPT-2 medium layer take, by the first algorithm of
// the heuristic and by the fastest, and what fusing spares.
TEST_CASE("times of the products of GPT-2 medium, 16 x 1024 tokens" * doctest::skip(!has_gpu())) {
  CudaContext first(CudaOptions{});
  CudaOptions options;
  options.tune_matmuls = true;
  CudaContext tuned(options);
  constexpr std::int64_t kTokens = 16 * 1024;
  const auto report = [&](const std::string& name, Call& call, double flops) {
    double seconds[2] = {0, 0};
    CudaContext* const devices[2] = {&first, &tuned};
    for (int i = 0; i < 2; ++i) {
      const auto kernel = call.make(*devices[i]);
      if (kernel != nullptr) seconds[i] = seconds_of(*kernel);
    }
    const auto text = [&](double time) {
      return time == 0 ? fmt::format("{:>21}", "by members")
                       : fmt::format("{:8.1f} us {:5.0f} TF/s", time * 1e6, flops / time * 1e-12);
    };
    fmt::print("matmul {:<34} {} {}\n", name, text(seconds[0]), text(seconds[1]));
  };
  const DType half = DType::kBF16;
  struct Layer {
    const char* name;
    std::int64_t k, n;
  };
  fmt::print("matmul {:<34} {:>21} {:>21}\n", "", "first", "measured");
  for (const auto& [name, k, n] : {Layer{"qkvo", 1024, 1024}, Layer{"up", 1024, 4096},
                                   Layer{"down", 4096, 1024}, Layer{"head", 1024, 50304}}) {
    const double flops = 2.0 * kTokens * static_cast<double>(k) * static_cast<double>(n);
    const TensorType x{{kTokens, k}, half}, w{{k, n}, half}, y{{kTokens, n}, half}, b{{n}, half};
    const TensorType dw{{k, n}, DType::kF32}, db{{n}, DType::kF32};
    const Seen factors{{kIn, 0}, {kIn, 1}}, inner{{kInner, 0}};
    const std::string of = name;
    Call forward("matmul");
    forward.blank().in(x).in(w).out(y).member("matmul", {}, factors, {{kOut, 0}});
    report(of, forward, flops);
    Call backward("matmul");
    backward.blank().in(y).in(w).out(x);
    backward.member("matmul", {{"transpose_w", true}}, factors, {{kOut, 0}});
    report(of + " grad_input", backward, flops);
    Call weight("matmul_grad_weight");
    weight.blank().in(x).in(y).out(dw).member("matmul_grad_weight", {}, factors, {{kOut, 0}});
    report(of + " grad_weight", weight, flops);
    Call both("matmul_grad_weight_bias");
    both.blank().in(x).in(y).out(dw).out(db);
    both.member("matmul_grad_weight", {}, factors, {{kOut, 0}})
        .member("reduce_to_bias", {}, {{kIn, 1}}, {{kOut, 1}});
    report(of + " grad_weight_bias", both, flops);
    Call bias("matmul_bias");
    bias.blank().in(x).in(w).in(b).out(y).inner(y).member("matmul", {}, factors, inner);
    bias.member("bias_add", {}, {{kInner, 0}, {kIn, 2}}, {{kOut, 0}});
    report(of + " bias", bias, flops);
    if (n == 1024) {
      Call sum("matmul_bias_add");
      sum.blank().in(x).in(w).in(b).in(y).out(y).inner(y).inner(y);
      sum.member("matmul", {}, factors, inner)
          .member("bias_add", {}, {{kInner, 0}, {kIn, 2}}, {{kInner, 1}})
          .member("add", {}, {{kIn, 3}, {kInner, 1}}, {{kOut, 0}});
      report(of + " bias_add", sum, flops);
      Call add("matmul_add");
      add.blank().in(y).in(w).in(x).out(x).inner(x);
      add.member("matmul", {{"transpose_w", true}}, factors, inner)
          .member("add", {}, {{kIn, 2}, {kInner, 0}}, {{kOut, 0}});
      report(of + " grad_input add", add, flops);
    }
    if (n == 4096) {
      Call gelu("matmul_bias_gelu");
      gelu.blank().in(x).in(w).in(b).out(y).out(y).inner(y).member("matmul", {}, factors, inner);
      gelu.member("bias_add", {}, {{kInner, 0}, {kIn, 2}}, {{kOut, 0}})
          .member("gelu", {{"approximate", "tanh"}}, {{kOut, 0}}, {{kOut, 1}});
      report(of + " bias_gelu, both kept", gelu, flops);
    }
    if (k == 4096) {
      Call grad("matmul_gelu_grad");
      grad.blank().in(y).in(w).in(x).out(x).inner(x);
      grad.member("matmul", {{"transpose_w", true}}, factors, inner)
          .member("gelu_grad", {{"approximate", "tanh"}}, {{kIn, 2}, {kInner, 0}}, {{kOut, 0}});
      report(of + " grad_input gelu_grad", grad, flops);
    }
  }
}

TEST_CASE("measured algorithms give the numbers of the others and are kept in a file" *
          doctest::skip(!has_gpu())) {
  const std::string path =
      (std::filesystem::temp_directory_path() / "sextant_matmul_cache_test.json").string();
  std::filesystem::remove(path);
  std::vector<std::string> notices;
  CudaOptions options;
  options.tune_matmuls = true;
  options.matmul_cache = path;
  options.notice = [&](const std::string& text) { notices.push_back(text); };
  const auto run = [&] {
    ScratchDevice device(options);
    for (const auto& [m, n, k] : kSizes) {
      const TensorType y{{m, n}, DType::kBF16};
      Call call("matmul_bias");
      call.in({{m, k}, y.dtype}).in({{k, n}, y.dtype}).in({{n}, y.dtype}).inner(y).out(y);
      call.member("matmul", {}, {{kIn, 0}, {kIn, 1}}, {{kInner, 0}})
          .member("bias_add", {}, {{kInner, 0}, {kIn, 2}}, {{kOut, 0}});
      check(call, device);
    }
  };
  const auto text = [&] {
    std::ifstream file(path);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  run();
  const std::string first = text();
  CHECK(first.find("sextant_cublaslt_algorithms") != std::string::npos);
  CHECK(first.find("128x64x96 nn bf16->bf16 *1 +0 bias") != std::string::npos);
  CHECK(notices.empty());
  run();
  CHECK(text() == first);  // nothing was measured again
  CHECK(notices.empty());
  std::string foreign = first;
  const std::size_t card = foreign.find("sm_");
  REQUIRE(card != std::string::npos);
  foreign.replace(card, 3, "zz_");
  std::ofstream(path) << foreign;
  run();
  REQUIRE(notices.size() == 1);
  CHECK(notices[0].find("measured with card") != std::string::npos);
  std::ofstream(path) << "{\"plan\": 1}";
  CHECK_THROWS_AS(run(), Error);
  std::filesystem::remove(path);
}

}  // namespace sextant::matmul_test
