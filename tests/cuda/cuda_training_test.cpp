// Whole plans on a GPU: what they learn against the CPU, with and without graphs, twice the same,
// and what is said when something is wrong.
#include "core/base/error.h"
#include "io/training_host.h"
#include "tests/cuda/gpu.h"
#include "tests/cuda/small_training.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace sextant::cuda_training_test {
using namespace testing;

namespace {

constexpr std::int64_t kSteps = 20;

double largest_difference(const std::vector<double>& found, const std::vector<double>& expected) {
  if (found.size() != expected.size()) return INFINITY;
  double worst = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!std::isfinite(found[i])) return INFINITY;
    worst = std::max(worst, std::abs(found[i] - expected[i]));
  }
  return worst;
}

// Relative size of one rounding.
double rounding(DType dtype) {
  return dtype == DType::kF32 ? 0x1p-24 : dtype == DType::kF16 ? 0x1p-11 : 0x1p-8;
}

CudaOptions visible() {
  CudaOptions options;
  options.host_visible = true;
  options.deterministic = true;
  return options;
}

}  // namespace

TEST_CASE("training in f64 on a GPU is that of the CPU" * doctest::skip(!has_gpu())) {
  for (const ModelConfig& model : {small_gpt(), small_llama()}) {
    CAPTURE(model.name);
    const PhysicalGraph graph = small_training_graph(model, DType::kF64);
    const TokenData tokens = small_tokens(model);
    const SmallTraining cpu = train_on_cpu(graph, tokens, kSteps);
    const SmallTraining gpu = train_on_gpu(graph, tokens, kSteps, {});
    REQUIRE(cpu.losses.size() == static_cast<std::size_t>(kSteps));
    // Something is learned, so that equal results say something.
    CHECK(cpu.losses.back() < cpu.losses.front() - 0.1);
    // Sums of another order: 1e-16 per term and step; a step magnifies an error by less than two.
    CHECK(largest_difference(gpu.losses, cpu.losses) < 1e-10);
    CHECK(gpu.issued == cpu.issued);
  }
}

// The truth is training in f64. Both sides round as often and to the same size, in another order,
// so their errors are of one size; ten times covers the tail over 20 steps, and one rounding per
// step is allowed where the CPU was lucky.
TEST_CASE("training in f32, bf16 and f16 on a GPU is as near to f64 as on the CPU" *
          doctest::skip(!has_gpu())) {
  for (const ModelConfig& model : {small_gpt(), small_llama()}) {
    const TokenData tokens = small_tokens(model);
    const SmallTraining truth =
        train_on_cpu(small_training_graph(model, DType::kF64), tokens, kSteps);
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      CAPTURE(model.name);
      CAPTURE(to_string(dtype));
      const PhysicalGraph graph = small_training_graph(model, dtype);
      const SmallTraining cpu = train_on_cpu(graph, tokens, kSteps);
      const double cpu_error = largest_difference(cpu.losses, truth.losses);
      CAPTURE(cpu_error);
      // Measured algorithms are those of `sextant run`.
      for (const bool tunes : {false, true}) {
        CAPTURE(tunes);
        CudaOptions options;
        options.tune_matmuls = tunes;
        const SmallTraining gpu = train_on_gpu(graph, tokens, kSteps, options);
        const double gpu_error = largest_difference(gpu.losses, truth.losses);
        CHECK(gpu_error < 10 * cpu_error +
                              static_cast<double>(kSteps) * rounding(dtype) * truth.losses.front());
        CHECK(gpu.issued == cpu.issued);
      }
    }
  }
}

TEST_CASE("graphs, a window of one launch and one step of run-ahead change no bit" *
          doctest::skip(!has_gpu())) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const std::int64_t micro_batches : {1, 5}) {
      CAPTURE(to_string(dtype));
      CAPTURE(micro_batches);
      const ModelConfig model = small_gpt();
      const PhysicalGraph graph = small_training_graph(model, dtype, micro_batches);
      const TokenData tokens = small_tokens(model);
      CudaOptions without = visible();
      without.graphs = false;
      const SmallTraining plain = train_on_gpu(graph, tokens, kSteps, without);
      REQUIRE(!plain.state.empty());
      const SmallTraining replayed = train_on_gpu(graph, tokens, kSteps, visible());
      CHECK(replayed.losses == plain.losses);
      CHECK(replayed.state == plain.state);
      CHECK(replayed.issued == plain.issued);
      for (const CudaOptions& options : {without, visible()}) {
        const SmallTraining narrow =
            train_on_gpu(graph, tokens, kSteps, options, {.window = 1, .run_ahead_steps = 1});
        CHECK(narrow.losses == plain.losses);
        CHECK(narrow.state == plain.state);
      }
    }
  }
}

