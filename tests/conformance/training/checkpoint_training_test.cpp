// Training that goes on from a checkpoint: under its own plan the bits are those of training that
// never stopped; under another plan the states are, to the bit.
#include "actor/runtime.h"
#include "core/base/error.h"
#include "io/checkpoints/checkpoint_folder.h"
#include "io/checkpoints/checkpoint_reader.h"
#include "io/checkpoints/checkpoint_writer.h"
#include "io/checkpoints/pieces_to_save.h"
#include "io/checkpoints/state_copies.h"
#include "io/training_host.h"
#include "tests/conformance/training/training_runs.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sextant::checkpoint_training_test {
namespace {

using States = std::map<std::string, std::vector<double>>;

struct Folder {
  explicit Folder(const std::string& name)
      : path(std::filesystem::temp_directory_path() / ("sextant_training_" + name)) {
    std::filesystem::remove_all(path);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string path;
};

CpuOptions options() {
  CpuOptions options;
  options.seed = 3;
  return options;
}

TrainingCase small_case() {
  TrainingCase training;
  training.model = tiny_gpt();
  training.model.layers = 2;
  training.dtype = DType::kF32;
  training.sequence = 4;  // which cp=2 divides
  training.dropout = 0.1;
  training.optimizer.warm_up = 3;
  return training;
}

// Saves at one count of steps, while the ranks go on.
class SavedOnce final : public StepBoundaries {
 public:
  SavedOnce(const PhysicalGraph& graph, std::int64_t step)
      : step_(step), pieces_(pieces_to_save(graph)) {
    contents_.facts.step = step;
    contents_.ranks.resize(pieces_.size());
  }

  std::int64_t next(std::int64_t steps) const override {
    return steps < step_ ? step_ : std::numeric_limits<std::int64_t>::max();
  }
  void at(Rank rank, Device& device, std::int64_t steps) override {
    const std::lock_guard lock(mutex_);
    stops_[steps].insert(rank);
    if (steps != step_) return;
    std::vector<StateToCopy> states;
    for (const StateRegister& state : pieces_[rank.index()])
      states.push_back({state.instance, state.reg, size_of_box(state)});
    const auto copies = device.make_state_copies(std::move(states));
    copies->begin();
    copies->wait();
    contents_.ranks[rank.index()] = saved_pieces(
        pieces_[rank.index()], [&](std::size_t state) { return copies->bytes(state); }, copies);
  }

  void write(const std::string& folder) {
    CheckpointStorage storage;
    write_checkpoint(storage, folder, contents_, 0);
  }
  const std::map<std::int64_t, std::set<Rank>>& stops() const { return stops_; }
  const CheckpointContents& contents() const { return contents_; }

 private:
  const std::int64_t step_;
  const std::vector<std::vector<StateRegister>> pieces_;
  std::mutex mutex_;
  CheckpointContents contents_;
  std::map<std::int64_t, std::set<Rank>> stops_;
};

// Ranks that have what training needs, from the first contents or from a checkpoint.
class Training {
 public:
  explicit Training(const PhysicalGraph& graph) : graph_(graph), world_(graph, options()) {}

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
    first_ += steps;
    std::vector<double> losses;
    for (const StepMetrics& metrics : host.steps()) losses.push_back(metrics.loss());
    return losses;
  }
  States states() const { return collect_state(graph_, world_); }

 private:
  const PhysicalGraph& graph_;
  CpuWorld world_;
  std::int64_t first_ = 0;
};

void save_after(const PhysicalGraph& graph, std::int64_t steps, const std::string& folder) {
  SavedOnce saved(graph, steps);
  Training(graph).run(steps, &saved);
  saved.write(folder);
}

// Compiling takes longer than training does.
const PhysicalGraph& graph_of(const std::string& plan) {
  static std::map<std::string, PhysicalGraph> graphs;
  const auto known = graphs.find(plan);
  return known != graphs.end()
             ? known->second
             : graphs.emplace(plan, compile_case(small_case(), plan)).first->second;
}

const std::vector<const char*>& plans() {
  static const std::vector<const char*> plans = {"dp=1",
                                                 "dp=2 tp=2 micro_batch=2 zero=1",
                                                 "dp=4 zero=3",
                                                 "pp=2 dp=2 zero=2 micro_batch=2",
                                                 "tp=2 pp=2 sp=on schedule=1f1b",
                                                 "cp=2 micro_batch=4"};
  return plans;
}

// Losses and states of 2 n steps, without a stop and with one in the middle.
void check_resumed(const PhysicalGraph& graph, std::int64_t n) {
  const Folder folder("resumed");
  SavedOnce saved(graph, n);
  Training whole(graph);
  const std::vector<double> losses = whole.run(2 * n, &saved);
  REQUIRE(losses.size() == static_cast<std::size_t>(2 * n));
  CHECK(saved.stops().size() == 2);  // the middle and the end
  for (const auto& [step, ranks] : saved.stops()) CHECK(ranks.size() == graph.ranks.size());
  saved.write(folder.path);
  Training resumed(graph);
  resumed.resume(folder.path);
  const std::vector<double> rest = resumed.run(n);
  CHECK(rest == std::vector<double>(losses.begin() + n, losses.end()));
  CHECK(resumed.states() == whole.states());
  // What went on is not what begins: without the checkpoint losses differ.
  CHECK(Training(graph).run(n) != rest);
}

}  // namespace

