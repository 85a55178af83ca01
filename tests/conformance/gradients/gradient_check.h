// Compares the gradients that autodiff makes with central differences of the loss.
#pragma once

#include "core/base/counter_rng.h"
#include "core/graphs/logical_graph.h"
#include "core/graphs/operator.h"
#include "tests/conformance/operators/operator_runner.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sextant {

// A graph with a loss and values for its parameters and inputs.
struct Problem {
  LogicalGraph graph{builtin_operators()};
  TensorValues values;
};

// Checks up to `elements_per_parameter` elements of every parameter's gradient, evenly spread.
// Returns the largest of them, so that a problem without slope is noticed.
double check_gradients(const Problem& problem, std::size_t elements_per_parameter = 1000);

std::vector<double> random_values(const CounterRng& rng, std::int64_t count, double low,
                                  double high);
std::vector<double> random_integers(const CounterRng& rng, std::int64_t count, std::int64_t first,
                                    std::int64_t last);

}  // namespace sextant