TEST_CASE("with deterministic, two runs leave the same bits" * doctest::skip(!has_gpu())) {
  for (const ModelConfig& model : {small_gpt(), small_llama()}) {
    const PhysicalGraph graph = small_training_graph(model, DType::kBF16);
    const TokenData tokens = small_tokens(model);
    const SmallTraining first = train_on_gpu(graph, tokens, kSteps, visible());
    const SmallTraining second = train_on_gpu(graph, tokens, kSteps, visible());
    CHECK(first.losses == second.losses);
    CHECK(first.state == second.state);
  }
}

TEST_CASE("the first contents on a GPU are those on the CPU, bit by bit" *
          doctest::skip(!has_gpu())) {
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16}) {
    CAPTURE(to_string(dtype));
    const PhysicalGraph graph = small_training_graph(small_gpt(), dtype);
    CudaOptions options = visible();
    options.seed = kWeightSeed;
    const std::unique_ptr<Device> gpu = make_cuda_device(options);
    gpu->prepare(graph, Rank(0));
    CpuOptions cpu_options;
    cpu_options.seed = kWeightSeed;
    CpuWorld cpu(graph, cpu_options);
    const RankProgram& program = graph.program_of(Rank(0));
    std::int64_t compared = 0;
    for (const InstanceId i : program.instances.keys()) {
      const Block& block = graph.block_of(program.instances[i]);
      for (std::size_t r = 0; r < block.registers.size(); ++r) {
        const Register& reg = block.registers[r];
        if (!block.frames[static_cast<std::size_t>(reg.frame)].initially_full) continue;
        const auto number = static_cast<std::int32_t>(r);
        const auto bytes = gpu->host_view(i, number, 0);
        CHECK(std::vector<std::byte>(bytes.begin(), bytes.end()) ==
              cpu.read_register(Rank(0), i, number));
        ++compared;
      }
    }
    CHECK(compared > 10);
  }
}

TEST_CASE("a token outside the vocabulary is reported by the operator that met it" *
          doctest::skip(!has_gpu())) {
  class BadTokens final : public HostActors {
   public:
    explicit BadTokens(const TokenData& tokens) : good_(tokens, 5) {}
    void act(const HostAct& act) override {
      good_.act(act);
      if (act.actor->name != "tokens" || act.step != 7) return;
      const std::int32_t bad = 1 << 20;
      std::memcpy(act.outputs[0].data(), &bad, sizeof(bad));
    }

   private:
    TrainingHost good_;
  };
  const ModelConfig model = small_gpt();
  const PhysicalGraph graph = small_training_graph(model, DType::kF32);
  const TokenData tokens = small_tokens(model);
  for (const bool graphs : {false, true}) {
    CudaOptions options;
    options.graphs = graphs;
    const std::unique_ptr<Device> device = make_cuda_device(options);
    device->prepare(graph, Rank(0));
    Device* const devices[] = {device.get()};
    BadTokens host(tokens);
    try {
      run_all(graph, devices, host, kSteps);
      FAIL("no error");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::kBadInput);
      CHECK(std::string(error.what()).find("embedding") != std::string::npos);
    }
  }
}

TEST_CASE("a program that needs more memory than is free is refused before anything is allocated" *
          doctest::skip(!has_gpu())) {
  PhysicalGraph graph = small_training_graph(small_gpt(), DType::kF32);
  graph.programs[ProgramId(0)].arena.size = Bytes(std::int64_t{1} << 45);
  try {
    make_cuda_device(CudaOptions{})->prepare(graph, Rank(0));
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kInfeasible);
    const std::string text = error.what();
    for (const char* word : {"parameters", "optimizer", "activations", "free", "too much"})
      CHECK(text.find(word) != std::string::npos);
  }
}

TEST_CASE("profiling times every actor of a step, each launch once" * doctest::skip(!has_gpu())) {
  const ModelConfig model = small_llama();
  const PhysicalGraph graph = small_training_graph(model, DType::kBF16);
  const TokenData tokens = small_tokens(model);
  CudaOptions options;
  options.profile = true;
  const std::unique_ptr<Device> device = make_cuda_device(options);
  device->prepare(graph, Rank(0));
  Device* const devices[] = {device.get()};
  TrainingHost host(tokens, 5);
  run_all(graph, devices, host, 3);
  // Of each run of each step: which actors, and that time goes on.
  std::map<std::pair<std::int64_t, RunId>, std::int64_t> actors;
  for (const Stamp& stamp : device->stamps()) {
    CHECK(stamp.end >= stamp.begin);
    std::int64_t& covered = actors[{stamp.step, stamp.run}];
    covered = std::max<std::int64_t>(covered, stamp.first_actor + stamp.num_actors);
  }
  const RankProgram& program = graph.program_of(Rank(0));
  for (std::int64_t step = 0; step < 3; ++step)
    for (const RunId r : program.order.keys()) {
      const Run& run = program.order[r];
      CHECK(actors[{step, r}] == run.first_actor + run.num_actors);
    }
}

}  // namespace sextant::cuda_training_test
