// States of GPU ranks between card, host and disk: copies that come beside the steps, training that
// goes on with the same bits, checkpoints of one backend on the other. And samples that come from
// actors of their own.
#include "actor/runtime.h"
#include "compiler/expand/data_actors.h"
#include "io/checkpoints/boxes.h"
#include "io/checkpoints/checkpoint_folder.h"
#include "io/checkpoints/checkpoint_reader.h"
#include "io/checkpoints/checkpoint_writer.h"
#include "io/checkpoints/pieces_to_save.h"
#include "io/checkpoints/state_copies.h"
#include "io/data/sample_data.h"
#include "io/training_host.h"
#include "models/conv_net.h"
#include "tests/conformance/training/training_runs.h"
#include "tests/cuda/gpu.h"
#include "tests/cuda/ranks/rank_cards.h"
#include "tests/cuda/small_training.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sextant::cuda_checkpoint_test {
namespace {

constexpr std::int64_t kSaved = 10, kSteps = 20;
constexpr std::uint64_t kSeed = 17;

using States = std::map<StateName, std::vector<std::byte>>;

struct Folder {
  explicit Folder(const std::string& name)
      : path(std::filesystem::temp_directory_path() / ("sextant_cuda_" + name)) {
    std::filesystem::remove_all(path);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string path;
};

CpuOptions cpu_options() {
  CpuOptions options;
  options.seed = kSeed;
  return options;
}

CudaWorldOptions gpu_options(std::size_t ranks, bool graphs) {
  CudaWorldOptions options = kOneCard.options(ranks);
  options.each.seed = kSeed;
  options.each.deterministic = true;
  options.each.graphs = graphs;
  return options;
}

// Whole states, each from the ranks that would save its parts.
States states_of(const PhysicalGraph& graph, const std::vector<Device*>& devices) {
  States states;
  const auto pieces = pieces_to_save(graph);
  for (std::size_t rank = 0; rank < pieces.size(); ++rank)
    for (const StateRegister& piece : pieces[rank]) {
      std::vector<std::byte> part(static_cast<std::size_t>(size_of_box(piece).value));
      devices[rank]->read_state(piece.instance, piece.reg, part);
      std::vector<std::byte>& whole = states[piece.name];
      whole.resize(static_cast<std::size_t>(size_of(piece.global).value));
      put_box(part, piece.global, piece.box, whole);
    }
  return states;
}

// Begins copies at one count of steps, and looks at them when all steps are over.
class SavedOnce final : public StepBoundaries {
 public:
  SavedOnce(const PhysicalGraph& graph, const std::vector<Device*>& devices, std::int64_t step)
      : step_(step), pieces_(pieces_to_save(graph)) {
    for (std::size_t rank = 0; rank < devices.size(); ++rank) {
      std::vector<StateToCopy> states;
      for (const StateRegister& state : pieces_[rank])
        states.push_back({state.instance, state.reg, size_of_box(state)});
      copies_.push_back(devices[rank]->make_state_copies(std::move(states)));
    }
  }
  std::int64_t next(std::int64_t steps) const override {
    return steps < step_ ? step_ : std::numeric_limits<std::int64_t>::max();
  }
  void at(Rank rank, Device&, std::int64_t steps) override {
    if (steps == step_) copies_[rank.index()]->begin();
  }
  CheckpointContents contents() {
    CheckpointContents contents;
    contents.facts.step = step_;
    contents.ranks.resize(pieces_.size());
    for (std::size_t rank = 0; rank < pieces_.size(); ++rank) {
      const auto& copies = copies_[rank];
      copies->wait();
      contents.ranks[rank] = saved_pieces(
          pieces_[rank], [&](std::size_t state) { return copies->bytes(state); }, copies);
    }
    return contents;
  }
  void write(const std::string& folder) {
    CheckpointStorage storage;
    write_checkpoint(storage, folder, contents(), 0);
  }
  States states() {
    States states;
    for (const auto& rank : contents().ranks)
      for (const SavedPiece& piece : rank) {
        std::vector<std::byte>& whole = states[piece.name];
        whole.resize(static_cast<std::size_t>(size_of(piece.type).value));
        put_box(piece.bytes, piece.type, piece.box, whole);
      }
    return states;
  }

