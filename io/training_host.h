// Host actors of a training run: fills `input` registers from the user's data or by chance, reads
// `metrics`.
#pragma once

#include "core/base/units.h"
#include "core/graphs/host_actors.h"
#include "io/data/sample_data.h"
#include "io/synthetic_data.h"

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sextant {

// Sums over the tokens of one step's global batch.
struct StepMetrics {
  std::int64_t step = 0;
  std::map<std::string, double> values;  // by the names of the metrics operator
  double loss() const;                   // loss_sum / token_count; 0 without tokens
};

class TrainingHost final : public HostActors {
 public:
  // `data` fill the inputs that they have something for and must outlive the host; every other
  // input gets synthetic data (io/synthetic_data.h), and all do without data. No more than `room`
  // of it is kept from step to step.
  // An input that is made in stages has actors before it, with `num_registers` each
  // (compiler/expand/data_actors.h).
  TrainingHost(const SampleData& data, std::uint64_t seed, Bytes room = kAnyRoom,
               std::int32_t num_registers = 1)
      : data_(&data), seed_(seed), num_registers_(num_registers), synthetic_(seed, room) {}
  explicit TrainingHost(std::uint64_t seed, Bytes room = kAnyRoom)
      : seed_(seed), synthetic_(seed, room) {}

  // Training goes on at `step`, before which `samples` were given: the next one of the data is
  // that. Before the first act.
  void start_at(std::int64_t step, std::int64_t samples) {
    first_step_ = step;
    first_sample_ = samples;
  }
  void act(const HostAct& act) override;

  // Called once per step, in order, on a host thread.
  void on_step(std::function<void(const StepMetrics&)> callback) {
    callback_ = std::move(callback);
  }
  std::vector<StepMetrics> steps() const;
  // Bytes of inputs that each rank was given, by step; ranks without an input have none.
  std::map<Rank, std::vector<std::int64_t>> loaded_bytes() const;
  Bytes kept_data() const { return synthetic_.kept(); }

 private:
  // An input of one rank that is made in stages.
  struct StagedInput {
    std::unique_ptr<SampleStages> stages;
    Actor input;
    TensorType type;  // global
    Shard box;
  };

  static constexpr Bytes kAnyRoom{std::numeric_limits<std::int64_t>::max()};

  void load(const HostAct& act);
  void act_on_samples(const HostAct& act);
  StagedInput& staged_input(const HostAct& act);
  std::int64_t content_of(const HostAct& act) const;
  InputPart part_of(const HostAct& act, const Actor& input, const TensorType& type,
                    const Shard& box) const;
  void count(const HostAct& act);
  void load_data(const HostAct& act, const TensorType& type) const;
  void collect(const HostAct& act);

  const SampleData* data_ = nullptr;
  const std::uint64_t seed_;
  const std::int32_t num_registers_ = 1;
  std::int64_t first_step_ = 0, first_sample_ = 0;
  SyntheticData synthetic_;
  std::function<void(const StepMetrics&)> callback_;
  mutable std::mutex mutex_;  // of what is below
  std::vector<StepMetrics> steps_;
  std::map<Rank, std::vector<std::int64_t>> loaded_bytes_;
  // By rank and instance of the input; looked up, never walked through.
  std::map<std::pair<Rank, const Instance*>, std::unique_ptr<StagedInput>> staged_inputs_;
};

// Whether the model reads such data: it has their main input.
bool reads(const PhysicalGraph& graph, const SampleData& data);
// Throws Error(kBadInput) where they are not enough for its steps (SampleData::check).
void require_enough(const PhysicalGraph& graph, const SampleData& data);
// Whether it has an input of this name.
bool has_input(const PhysicalGraph& graph, std::string_view name);
// Inputs of a graph that get synthetic data, sorted; what a user should be told. `data`: null where
// there are none.
std::vector<std::string> synthetic_inputs(const PhysicalGraph& graph, const SampleData* data);
// Of one global batch of these inputs.
Bytes synthetic_bytes(const PhysicalGraph& graph, const SampleData* data);

}  // namespace sextant
