// How fast memory-bound kernels move bytes, beside the copy of the same card: printed, and held
// against a share of it that a card which others use too still reaches.
#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/cuda_check.h"
#include "backends/cuda/cuda_context.h"
#include "backends/cuda/cuda_kernel.h"
#include "backends/cuda/machine/bench_fill.h"
#include "core/graphs/physical_graph.h"
#include "tests/cuda/gpu.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace sextant::bandwidth_test {
namespace {

// Device memory that is given out in aligned pieces, all zero.
class Memory {
 public:
  static constexpr std::size_t kAlignment = 256;

  explicit Memory(std::size_t bytes) : size_(bytes) {
    SEXTANT_CUDA(cudaMalloc(reinterpret_cast<void**>(&data_), bytes));
    SEXTANT_CUDA(cudaMemset(data_, 0, bytes));
    SEXTANT_CUDA(cudaDeviceSynchronize());  // the streams that use it do not wait for this one
  }
  ~Memory() { cudaFree(data_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  std::byte* take(std::size_t bytes) {
    std::byte* taken = data_ + used_;
    used_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    REQUIRE(used_ <= size_);
    return taken;
  }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_, used_ = 0;
};

// Calls of kernels on tensors that are whole.
class Calls {
 public:
  explicit Calls(std::size_t bytes) : memory_(bytes) {}

  KernelOperand tensor(const TensorType& type) {
    layouts_.push_back({type, {Sbp::broadcast()}, PlacementId(0)});
    KernelOperand operand;
    operand.data = memory_.take(static_cast<std::size_t>(size_of(type).value));
    operand.local = type;
    operand.layout = &layouts_.back();
    for (const std::int64_t extent : type.shape.extents()) operand.box.dims.push_back({0, extent});
    return operand;
  }
  KernelContext call(const std::string& kind, Attributes attributes, std::vector<KernelOperand> in,
                     std::vector<KernelOperand> out) {
    Actor& actor = actors_.emplace_back();
    actor.kind = actor.name = kind;
    actor.attributes = std::move(attributes);
    KernelContext context;
    context.actor = &actor;
    context.accumulate.assign(out.size(), false);
    context.in = std::move(in);
    context.out = std::move(out);
    context.hierarchy = {1};
    context.coordinates = {0};
    return context;
  }
  // Of a fused kind, with one tensor inside.
  KernelContext call(const std::string& kind, std::vector<ActorMember> members,
                     const TensorType& inner, std::vector<KernelOperand> in,
                     std::vector<KernelOperand> out) {
    KernelContext context = call(kind, Attributes(), std::move(in), std::move(out));
    actors_.back().members = std::move(members);
    actors_.back().inner.push_back({"inner", LayoutId(), inner});
    return context;
  }

 private:
  Memory memory_;
  std::deque<Layout> layouts_;
  std::deque<Actor> actors_;
};

using Kernels = std::vector<std::unique_ptr<CudaKernel>>;

// Median over ten rounds, after two. `prepare` enqueues what goes before each.
template <typename Prepare>
double seconds_of(const Kernels& kernels, cudaStream_t stream, const Prepare& prepare) {
  cudaEvent_t begin = nullptr, end = nullptr;
  SEXTANT_CUDA(cudaEventCreate(&begin));
  SEXTANT_CUDA(cudaEventCreate(&end));
  std::vector<float> times;
  for (int round = 0; round < 12; ++round) {
    prepare();
    SEXTANT_CUDA(cudaEventRecord(begin, stream));
    for (const auto& kernel : kernels) kernel->enqueue(stream);
    SEXTANT_CUDA(cudaEventRecord(end, stream));
    SEXTANT_CUDA(cudaEventSynchronize(end));
    float milliseconds = 0;
    SEXTANT_CUDA(cudaEventElapsedTime(&milliseconds, begin, end));
    if (round >= 2) times.push_back(milliseconds);
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  std::sort(times.begin(), times.end());
  return static_cast<double>(times[times.size() / 2]) * 1e-3;
}

class CudaCopy final : public CudaKernel {
 public:
  CudaCopy(std::byte* to, const std::byte* from, std::size_t bytes)
      : to_(to), from_(from), bytes_(bytes) {}
  void enqueue(cudaStream_t stream) override {
    SEXTANT_CUDA(cudaMemcpyAsync(to_, from_, bytes_, cudaMemcpyDeviceToDevice, stream));
  }

 private:
  std::byte* to_;
  const std::byte* from_;
  std::size_t bytes_;
};

class Bench {
 public:
  Bench() : device_(CudaOptions{}), read_(kRead + Memory::kAlignment) {
    device_.need_scratch(std::size_t{2} << 30);  // for all kernels measured: it is allocated once
    device_.allocate_scratch();
    SEXTANT_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    constexpr std::size_t kCopied = std::size_t{1} << 30;
    Memory memory(2 * kCopied);
    Kernels copy;
    copy.push_back(std::make_unique<CudaCopy>(memory.take(kCopied), memory.take(kCopied), kCopied));
    from_ = read_.take(kRead);
    never_ = reinterpret_cast<std::uint32_t*>(read_.take(sizeof(std::uint32_t)));
    copy_rate_ = 2.0 * static_cast<double>(kCopied) / seconds_of(copy);
    std::printf("%-44s %8.0f GB/s\n", "copy of 1 GiB", copy_rate_ * 1e-9);
  }
  ~Bench() { cudaStreamDestroy(stream_); }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  // Each group is made as one run. Returns the share of the copy's rate.
  double measure(const std::string& name, const std::vector<std::vector<KernelContext>>& runs,
                 double bytes) {
    const double seconds = time(runs);
    const double share = bytes / seconds / copy_rate_;
    std::printf("%-44s %8.1f us %8.0f GB/s %5.1f %% of a copy\n", name.c_str(), seconds * 1e6,
                bytes / seconds * 1e-9, 100 * share);
    std::fflush(stdout);
    return share;
  }

  void measure_flops(const std::string& name, const std::vector<std::vector<KernelContext>>& runs,
                     double flops) {
    const double seconds = time(runs);
    std::printf("%-60s %8.1f us %8.1f TFLOP/s\n", name.c_str(), seconds * 1e6,
                flops / seconds * 1e-12);
    std::fflush(stdout);
  }

 private:
  double time(const std::vector<std::vector<KernelContext>>& runs) {
    Kernels kernels;
    for (const auto& run : runs)
      for (auto& kernel : cuda_kernels().make_all(run, device_))
        kernels.push_back(std::move(kernel));
    return seconds_of(kernels);
  }
  // Behind a read of more than the caches hold: nothing is warm, and the launches wait on the card,
  // not for the host.
  double seconds_of(const Kernels& kernels) {
    return bandwidth_test::seconds_of(
        kernels, stream_, [&] { SEXTANT_CUDA(enqueue_read(from_, kRead, never_, stream_)); });
  }

  static constexpr std::size_t kRead = std::size_t{256} << 20;

  CudaContext device_;
  Memory read_;
  std::byte* from_ = nullptr;
  std::uint32_t* never_ = nullptr;
  cudaStream_t stream_ = nullptr;
  double copy_rate_ = 0;
};

// Elements of the parameters of a layer of GPT-2 medium.
std::vector<std::int64_t> layer_of_medium() {
  std::vector<std::int64_t> sizes;
  for (int product = 0; product < 4; ++product) {
    sizes.push_back(1024 * 1024);
    sizes.push_back(1024);
  }
  for (const std::int64_t size : {4 * 1024 * 1024, 4096, 4 * 1024 * 1024, 1024})
    sizes.push_back(size);
  for (int norm = 0; norm < 4; ++norm) sizes.push_back(1024);
  return sizes;
}

}  // namespace

TEST_CASE("updates and norms of the parameters of GPT-2 medium run near the rate of a copy" *
          doctest::skip(!has_gpu())) {
  Bench bench;
  Calls calls(std::size_t{7} << 30);
  const KernelOperand control = calls.tensor({Shape{2}, DType::kF64});
  const double one[] = {1.0, 1.0};
  SEXTANT_CUDA(cudaMemcpy(control.data, one, sizeof(one), cudaMemcpyHostToDevice));
  const Attributes options{{"learning_rate", 1e-4},
                           {"weight_decay", 0.1},
                           {"beta1", 0.9},
                           {"beta2", 0.95},
                           {"epsilon", 1e-8}};
  std::vector<std::vector<KernelContext>> updates, norms;
  std::vector<KernelContext> all;
  double elements = 0;
  for (int layer = 0; layer <= 24; ++layer) {
    updates.emplace_back();
    norms.emplace_back();
    const std::vector<std::int64_t> sizes =
        layer == 0 ? std::vector<std::int64_t>{50257 * 1024, 1024 * 1024} : layer_of_medium();
    for (const std::int64_t size : sizes) {
      elements += static_cast<double>(size);
      const TensorType state{Shape{size}, DType::kF32};
      const KernelOperand gradient = calls.tensor({Shape{size}, DType::kBF16});
      updates.back().push_back(
          calls.call("adamw", options, {gradient, control},
                     {calls.tensor(state), calls.tensor(state), calls.tensor(state),
                      calls.tensor({Shape(), DType::kI64})}));
      all.push_back(updates.back().back());
      norms.back().push_back(
          calls.call("gradient_stats", {}, {gradient}, {calls.tensor({Shape{2}, DType::kF64})}));
    }
  }
  CHECK(bench.measure("adamw, bf16 gradients, all in one run", {all}, 26 * elements) > 0.25);
  CHECK(bench.measure("adamw, bf16 gradients, a run per layer", updates, 26 * elements) > 0.25);
  bench.measure("adamw, a layer", {updates[1]}, 26 * 12'596'224.0);
  CHECK(bench.measure("gradient_stats, a run per layer", norms, 2 * elements) > 0.25);
}

TEST_CASE("moves run near the rate of a copy" * doctest::skip(!has_gpu())) {
  Bench bench;
  const auto move = [&](const std::string& name, const std::string& kind,
                        const Attributes& attributes, const std::vector<TensorType>& inputs,
                        const std::vector<TensorType>& outputs, double least) {
    Calls calls(std::size_t{3} << 30);
    std::vector<KernelOperand> in, out;
    double bytes = 0;
    for (const TensorType& type : inputs) in.push_back(calls.tensor(type));
    for (const TensorType& type : outputs) {
      out.push_back(calls.tensor(type));
      bytes += 2 * static_cast<double>(size_of(type).value);
    }
    const double share = bench.measure(name, {{calls.call(kind, attributes, in, out)}}, bytes);
    CHECK_MESSAGE(share > least, name);
  };
  using Integers = std::vector<std::int64_t>;
  const auto dim = [](std::int64_t at) {
    return std::pair<std::string, AttributeValue>("dim", at);
  };
  const DType bf16 = DType::kBF16, f32 = DType::kF32;
  const TensorType heads{{16, 1024, 16, 64}, bf16}, positions{{16, 16, 1024, 64}, bf16};
  move("reshape [16,1024,1024] bf16", "reshape", {{"shape", Integers{16384, 1024}}},
       {{{16, 1024, 1024}, bf16}}, {{{16384, 1024}, bf16}}, 0.4);
  move("reshape [256 Mi] f32", "reshape", {{"shape", Integers{1 << 28}}}, {{{1 << 28}, f32}},
       {{{1 << 28}, f32}}, 0.5);
  move("transpose heads [16,1024,16,64] bf16", "transpose", {{"permutation", Integers{0, 2, 1, 3}}},
       {heads}, {positions}, 0.3);
  move("transpose [16384,16384] bf16", "transpose", {{"permutation", Integers{1, 0}}},
       {{{16384, 16384}, bf16}}, {{{16384, 16384}, bf16}}, 0.3);
  move("transpose [16384,8192] f32", "transpose", {{"permutation", Integers{1, 0}}},
       {{{16384, 8192}, f32}}, {{{8192, 16384}, f32}}, 0.3);
  move("split [65536,3072] bf16 in 3", "split", {dim(1), {"extents", Integers{1024, 1024, 1024}}},
       {{{65536, 3072}, bf16}},
       {{{65536, 1024}, bf16}, {{65536, 1024}, bf16}, {{65536, 1024}, bf16}}, 0.4);
  move("slice [65536,4099] bf16, odd rows", "slice",
       {dim(1), {"start", std::int64_t{1}}, {"stop", std::int64_t{4096}}}, {{{65536, 4099}, bf16}},
       {{{65536, 4095}, bf16}}, 0.1);
  move("expand last [262144] to [262144,1024] bf16", "expand",
       {{"dims", Integers{1}}, {"shape", Integers{262144, 1024}}}, {{{262144}, bf16}},
       {{{262144, 1024}, bf16}}, 0.1);
  move("gather 262144 rows of [50257,1024] bf16", "gather", {dim(0)},
       {{{50257, 1024}, bf16}, {{262144}, DType::kI32}}, {{{262144, 1024}, bf16}}, 0.1);
  move("cumsum [65536,4096] f32 along the last", "cumsum", {dim(1)}, {{{65536, 4096}, f32}},
       {{{65536, 4096}, f32}}, 0.1);
}

// x, dy and what is added are read once, the sum is written once: the rest is small.
TEST_CASE("all gradients of a norm take little more than one pass" * doctest::skip(!has_gpu())) {
  Bench bench;
  using Source = ActorMember::Operand::Source;
  const auto in = [](std::int32_t index) { return ActorMember::Operand{Source::kInput, index}; };
  const auto out = [](std::int32_t index) { return ActorMember::Operand{Source::kOutput, index}; };
  const ActorMember::Operand inner{Source::kInner, 0};
  struct Case {
    std::int64_t rows, length;
    bool is_centred, sums_dx;
  };
  for (const auto& [rows, length, is_centred, sums_dx] :
       {Case{16384, 1024, true, true}, Case{16384, 1024, true, false}, Case{8192, 1600, true, true},
        Case{8192, 1600, true, false}, Case{8192, 4096, true, true}, Case{8192, 4096, true, false},
        Case{16384, 2048, false, false}, Case{8192, 3072, false, false},
        Case{8192, 8192, false, false}}) {
    Calls calls(std::size_t{4} << 30);
    const TensorType x{{rows, length}, DType::kBF16}, row{{rows}, DType::kF32},
        gamma{{length}, DType::kBF16}, sum{{length}, DType::kF32};
    const std::string norm = is_centred ? "layer_norm" : "rms_norm";
    std::vector<TensorType> inputs = {x, gamma, row, x, x};
    if (is_centred) inputs.insert(inputs.begin() + 2, row);
    const auto dy = static_cast<std::int32_t>(inputs.size()) - 2;
    std::vector<KernelOperand> operands, results = {calls.tensor(x)};
    for (const TensorType& input : inputs) operands.push_back(calls.tensor(input));
    std::vector<ActorMember::Operand> of_input, of_weight = {in(0)}, weights;
    for (std::int32_t i = 0; i <= dy; ++i) {
      of_input.push_back(in(i));
      if (i > 1) of_weight.push_back(in(i));
    }
    for (std::int32_t i = 1; i <= (is_centred ? 2 : 1); ++i) {
      results.push_back(calls.tensor(sum));
      weights.push_back(out(i));
    }
    std::vector<ActorMember> members = {{norm + "_grad_input", "dx", {}, of_input, {inner}},
                                        {"add", "sum", {}, {in(dy + 1), inner}, {out(0)}},
                                        {norm + "_grad_weight", "weights", {}, of_weight, weights}};
    if (sums_dx) {
      results.push_back(calls.tensor(sum));
      members.push_back({"reduce_to_bias", "bias", {}, {out(0)}, {out(3)}});
    }
    const std::string kind = norm + "_grads_add" + (sums_dx ? "_bias" : "");
    const double share = bench.measure(kind + " " + to_string(x.shape),
                                       {{calls.call(kind, members, x, operands, results)}},
                                       4 * static_cast<double>(size_of(x).value));
    CHECK_MESSAGE(share > 0.25, kind);
  }
}

TEST_CASE("norms, reductions, embeddings and the loss run near the rate of a copy" *
          doctest::skip(!has_gpu())) {
  Bench bench;
  using Integers = std::vector<std::int64_t>;
  const DType bf16 = DType::kBF16, f32 = DType::kF32, i32 = DType::kI32;
  // Ids and labels are spread over `below`; every tensor is read or written once.
  const auto measure = [&](const std::string& kind, const Attributes& attributes,
                           const std::vector<TensorType>& inputs,
                           const std::vector<TensorType>& outputs, std::int64_t below,
                           double least) {
    Calls calls(std::size_t{4} << 30);
    std::vector<KernelOperand> in, out;
    double bytes = 0;
    for (const TensorType& type : inputs) {
      in.push_back(calls.tensor(type));
      bytes += static_cast<double>(size_of(type).value);
      if (type.dtype != i32) continue;
      std::vector<std::int32_t> ids;
      for (std::int64_t i = 0; i < type.shape.elements(); ++i)
        ids.push_back(static_cast<std::int32_t>(i * 7919 % below));
      SEXTANT_CUDA(cudaMemcpy(in.back().data, ids.data(), ids.size() * sizeof(std::int32_t),
                              cudaMemcpyHostToDevice));
    }
    for (const TensorType& type : outputs) {
      out.push_back(calls.tensor(type));
      bytes += static_cast<double>(size_of(type).value);
    }
    // Of a table only the rows that are looked up are read.
    if (kind == "embedding") bytes = 2 * static_cast<double>(size_of(outputs[0]).value);
    const std::string name = kind + " " + to_string(inputs[kind == "embedding_grad" ? 1 : 0].shape);
    const double share = bench.measure(name, {{calls.call(kind, attributes, in, out)}}, bytes);
    CHECK_MESSAGE(share > least, name);
  };
  const Attributes epsilon{{"epsilon", 1e-5}};
  for (const auto& [rows, n] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {16384, 1024}, {8192, 1600}, {16384, 1023}, {8192, 4096}, {4096, 16384}}) {
    const TensorType x{{rows, n}, bf16}, row{{rows}, f32}, weight{{n}, bf16}, dw{{n}, f32};
    const double least = n == 1023 ? 0.1 : 0.25;
    measure("layer_norm", epsilon, {x, weight, weight}, {x, row, row}, 1, least);
    measure("rms_norm", epsilon, {x, weight}, {x, row}, 1, least);
    measure("layer_norm_grad_input", {}, {x, weight, row, row, x}, {x}, 1, least);
    measure("layer_norm_grad_weight", {}, {x, row, row, x}, {dw, dw}, 1, least);
  }
  for (const std::int64_t classes : {50304, 50257}) {
    const TensorType x{{16384, classes}, bf16}, row{{16384}, f32}, labels{{16384}, i32},
        scalar{Shape(), f32};
    measure("row_max", {}, {x}, {row}, 1, 0.5);
    measure("row_sum_exp", {}, {x, row}, {row}, 1, 0.5);
    measure("cross_entropy_grad", {}, {x, row, row, labels, scalar}, {x}, classes, 0.5);
  }
  const TensorType ids{{16384}, i32}, table{{50304, 1024}, bf16}, y{{16384, 1024}, bf16};
  measure("embedding", {}, {ids, table}, {y}, 50304, 0.3);
  measure("embedding_grad", {{"vocab", std::int64_t{50304}}}, {ids, y}, {{{50304, 1024}, f32}},
          50304, 0.3);
  measure("embedding_grad", {{"vocab", std::int64_t{1024}}}, {ids, y}, {{{1024, 1024}, f32}}, 256,
          0.02);
  const Attributes first{{"dims", Integers{0}}}, last{{"dims", Integers{1}}};
  const TensorType wide{{65536, 1024}, bf16}, of_row{{65536}, bf16}, sum{{65536}, f32};
  measure("reduce_max", last, {wide}, {of_row}, 1, 0.3);
  measure("reduce_sum_exp", last, {wide, of_row}, {sum}, 1, 0.3);
  measure("softmax", last, {wide, of_row, sum}, {wide}, 1, 0.3);
  measure("reduce_dot", last, {wide, wide}, {sum}, 1, 0.1);
  measure("softmax_grad", last, {wide, wide, sum}, {wide}, 1, 0.3);
  measure("reduce_sum", first, {wide}, {{{1024}, bf16}}, 1, 0.05);
  const TensorType image{{256, 64, 56, 56}, bf16}, channel{{64}, f32}, weight{{64}, bf16};
  const Attributes batch{{"dims", Integers{0, 2, 3}}, {"weight_dims", Integers{1}}};
  measure("reduce_mean", {{"dims", Integers{0, 2, 3}}, {"out_dtype", std::string("f32")}}, {image},
          {channel}, 1, 0.03);
  measure("reduce_squares", {{"dims", Integers{0, 2, 3}}}, {image, channel}, {channel}, 1, 0.03);
  measure("normalize", batch, {image, channel, channel, weight, weight}, {image}, 1, 0.2);
  measure("normalize_grad_sums", batch, {image, channel, weight, image}, {channel, channel}, 1,
          0.05);
  measure("normalize_grad_input", batch, {image, channel, channel, weight, channel, channel, image},
          {image}, 1, 0.2);
  measure("normalize_grad_weight", batch, {image, channel, channel, image}, {channel, channel}, 1,
          0.05);
}

TEST_CASE("convolutions of ResNet-50 through cuDNN, printed" * doctest::skip(!has_gpu())) {
  Bench bench;
  struct Case {
    std::int64_t channels, extent, outputs, kernel, stride;
  };
  constexpr std::int64_t kImages = 256;
  for (const Case& c : std::vector<Case>{
           {3, 224, 64, 7, 2}, {64, 56, 64, 3, 1}, {64, 56, 256, 1, 1}, {512, 7, 512, 3, 1}}) {
    Calls calls(std::size_t{4} << 30);
    const std::int64_t padding = c.kernel / 2;
    const std::int64_t made = (c.extent + 2 * padding - c.kernel) / c.stride + 1;
    const auto of = [&](Shape shape, DType dtype) {
      return calls.tensor({std::move(shape), dtype});
    };
    const Shape xs{kImages, c.channels, c.extent, c.extent}, ys{kImages, c.outputs, made, made};
    const Shape ws{c.outputs, c.channels, c.kernel, c.kernel};
    const KernelOperand x = of(xs, DType::kBF16), y = of(ys, DType::kBF16);
    const KernelOperand w = of(ws, DType::kBF16), dw = of(ws, DType::kF32);
    const auto attributes = [&](const Shape& shape) {
      return Attributes{{"stride", std::vector<std::int64_t>{c.stride, c.stride}},
                        {"padding", std::vector<std::int64_t>{padding, padding}},
                        {"shape", shape.extents()}};
    };
    const double flops = 2.0 * static_cast<double>(ys.elements()) *
                         static_cast<double>(c.channels * c.kernel * c.kernel);
    const auto print = [&](const char* kind, const Shape& shape, std::vector<KernelOperand> in,
                           const KernelOperand& out) {
      const std::string name = std::string(kind) + " " + to_string(xs) + " by " + to_string(ws);
      bench.measure_flops(name, {{calls.call(kind, attributes(shape), std::move(in), {out})}},
                          flops);
    };
    print("conv", ys, {x, w}, y);
    print("conv_grad_input", xs, {y, w}, x);
    print("conv_grad_weight", ws, {x, y}, dw);
  }
}

TEST_CASE("element-wise kernels, casts and sums over rows run near the rate of a copy" *
          doctest::skip(!has_gpu())) {
  Bench bench;
  const DType bf16 = DType::kBF16, f32 = DType::kF32;
  // Every tensor is read or written once.
  const auto measure = [&](const std::string& kind, const Attributes& attributes,
                           const std::vector<TensorType>& inputs,
                           const std::vector<TensorType>& outputs, double least) {
    Calls calls(std::size_t{4} << 30);
    std::vector<KernelOperand> in, out;
    double bytes = 0;
    const auto take = [&](const TensorType& type, std::vector<KernelOperand>& operands) {
      operands.push_back(calls.tensor(type));
      bytes += static_cast<double>(size_of(type).value);
    };
    for (const TensorType& type : inputs) take(type, in);
    for (const TensorType& type : outputs) take(type, out);
    const std::string name = kind + " " + to_string(inputs[0].shape) + " " +
                             std::string(to_string(inputs[0].dtype)) + " -> " +
                             std::string(to_string(outputs[0].dtype));
    const double share = bench.measure(name, {{calls.call(kind, attributes, in, out)}}, bytes);
    CHECK_MESSAGE(share > least, name);
  };
  const Attributes tanh{{"approximate", "tanh"}}, none{{"approximate", "none"}};
  for (const Shape& shape : {Shape{16384, 1024}, Shape{16384, 4096}, Shape{8192, 11008}}) {
    const TensorType x{shape, bf16}, wide{shape, f32}, bias{Shape{shape[1]}, bf16},
        sums{Shape{shape[1]}, f32};
    measure("add", {}, {x, x}, {x}, 0.4);
    measure("mul", {}, {x, x}, {x}, 0.4);
    measure("bias_add", {}, {x, bias}, {x}, 0.4);
    measure("scale", {{"factor", 0.5}}, {x}, {x}, 0.4);
    measure("gelu", tanh, {x}, {x}, 0.4);
    measure("gelu", none, {x}, {x}, 0.2);
    measure("gelu_grad", tanh, {x, x}, {x}, 0.4);
    measure("silu", {}, {x}, {x}, 0.4);
    measure("silu_grad", {}, {x, x}, {x}, 0.4);
    measure("tanh", {}, {x}, {x}, 0.2);
    measure("cast", {{"dtype", "bf16"}}, {wide}, {x}, 0.4);
    measure("cast", {{"dtype", "f32"}}, {x}, {wide}, 0.4);
    measure("add", {}, {wide, wide}, {wide}, 0.4);
    measure("reduce_to_bias", {}, {x}, {sums}, 0.3);
    measure("dropout", {{"rate", 0.1}, {"stream", "s"}}, {x}, {x}, 0.1);
  }
  // The parameters of GPT-2 medium.
  Calls calls(std::size_t{3} << 30);
  std::vector<KernelContext> casts;
  double elements = 0;
  for (int layer = 0; layer <= 24; ++layer)
    for (const std::int64_t size :
         layer == 0 ? std::vector<std::int64_t>{50257 * 1024, 1024 * 1024} : layer_of_medium()) {
      elements += static_cast<double>(size);
      casts.push_back(calls.call("cast", {{"dtype", "bf16"}}, {calls.tensor({Shape{size}, f32})},
                                 {calls.tensor({Shape{size}, bf16})}));
    }
  CHECK(bench.measure("casts of all parameters, f32 -> bf16", {casts}, 6 * elements) > 0.4);
}

}  // namespace sextant::bandwidth_test