 private:
  const std::int64_t step_;
  const std::vector<std::vector<StateRegister>> pieces_;
  std::vector<std::shared_ptr<StateCopies>> copies_;
};

// A world of either backend, from first contents or from a checkpoint.
template <typename World>
class Training {
 public:
  template <typename Options>
  Training(const PhysicalGraph& graph, const Options& options)
      : graph_(graph), world_(graph, options) {}

  void resume(const std::string& folder) {
    CheckpointReader checkpoint(last_checkpoint(folder));
    first_ = checkpoint.manifest().facts.step;
    const std::vector<Device*> devices = world_.devices();
    load_states(checkpoint, graph_,
                [&](Rank rank, const StateRegister& state, std::span<const std::byte> from) {
                  devices[rank.index()]->write_state(state.instance, state.reg, from);
                });
  }
  std::vector<double> run(std::int64_t steps, StepBoundaries* boundaries = nullptr) {
    TrainingHost host(7);
    run_all(graph_, world_.devices(), host, steps, {.first_step = first_}, boundaries);
    std::vector<double> losses;
    for (const StepMetrics& metrics : host.steps()) losses.push_back(metrics.loss());
    return losses;
  }
  std::vector<Device*> devices() { return world_.devices(); }
  States states() { return states_of(graph_, world_.devices()); }

