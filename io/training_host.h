// Host actors of a training run: fills `input` registers from token data or by chance, reads
// `metrics`.
#pragma once

#include "core/base/units.h"
#include "core/graphs/host_actors.h"
#include "io/synthetic_data.h"
#include "io/token_data.h"

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
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
  // Token data fills `tokens` and `labels` of [batch, sequence] i32 and must outlive the host;
  // every other input gets synthetic data (io/synthetic_data.h), and all do without token data.
  // No more than `room` of it is kept from step to step.
  TrainingHost(const TokenData& data, std::uint64_t seed, Bytes room = kAnyRoom)
      : data_(&data), seed_(seed), synthetic_(seed, room) {}
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
  static constexpr Bytes kAnyRoom{std::numeric_limits<std::int64_t>::max()};

  void load(const HostAct& act);
  void count(const HostAct& act);
  void load_tokens(const HostAct& act, const TensorType& type) const;
  void collect(const HostAct& act);

  const TokenData* data_ = nullptr;
  const std::uint64_t seed_;
  std::int64_t first_step_ = 0, first_sample_ = 0;
  SyntheticData synthetic_;
  std::function<void(const StepMetrics&)> callback_;
  mutable std::mutex mutex_;  // of what is below
  std::vector<StepMetrics> steps_;
  std::map<Rank, std::vector<std::int64_t>> loaded_bytes_;
};

// Inputs of a graph that get synthetic data, sorted; what a user should be told.
std::vector<std::string> synthetic_inputs(const PhysicalGraph& graph, bool has_token_data);
// Of one global batch of these inputs.
Bytes synthetic_bytes(const PhysicalGraph& graph, bool has_token_data);

}  // namespace sextant
