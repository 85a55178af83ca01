// Which products of a compiled transformer may be one call, and that a program takes them so. The
// first cases need no GPU.
#include "actor/calls/call_groups.h"
#include "actor/calls/kernel_contexts.h"
#include "backends/cuda/cuda_context.h"
#include "backends/cuda/cuda_kernel.h"
#include "backends/cuda/cuda_program.h"
#include "backends/cuda/measured_choices.h"
#include "io/training_host.h"
#include "tests/cuda/gpu.h"
#include "tests/cuda/small_training.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace sextant::products_together_plan_test {
using namespace testing;

namespace {

using Names = std::vector<std::string>;

// Of every group of the program of rank 0, joined by blanks.
Names groups_of(const PhysicalGraph& graph) {
  const CudaKernelTable table = cuda_kernels();
  const RankProgram& program = graph.program_of(Rank(0));
  const OperandResolver resolver(graph, graph.ranks[Rank(0)].program);
  // Nothing is read at these addresses.
  KernelContexts contexts(graph, Rank(0), 0, [](const BufferRef& buffer) {
    return reinterpret_cast<std::byte*>(std::uintptr_t{1} << 30) + buffer.offset.value;
  });
  Names names;
  for (const RunId id : program.order.keys()) {
    const Run& run = program.order[id];
    std::vector<KernelContext> calls;
    std::vector<std::string> keys;
    for (const ActorCall& call : resolver.calls(id)) {
      if (call.actor->communication) continue;
      calls.push_back(contexts.of_call(call, run));
      keys.push_back(table.key_together(calls.back()));
    }
    for (const auto& group : groups_of_calls(calls, keys, CudaKernelTable::kMostTogether)) {
      std::string& text = names.emplace_back();
      for (const std::size_t call : group) {
        const auto actor = run.first_actor + static_cast<std::int32_t>(call);
        text +=
            (text.empty() ? "" : " ") + graph.actor_name(program.instances[run.instance], actor);
      }
    }
  }
  return names;
}

int count_of(const Names& names, const std::string& part) {
  int count = 0;
  for (const std::string& name : names) count += name.find(part) != std::string::npos ? 1 : 0;
  return count;
}

// Kernels of several products.
int joined_in(const PhysicalGraph& graph, const CudaOptions& options) {
  CudaProgram program(graph, Rank(0), options, nullptr);
  program.allocate();
  CudaContext device(options);
  program.make_kernels(device);
  int joined = 0;
  for (std::size_t i = 0; i < program.num_runs(); ++i)
    for (const CudaKernelOfRun& kernel : program.run(RunId(i)).kernels)
      joined += kernel.joined.empty() ? 0 : 1;
  return joined;
}

// What was measured so far: every batch is faster than its products apart, or slower.
void decide(const CudaOptions& options, bool together) {
  for (auto& [key, choice] : options.choices->products) {
    const int count = key[key.find('*') + 1] - '0';
    if (key.find(" apart: ") != std::string::npos) choice.seconds = count;
    if (key.find(" together: ") != std::string::npos) choice.seconds = together ? 1e-3 : count;
  }
}

}  // namespace

TEST_CASE("q, k and v of a GPT, and the gradients of their weights, may be one product") {
  const Names names = groups_of(small_training_graph(small_gpt(), DType::kBF16, 1));
  for (const std::string& name : names) MESSAGE(name);
  const std::string forward = "attention.q.biased attention.k.biased attention.v.biased";
  const std::string backward =
      "attention.v.grad_weight attention.k.grad_weight attention.q.grad_weight";
  CHECK(count_of(names, forward) == 2);  // layers
  CHECK(count_of(names, backward) == 2);
}

TEST_CASE("k and v of a Llama with grouped heads may be one product") {
  const Names names = groups_of(small_training_graph(small_llama(), DType::kBF16, 1));
  for (const std::string& name : names) MESSAGE(name);
  CHECK(count_of(names, "attention.k attention.v") == 2);
  CHECK(count_of(names, "attention.v.grad_weight attention.k.grad_weight") == 2);
  CHECK(count_of(names, "attention.q ") == 0);  // it is wider
}

TEST_CASE("a profile has a time for every actor of a kernel of several products" *
          doctest::skip(!has_gpu())) {
  const ModelConfig model = small_gpt();
  const PhysicalGraph graph = small_training_graph(model, DType::kBF16);
  const TokenData tokens = small_tokens(model);
  CudaOptions options;
  options.tune_matmuls = options.profile = true;
  options.choices = std::make_shared<MeasuredChoices>();
  joined_in(graph, options);
  decide(options, true);
  REQUIRE(joined_in(graph, options) > 0);
  const std::unique_ptr<Device> device = make_cuda_device(options);
  device->prepare(graph, Rank(0));
  Device* const devices[] = {device.get()};
  TrainingHost host(tokens, 5);
  run_all(graph, devices, host, 2);
  std::map<RunId, std::set<std::int32_t>> actors;
  for (const Stamp& stamp : device->stamps()) {
    CHECK(stamp.end >= stamp.begin);
    for (std::int32_t i = 0; i < stamp.num_actors; ++i)
      actors[stamp.run].insert(stamp.first_actor + i);
  }
  const RankProgram& program = graph.program_of(Rank(0));
  for (const RunId run : program.order.keys())
    CHECK(actors[run].size() == static_cast<std::size_t>(program.order[run].num_actors));
}

TEST_CASE("a program makes them so where that was measured to be faster, and nowhere else" *
          doctest::skip(!has_gpu())) {
  const ModelConfig model = small_gpt();
  const PhysicalGraph graph = small_training_graph(model, DType::kBF16);
  CudaOptions options;
  options.tune_matmuls = true;
  options.choices = std::make_shared<MeasuredChoices>();
  joined_in(graph, options);  // measures
  decide(options, true);
  const int joined = joined_in(graph, options);
  MESSAGE(joined << " kernels of several products");
  CHECK(joined >= 4);  // gradients of weights of two layers and two micro-batches
  const TokenData tokens = small_tokens(model);
  const SmallTraining together = train_on_gpu(graph, tokens, 20, options);
  decide(options, false);
  CHECK(joined_in(graph, options) == 0);
  const SmallTraining apart = train_on_gpu(graph, tokens, 20, options);
  REQUIRE(together.losses.size() == apart.losses.size());
  CHECK(together.issued == apart.issued);
  // Sums of another order, rounded to 8 bits, in 20 steps.
  for (std::size_t i = 0; i < apart.losses.size(); ++i)
    CHECK(std::abs(together.losses[i] - apart.losses[i]) < 0x1p-8 * apart.losses[0]);

  CudaOptions deterministic = options;
  decide(options, true);
  deterministic.deterministic = true;
  CHECK(joined_in(graph, deterministic) == 0);
}

}  // namespace sextant::products_together_plan_test
