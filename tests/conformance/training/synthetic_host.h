// Data for a model of any inputs: every value is a function of the input's name, the sample and the
// place in it, so that all plans see the same samples.
#pragma once

#include "core/base/counter_rng.h"
#include "core/graphs/host_actors.h"
#include "io/data/token_data.h"
#include "io/training_host.h"

#include <cstdint>
#include <vector>

namespace sextant {

// Dim 0 of every input is the sample. Integers lie below the input's `limit` (or are 0 and 1
// without one), and one of five is its `ignore_index` where it has one; reals are normal.
class SyntheticHost final : public HostActors {
 public:
  explicit SyntheticHost(std::uint64_t seed);

  void act(const HostAct& act) override;
  std::vector<StepMetrics> steps() const { return metrics_.steps(); }

 private:
  void fill(const HostAct& act) const;

  std::uint64_t seed_;
  TokenData no_tokens_;
  TrainingHost metrics_;
};

}  // namespace sextant
