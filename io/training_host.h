// Host actors of a training run: fills `input` registers from token data, reads `metrics`.
#pragma once

#include "core/host_actors.h"
#include "io/token_data.h"

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
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
  // `data` must outlive the host. Inputs named `tokens` and `labels` are filled; any other name is
  // an Error(kBadInput).
  TrainingHost(const TokenData& data, std::uint64_t seed) : data_(data), seed_(seed) {}

  void act(const HostAct& act) override;

  // Called once per step, in order, on a host thread.
  void on_step(std::function<void(const StepMetrics&)> callback) {
    callback_ = std::move(callback);
  }
  std::vector<StepMetrics> steps() const;

 private:
  void load(const HostAct& act) const;
  void collect(const HostAct& act);

  const TokenData& data_;
  const std::uint64_t seed_;
  std::function<void(const StepMetrics&)> callback_;
  mutable std::mutex mutex_;  // of steps_
  std::vector<StepMetrics> steps_;
};

}  // namespace sextant