TEST_CASE("losses and states of 2 + 2 steps are those of 4, under every kind of plan") {
  for (const char* plan : plans()) {
    CAPTURE(plan);
    check_resumed(graph_of(plan), 2);
  }
}

TEST_CASE("states of every optimizer and of a dynamic loss scale go on") {
  TrainingCase training = small_case();
  for (const OptimizerKind kind :
       {OptimizerKind::kSgd, OptimizerKind::kMomentum, OptimizerKind::kLamb}) {
    training.optimizer.kind = kind;
    CAPTURE(to_string(kind));
    check_resumed(compile_case(training, "dp=2 zero=1"), 2);
  }
  training = small_case();
  training.optimizer.max_gradient_norm = 0.5;
  training.optimizer.loss_scale = {.kind = LossScale::Kind::kDynamic, .initial = 8, .interval = 3};
  check_resumed(compile_case(training, "pp=2 dp=2"), 2);
}

TEST_CASE("steps do not change where ranks stop between them") {
  const PhysicalGraph& graph = graph_of(plans()[1]);
  Training stopped(graph), whole(graph);
  SavedOnce saved(graph, 1);
  CHECK(stopped.run(3, &saved) == whole.run(3));
  CHECK(stopped.states() == whole.states());
}

TEST_CASE("a checkpoint of any plan has, under any other, the same states to the bit") {
  for (const char* from : plans()) {
    const Folder folder("plans");
    SavedOnce saved(graph_of(from), 2);
    Training source(graph_of(from));
    source.run(2, &saved);
    saved.write(folder.path);
    const States states = source.states();
    for (const char* to : plans()) {
      CAPTURE(from);
      CAPTURE(to);
      Training target(graph_of(to));
      REQUIRE(target.states() != states);
      target.resume(folder.path);
      CHECK(target.states() == states);
    }
  }
}

TEST_CASE("a box that several ranks hold is saved once, and ranks share the work") {
  const PhysicalGraph graph = compile_case(small_case(), "dp=4");  // all hold all
  SavedOnce saved(graph, 1);
  Training(graph).run(1, &saved);
  std::int64_t all = 0, most = 0, elements = 0;
  std::map<StateName, std::int64_t> wholes;
  for (const std::vector<SavedPiece>& rank : saved.contents().ranks) {
    std::int64_t bytes = 0;
    for (const SavedPiece& piece : rank) {
      bytes += static_cast<std::int64_t>(piece.bytes.size());
      elements += piece.box.elements();
      wholes[piece.name] = piece.type.shape.elements();
    }
    all += bytes;
    most = std::max(most, bytes);
  }
  std::int64_t wanted = 0;
  for (const auto& [name, whole] : wholes) wanted += whole;
  CHECK(elements == wanted);
  CHECK(most < all / 2);
}

TEST_CASE("states that are missing, left over or of another type are named") {
  const TrainingCase training = small_case();
  const Folder folder("others");
  save_after(compile_case(training, "dp=2"), 1, folder.path);
  const auto message = [&](const TrainingCase& other) -> std::string {
    const PhysicalGraph graph = compile_case(other, "dp=2");
    try {
      Training(graph).resume(folder.path);
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::kCheckpoint);
      return error.what();
    }
    return "";
  };
  CHECK(message(training).empty());
  TrainingCase deeper = training;
  deeper.model.layers = 3;
  CHECK(message(deeper).find("manifest.json: has no state '") != std::string::npos);
  CHECK(message(deeper).find("which this training has") != std::string::npos);
  TrainingCase shallower = training;
  shallower.model.layers = 1;
  CHECK(message(shallower).find("which this training does not have") != std::string::npos);
  TrainingCase wider = training;
  wider.model.ffn = 14;
  CHECK(message(wider).find("in this training") != std::string::npos);
  TrainingCase plain = training;
  plain.optimizer.kind = OptimizerKind::kSgd;
  CHECK(message(plain).find("(first_moment)', which this training does not have") !=
        std::string::npos);
}

}  // namespace sextant::checkpoint_training_test
