// How fast the kernels of attention are for the models, each and every plan of cuDNN.
#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/kernels/attention/attention_call.h"
#include "backends/cuda/kernels/attention/attention_cudnn.h"
#include "backends/cuda/kernels/attention/attention_graphs.h"
#include "backends/cuda/kernels/shared/stopwatch.h"
#include "tests/cuda/device_call.h"
#include "tests/cuda/gpu.h"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <string>
#include <vector>

namespace sextant::attention_times_test {
namespace {

struct Path {
  const char* name;
  CudaKernelTable::Make forward, backward;
};

const std::vector<Path> kPaths = {
    {"general", make_general_attention, make_general_attention_grad},
    {"tensor", make_tensor_attention, make_tensor_attention_grad},
    {"cuDNN", make_cudnn_attention, make_cudnn_attention_grad},
};

struct Case {
  std::int64_t batch, queries, keys, heads, kv_heads, size;
};

double milliseconds(CudaKernel& kernel) {
  Stopwatch watch;
  const auto run = [&] { kernel.enqueue(watch.stream()); };
  watch.seconds(3, run);  // warm-up
  return 1e3 * watch.seconds(10, run);
}

// In [-1, 1).
std::vector<double> some_values(std::int64_t count) {
  std::vector<double> result(static_cast<std::size_t>(count));
  std::uint64_t state = 88172645463325252;
  for (double& value : result) {
    state ^= state << 13U;
    state ^= state >> 7U;
    state ^= state << 17U;
    value = static_cast<double>(state >> 11U) * 0x1p-52 - 1;
  }
  return result;
}

void give_large(DeviceCall& call, const Case& c, bool is_grad) {
  const DType dtype = DType::kBF16;
  const Shape q{c.batch, c.queries, c.heads, c.size}, k{c.batch, c.keys, c.kv_heads, c.size};
  const Shape lse{c.batch, c.queries, c.heads};
  const std::vector<double> some = some_values(q.elements());
  const std::vector<double> few(some.begin(), some.begin() + k.elements());
  call.input({{q, dtype}, some}).input({{k, dtype}, few}).input({{k, dtype}, few});
  if (!is_grad) {
    call.output({{q, dtype}, {}}).output({{lse, DType::kF32}, {}});
    return;
  }
  const std::vector<double> sums(static_cast<std::size_t>(lse.elements()), 6.0);
  call.input({{q, dtype}, some}).input({{lse, DType::kF32}, sums}).input({{q, dtype}, some});
  call.output({{q, dtype}, {}}).output({{k, dtype}, {}}).output({{k, dtype}, {}});
}

enum class Choice { kFirst, kFixed, kTuned };

void time_path(const char* model, const Case& c, const Path& path, bool is_grad,
               Choice choice = Choice::kFirst) {
  CudaOptions options;
  options.deterministic = choice == Choice::kFixed;
  options.tune_matmuls = choice == Choice::kTuned;
  CudaContext device(options);
  DeviceCall call(is_grad ? "attention_grad" : "attention", {});
  give_large(call, c, is_grad);
  const auto kernel = call.kernel(is_grad ? path.backward : path.forward, device);
  if (kernel == nullptr) return;
  const double ms = milliseconds(*kernel);
  // Pairs of a query and a key once; two products forward, five backward.
  const double pairs = 0.5 * static_cast<double>(c.batch * c.heads * c.queries * c.keys);
  const double flops = 2 * pairs * static_cast<double>(c.size) * (is_grad ? 5 : 2);
  fmt::print("attention {:7} {:8} {:7}{}: {:8.3f} ms {:6.1f} TFLOP/s\n", model,
             is_grad ? "backward" : "forward", path.name,
             choice == Choice::kFixed   ? " (fixed)"
             : choice == Choice::kTuned ? " (tuned)"
                                        : "",
             ms, flops / ms * 1e-9);
}

}  // namespace

TEST_CASE("attention of the models in bf16: times" * doctest::skip(!has_gpu())) {
  const std::vector<std::pair<const char*, Case>> models = {
      {"medium", {16, 1024, 1024, 16, 16, 64}},
      {"xl", {8, 1024, 1024, 25, 25, 64}},
      {"llama", {1, 4096, 4096, 32, 32, 128}},
      {"grouped", {1, 4096, 4096, 32, 8, 128}},
  };
  for (const auto& [model, shape] : models)
    for (const Path& path : kPaths) {
      time_path(model, shape, path, false);
      time_path(model, shape, path, true);
      if (&path != &kPaths[2]) continue;
      time_path(model, shape, path, true, Choice::kFixed);
      time_path(model, shape, path, false, Choice::kTuned);
    }
}

#ifdef SEXTANT_HAS_CUDNN
namespace {

// Runs every plan that cuDNN proposes; `ids` are the tensors in memory, each with `bytes` bytes.
void time_plans(const std::string& text, const CudnnGraph& graph,
                const std::vector<CudnnGraph::Tensor>& ids, std::size_t bytes) {
  CudaContext device(CudaOptions{});
  const std::vector<CudnnPlan> plans = graph.plans({device.cudnn(), nullptr}, false, 8);
  std::deque<DeviceBytes> memory;
  std::vector<std::pair<std::int64_t, void*>> addresses;
  for (const CudnnGraph::Tensor id : ids) {
    memory.emplace_back(std::vector<std::byte>(bytes));
    addresses.emplace_back(id, memory.back().data());
  }
  std::string line = fmt::format("cuDNN's plans for {}:", text);
  for (const CudnnPlan& plan : plans) {
    const DeviceBytes workspace(std::vector<std::byte>(plan.workspace_bytes()));
    struct Run final : CudaKernel {
      const CudnnPlan& plan;
      const CudnnDescriptor& binding;
      CudaContext& device;
      Run(const CudnnPlan& plan, const CudnnDescriptor& binding, CudaContext& device)
          : plan(plan), binding(binding), device(device) {}
      void enqueue(cudaStream_t stream) override { plan.run(device.cudnn(), binding, stream); }
    };
    const CudnnDescriptor binding = plan.bind(addresses, workspace.data());
    Run run(plan, binding, device);
    line += fmt::format(" {:.3f} ms ({} MiB)", milliseconds(run), plan.workspace_bytes() >> 20U);
  }
  fmt::print("{}\n", line);
}

}  // namespace

TEST_CASE("plans of cuDNN for attention in bf16: times of all that it proposes" *
          doctest::skip(!has_gpu())) {
  AttentionProblem medium;
  medium.batch = medium.heads = medium.kv_heads = 16;
  medium.queries = medium.keys = 1024;
  medium.size = medium.value_size = 64;
  medium.scale = 0.125F;
  AttentionProblem llama;
  llama.batch = 1;
  llama.heads = llama.kv_heads = 32;
  llama.queries = llama.keys = 4096;
  llama.size = llama.value_size = 128;
  llama.scale = 0.0883883F;
  const std::vector<std::pair<const char*, AttentionProblem>> problems = {{"medium", medium},
                                                                          {"llama", llama}};
  for (const auto& [model, x] : problems) {
    const auto bytes = static_cast<std::size_t>(x.batch * x.queries * x.heads * x.size) * 4;
    const AttentionForward f(x);
    time_plans(fmt::format("{} forward", model), f.graph, {f.q, f.k, f.v, f.o, f.lse}, bytes);
    for (const bool sums_in_order : {false, true}) {
      const AttentionBackward g(x, sums_in_order);
      std::vector<CudnnGraph::Tensor> ids = {g.q,   g.k,  g.v,  g.o,  g.lse,
                                             g.d_o, g.dq, g.dk, g.dv, g.delta};
      if (g.sum_dq != 0) ids.push_back(g.sum_dq);
      time_plans(fmt::format("{} backward{}", model, sums_in_order ? " in order" : ""), g.graph,
                 ids, bytes);
    }
  }
}
#endif

}  // namespace sextant::attention_times_test