 private:
  const PhysicalGraph& graph_;
  World world_;
  std::int64_t first_ = 0;
};
using OnGpu = Training<CudaWorld>;
using OnCpu = Training<CpuWorld>;

TrainingCase small_case(DType dtype) {
  TrainingCase training;
  training.model = testing::small_gpt();
  training.sequence = training.model.sequence;
  training.dtype = dtype;
  training.dropout = 0.1;  // draws by the number of the step
  training.optimizer.warm_up = 15;
  return training;
}

TrainingCase conv_case(std::int64_t size, std::int64_t samples) {
  TrainingCase training;
  training.build = [size](std::int64_t batch, DType dtype) {
    ConvNetConfig config;
    config.name = "small";
    config.blocks = {1};
    config.channels = {4};
    config.stem_channels = 4;
    config.stem_kernel = 3;
    config.stem_stride = 1;
    config.stem_pool = false;
    config.bottleneck = false;
    config.height = config.width = size;
    config.classes = 2;
    return build_graph(config, batch, dtype);
  };
  training.dtype = DType::kF32;
  training.global_batch = samples;
  return training;
}

void check_resumed(const PhysicalGraph& graph, bool graphs) {
  const Folder folder("resumed");
  OnGpu whole(graph, gpu_options(graph.ranks.size(), graphs));
  SavedOnce saved(graph, whole.devices(), kSaved);
  const std::vector<double> losses = whole.run(kSteps, &saved);
  REQUIRE(losses.size() == static_cast<std::size_t>(kSteps));
  saved.write(folder.path);
  OnGpu resumed(graph, gpu_options(graph.ranks.size(), graphs));
  resumed.resume(folder.path);
  CHECK(resumed.states() == saved.states());
  const std::vector<double> rest = resumed.run(kSteps - kSaved);
  CHECK(rest == std::vector<double>(losses.begin() + kSaved, losses.end()));
  CHECK(resumed.states() == whole.states());
  // What went on is not what begins.
  OnGpu fresh(graph, gpu_options(graph.ranks.size(), graphs));
  CHECK(fresh.run(kSteps - kSaved) != rest);
}

// Samples that follow from their positions; what is made of them passes through two stages.
class MadeImages final : public SampleData {
 public:
  const std::string& name() const override { return name_; }
  std::string_view main_input() const override { return "images"; }
  bool fills(std::string_view input, const TensorType&) const override { return input == "images"; }
  void check(const TensorType&, std::int64_t) const override {}
  void fill(const InputPart& part, std::span<std::byte> bytes) const override {
    const std::int64_t sample = part.type.shape.elements() / part.type.shape[0];
    const std::int64_t first = (part.first_position + part.box.dims[0].offset) * sample;
    for (std::size_t i = 0; i < bytes.size() / sizeof(float); ++i) {
      const auto place = static_cast<std::uint64_t>(first) + i;
      const float value = static_cast<float>(place * 2'654'435'761U % 997U) / 997.0F - 0.5F;
      std::memcpy(bytes.data() + i * sizeof(float), &value, sizeof(float));
    }
  }
  std::vector<std::string> stage_kinds() const override { return {kReadSamples, kDecodeSamples}; }
  std::unique_ptr<SampleStages> stages(std::int32_t) const override {
    return std::make_unique<Stages>(*this);
  }
  bool depends_on_batch() const override { return false; }
  std::string fingerprint() const override { return name_; }

 private:
  class Stages final : public SampleStages {
   public:
    explicit Stages(const MadeImages& images) : images_(images) {}
    void act(std::string_view kind, const InputPart& part, std::int64_t content) override {
      if (kind != kDecodeSamples) return;
      const TensorType local{part.box.local_shape(), part.type.dtype};
      std::vector<std::byte> bytes(static_cast<std::size_t>(size_of(local).value));
      images_.fill(part, bytes);
      const std::lock_guard lock(mutex_);
      made_[content] = std::move(bytes);
    }
    void deliver(std::int64_t content, std::span<std::byte> bytes) override {
      const std::lock_guard lock(mutex_);
      std::memcpy(bytes.data(), made_.at(content).data(), bytes.size());
      made_.erase(content);
    }

   private:
    const MadeImages& images_;
    std::mutex mutex_;
    std::map<std::int64_t, std::vector<std::byte>> made_;
  };
  const std::string name_ = "made";
};

std::vector<double> losses_on_images(const PhysicalGraph& graph, const SampleData& data,
                                     bool graphs, std::int32_t registers) {
  CudaWorld world(graph, gpu_options(graph.ranks.size(), graphs));
  TrainingHost host(data, 5, Bytes(1 << 24), registers);
  run_all(graph, world.devices(), host, kSteps);
  std::vector<double> losses;
  for (const StepMetrics& metrics : host.steps()) losses.push_back(metrics.loss());
  return losses;
}

}  // namespace

TEST_CASE(
    "training on a GPU that goes on from step 10 has the bits of training that never stopped" *
    doctest::skip(!has_gpu())) {
  for (const DType dtype : {DType::kF32, DType::kBF16})
    for (const char* strategy : {"micro_batch=8", "micro_batch=2"})
      for (const bool graphs : {true, false}) {
        CAPTURE(to_string(dtype));
        CAPTURE(strategy);
        CAPTURE(graphs);
        check_resumed(compile_case(small_case(dtype), strategy), graphs);
      }
  // Statistics of norms change in the forward pass.
  check_resumed(compile_case(conv_case(6, 4), "micro_batch=2"), true);
}

TEST_CASE("so has training of several ranks on a card" * doctest::skip(!has_gpu())) {
  for (const char* strategy :
       {"dp=2 zero=1 micro_batch=2", "pp=2 dp=2 micro_batch=2", "dp=2 tp=2 zero=3 micro_batch=2"}) {
    CAPTURE(strategy);
    check_resumed(compile_case(small_case(DType::kF32), strategy), false);
  }
}

TEST_CASE("states of every optimizer and of a dynamic loss scale go on" *
          doctest::skip(!has_gpu())) {
  TrainingCase training = small_case(DType::kF32);
  for (const OptimizerKind kind :
       {OptimizerKind::kSgd, OptimizerKind::kMomentum, OptimizerKind::kLamb}) {
    training.optimizer.kind = kind;
    CAPTURE(to_string(kind));
    check_resumed(compile_case(training, "micro_batch=4"), true);
  }
  training = small_case(DType::kF32);
  training.optimizer.max_gradient_norm = 0.5;
  training.optimizer.loss_scale = {.kind = LossScale::Kind::kDynamic, .initial = 8, .interval = 3};
  check_resumed(compile_case(training, "micro_batch=4"), true);
}

// 200 MB of states take as long as several steps of this model: an update that did not wait would
// change what is still to be copied.
TEST_CASE("copies that come beside the steps are the states before them" *
          doctest::skip(!has_gpu())) {
  TrainingCase training = small_case(DType::kF32);
  training.model.vocab = 60'000;
  training.model.hidden = 256;
  training.model.heads = training.model.kv_heads = 4;
  training.global_batch = 1;
  const PhysicalGraph graph = compile_case(training, "micro_batch=1");
  for (const bool graphs : {true, false}) {
    CAPTURE(graphs);
    OnGpu beside(graph, gpu_options(1, graphs)), stopped(graph, gpu_options(1, graphs));
    SavedOnce saved(graph, beside.devices(), 6);
    const std::vector<double> losses = beside.run(12, &saved);
    const States copied = saved.states();
    std::size_t bytes = 0;
    for (const auto& [name, state] : copied) bytes += state.size();
    CHECK(bytes > std::size_t{150} << 20);
    const std::vector<double> first = stopped.run(6);
    CHECK(first == std::vector<double>(losses.begin(), losses.begin() + 6));
    CHECK(copied == stopped.states());
    CHECK(copied != beside.states());
  }
}

TEST_CASE("a checkpoint of a GPU is one of the CPU, and the other way round" *
          doctest::skip(!has_gpu())) {
  const TrainingCase training = small_case(DType::kF32);
  const PhysicalGraph one = compile_case(training, "micro_batch=4");
  const PhysicalGraph two = compile_case(training, "dp=2 zero=3 micro_batch=2");
  {
    const Folder folder("to_cpu");
    OnGpu source(one, gpu_options(1, true));
    SavedOnce saved(one, source.devices(), kSaved);
    source.run(kSaved, &saved);
    saved.write(folder.path);
    for (const PhysicalGraph* graph : {&one, &two}) {
      OnCpu target(*graph, cpu_options());
      REQUIRE(target.states() != source.states());
      target.resume(folder.path);
      CHECK(target.states() == source.states());
      CHECK(target.run(2).size() == 2);
    }
  }
  const Folder folder("to_gpu");
  OnCpu source(two, cpu_options());
  SavedOnce saved(two, source.devices(), kSaved);
  source.run(kSaved, &saved);
  saved.write(folder.path);
  for (const PhysicalGraph* graph : {&one, &two}) {
    OnGpu target(*graph, gpu_options(graph->ranks.size(), true));
    target.resume(folder.path);
    CHECK(target.states() == source.states());
    CHECK(target.run(2).size() == 2);
  }
}

// Where a step is replayed, the loader's credits come before the step is launched: a loader that
// asked their fences overwrote what was still to be copied.
TEST_CASE("samples that actors make beside the step are those that a loader makes" *
          doctest::skip(!has_gpu())) {
  const MadeImages images;
  for (const char* strategy : {"micro_batch=64", "micro_batch=16", "dp=2 micro_batch=32"}) {
    CAPTURE(strategy);
    const PhysicalGraph plain = compile_case(conv_case(32, 64), strategy);
    const std::vector<double> wanted = losses_on_images(plain, images, false, 1);
    REQUIRE(wanted.size() == static_cast<std::size_t>(kSteps));
    CHECK(std::set<double>(wanted.begin(), wanted.end()).size() > 10);
    for (const bool graphs : {true, false})
      for (const std::int32_t registers : {1, 2, 3}) {
        CAPTURE(graphs);
        CAPTURE(registers);
        PhysicalGraph graph = plain;
        add_data_actors(graph, images.main_input(), images.stage_kinds(), registers);
        CHECK(losses_on_images(graph, images, graphs, registers) == wanted);
      }
  }
}

}  // namespace sextant::cuda_checkpoint_test
