// How far two training runs lie apart, each kind of tensor on a scale of its own.
#pragma once

#include "tests/conformance/training/training_runs.h"

#include <string>

namespace sextant {

// For trainings in f64: sums of another order differ by about 1e-16 per term, steps carry that on.
inline constexpr double kF64Bound = 1e-10;

struct Distance {
  double error = 0;   // infinite: a tensor or a step is missing, or no number
  std::string where;  // "losses", or the tensor that differs most
};

// Parameters, gradients' first moments, second moments, counts of steps and running statistics each
// have their scale: the largest element of all tensors of the kind. (Not of the single tensor:
// softmax does not see a bias of the keys, whose gradient is therefore noise around zero.)
Distance distance_of_losses(const TrainingResult& found, const TrainingResult& expected);
// The first moments alone, which after the first step are gradients.
Distance distance_of_gradients(const TrainingResult& found, const TrainingResult& expected);
Distance distance_of_state(const TrainingResult& found, const TrainingResult& expected);
Distance larger(const Distance& a, const Distance& b);
// The larger of losses and state.
Distance distance(const TrainingResult& found, const TrainingResult& expected);

}  // namespace sextant
