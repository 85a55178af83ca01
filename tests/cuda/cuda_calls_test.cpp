// What a step asks of CUDA once it is warm: no allocation, and no wait but for fences. The calls of
// this project are counted where the dynamic linker binds them: definitions here stand before those
// of libcudart. cuBLASLt and cuDNN bring a runtime of their own, which this does not see; what they
// would allocate shows in the card's free memory.
#include "io/training_host.h"
#include "tests/conformance/training/training_runs.h"
#include "tests/cuda/gpu.h"
#include "tests/cuda/small_training.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <string>
#include <utility>

namespace {

enum Kind { kAllocate, kSynchronize, kWaitForEvent, kLaunchGraph, kLaunchKernel, kNumKinds };
std::array<std::atomic<std::int64_t>, kNumKinds> counts;

template <typename Function>
Function counted(Kind kind, const char* name) {
  ++counts[kind];
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace

// NOLINTBEGIN: signatures are those of cuda_runtime_api.h
#define COUNT(kind, name, parameters, ...)                               \
  extern "C" cudaError_t CUDARTAPI name parameters {                     \
    return counted<cudaError_t(*) parameters>(kind, #name)(__VA_ARGS__); \
  }
COUNT(kAllocate, cudaMalloc, (void** p, size_t n), p, n)
COUNT(kAllocate, cudaFree, (void* p), p)
COUNT(kAllocate, cudaMallocAsync, (void** p, size_t n, cudaStream_t s), p, n, s)
COUNT(kAllocate, cudaFreeAsync, (void* p, cudaStream_t s), p, s)
COUNT(kAllocate, cudaMallocHost, (void** p, size_t n), p, n)
COUNT(kAllocate, cudaHostAlloc, (void** p, size_t n, unsigned f), p, n, f)
COUNT(kAllocate, cudaFreeHost, (void* p), p)
COUNT(kAllocate, cudaEventCreate, (cudaEvent_t * e), e)
COUNT(kAllocate, cudaEventCreateWithFlags, (cudaEvent_t * e, unsigned f), e, f)
COUNT(kAllocate, cudaStreamCreateWithFlags, (cudaStream_t * s, unsigned f), s, f)
COUNT(kSynchronize, cudaDeviceSynchronize, (void))
COUNT(kSynchronize, cudaStreamSynchronize, (cudaStream_t s), s)
COUNT(kSynchronize, cudaMemcpy, (void* d, const void* s, size_t n, cudaMemcpyKind k), d, s, n, k)
COUNT(kSynchronize, cudaMemset, (void* d, int v, size_t n), d, v, n)
COUNT(kWaitForEvent, cudaEventSynchronize, (cudaEvent_t e), e)
COUNT(kLaunchGraph, cudaGraphLaunch, (cudaGraphExec_t g, cudaStream_t s), g, s)
COUNT(kLaunchKernel, cudaLaunchKernel,
      (const void* f, dim3 g, dim3 b, void** a, size_t n, cudaStream_t s), f, g, b, a, n, s)
// What nvcc makes of <<<>>>.
COUNT(kLaunchKernel, __cudaLaunchKernel,
      (cudaKernel_t f, dim3 g, dim3 b, void** a, size_t n, cudaStream_t s), f, g, b, a, n, s)
// NOLINTEND

namespace sextant::cuda_calls_test {
using namespace testing;

namespace {

// Counts the waits that the runtime asks for.
class CountingDevice final : public Device {
 public:
  explicit CountingDevice(std::unique_ptr<Device> inner) : inner_(std::move(inner)) {}
  const DeviceSpec& spec() const override { return inner_->spec(); }
  void prepare(const PhysicalGraph& graph, Rank rank) override { inner_->prepare(graph, rank); }
  void launch(std::span<const Launch> group, std::span<Fence> done) override {
    inner_->launch(group, done);
  }
  FenceState state(Fence fence) override { return inner_->state(fence); }
  void wait(Fence fence) override {
    ++waits;
    inner_->wait(fence);
  }
  std::unique_ptr<Replay> capture(const Tape& tape) override { return inner_->capture(tape); }
  std::span<std::byte> host_view(InstanceId instance, std::int32_t reg,
                                 std::int32_t content) override {
    return inner_->host_view(instance, reg, content);
  }
  std::span<std::byte> host_view_of_step(InstanceId instance, std::int32_t reg,
                                         std::int32_t content, std::int64_t step) override {
    return inner_->host_view_of_step(instance, reg, content, step);
  }
  void abort(const std::string& reason) override { inner_->abort(reason); }
  std::span<const Stamp> stamps() override { return inner_->stamps(); }

  std::atomic<std::int64_t> waits{0};

 private:
  const std::unique_ptr<Device> inner_;
};

struct Snapshot {
  std::array<std::int64_t, kNumKinds> calls{};
  std::int64_t waits = 0;
  std::size_t free = 0;
};

Snapshot snapshot(const CountingDevice& device) {
  Snapshot taken;
  for (std::size_t kind = 0; kind < kNumKinds; ++kind) taken.calls[kind] = counts[kind];
  taken.waits = device.waits;
  std::size_t total = 0;
  CHECK(cudaMemGetInfo(&taken.free, &total) == cudaSuccess);
  return taken;
}

}  // namespace

TEST_CASE("a warm step allocates nothing and waits for nothing but fences" *
          doctest::skip(!has_gpu())) {
  constexpr std::int64_t kFirst = 6, kLast = 36;  // steps whose metrics begin and end the count
  const ModelConfig model = small_gpt();
  const TokenData tokens = small_tokens(model);
  for (const bool graphs : {false, true}) {
    CAPTURE(graphs);
    const PhysicalGraph graph = small_training_graph(model, DType::kBF16);
    CudaOptions options;
    options.graphs = graphs;
    CountingDevice device(make_cuda_device(options));
    device.prepare(graph, Rank(0));
    Device* const devices[] = {&device};
    TrainingHost host(tokens, 5);
    Snapshot before, after;
    host.on_step([&](const StepMetrics& metrics) {
      if (metrics.step == kFirst) before = snapshot(device);
      if (metrics.step == kLast) after = snapshot(device);
    });
    run_all(graph, devices, host, kLast + 4);
    const auto of = [&](Kind kind) { return after.calls[kind] - before.calls[kind]; };
    CHECK(counts[kAllocate] > 0);  // the counting works
    CHECK(of(kAllocate) == 0);
    CHECK(of(kSynchronize) == 0);
    CHECK(after.free == before.free);
    // A wait of the runtime is at most one wait for an event. One may be between the two counts.
    CHECK(of(kWaitForEvent) <= after.waits - before.waits + 3);
    // The steps in between, give or take the run-ahead.
    CHECK(of(kLaunchGraph) >= (graphs ? kLast - kFirst - 2 : 0));
    CHECK(of(kLaunchGraph) <= (graphs ? kLast - kFirst + 2 : 0));
    if (graphs)
      CHECK(of(kLaunchKernel) == 0);
    else
      CHECK(of(kLaunchKernel) > 10 * (kLast - kFirst));
  }
}

// Ranks wait for each other by looking at events, so a wait for one is a wait of the host.
TEST_CASE("warm steps of two GPUs allocate nothing and wait for nothing" *
          doctest::skip(!has_gpus(2))) {
  constexpr std::int64_t kFirst = 6, kLast = 36;
  TrainingCase training;
  training.model = small_gpt();
  training.sequence = 33;
  training.dtype = DType::kBF16;
  training.global_batch = 8;
  const TokenData tokens = small_tokens(training.model);
  for (const std::string strategy :
       {"dp=2 micro_batch=2 zero=3", "tp=2 micro_batch=4 sp=on", "pp=2 micro_batch=2"}) {
    CAPTURE(strategy);
    const PhysicalGraph graph = compile_case(training, strategy);
    CudaWorldOptions options;
    options.gpus = {0, 1};
    options.collectives = CudaCollectives::kNccl;
    CudaWorld world(graph, options);
    TrainingHost host(tokens, 5);
    std::array<std::int64_t, kNumKinds> before{}, after{};
    std::array<std::size_t, 2> free_before{}, free_after{};
    const auto look = [](std::array<std::int64_t, kNumKinds>& calls,
                         std::array<std::size_t, 2>& free) {
      for (std::size_t kind = 0; kind < kNumKinds; ++kind) calls[kind] = counts[kind];
      int current = 0;
      CHECK(cudaGetDevice(&current) == cudaSuccess);
      for (int card = 0; card < 2; ++card) {
        std::size_t total = 0;
        CHECK(cudaSetDevice(card) == cudaSuccess);
        CHECK(cudaMemGetInfo(&free[static_cast<std::size_t>(card)], &total) == cudaSuccess);
      }
      CHECK(cudaSetDevice(current) == cudaSuccess);
    };
    host.on_step([&](const StepMetrics& metrics) {
      if (metrics.step == kFirst) look(before, free_before);
      if (metrics.step == kLast) look(after, free_after);
    });
    run_all(graph, world.devices(), host, kLast + 4);
    const auto of = [&](Kind kind) { return after[kind] - before[kind]; };
    CHECK(of(kAllocate) == 0);
    CHECK(of(kSynchronize) == 0);
    CHECK(of(kWaitForEvent) == 0);
    CHECK(free_after == free_before);
    CHECK(of(kLaunchKernel) > 10 * (kLast - kFirst));
  }
}

}  // namespace sextant::cuda_calls_test
