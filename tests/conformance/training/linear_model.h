// A model whose gradients are its data: the loss is the sum over samples of x . w, so the gradient
// of a weight is the sum of what the test puts into its input, device by device.
#pragma once

#include "core/graphs/host_actors.h"
#include "io/training_host.h"
#include "tests/conformance/training/training_runs.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace sextant {

struct LinearWeight {
  std::string name;  // its input is "x.NAME"
  int layer = 0;
  std::int64_t size = 1;
  bool decays = true;
  std::optional<std::size_t> tensor_parallel_dim = std::nullopt;
  double deviation = 1.0;  // of its first values; 0: zeros
};

// Layers without weights pass the loss on. The number of tokens is the sum of input "count".
ModelBuilder linear_model(std::vector<LinearWeight> weights, int layers);

// Element `place` of input `name` for a sample, counted over the whole run.
using InputValue =
    std::function<double(const std::string& name, std::int64_t sample, std::int64_t place)>;

struct LinearRun {
  std::vector<StepMetrics> steps;
  std::map<std::string, std::vector<double>> state;  // as TrainingResult::state
};

LinearRun run_linear(const TrainingCase& training, const std::string& strategy,
                     const InputValue& value, const CpuOptions& cpu);

}  // namespace sextant
