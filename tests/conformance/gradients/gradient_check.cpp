// Two evaluations of the loss per checked element.
#include "tests/conformance/gradients/gradient_check.h"

#include "compiler/training/autodiff.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace sextant {
namespace {

double loss_of(const LogicalGraph& graph, TensorValues values) {
  evaluate(graph, values);
  return values.at(*graph.loss_sum())[0];
}

// Step and tolerance of a central difference (L(x+h) - L(x-h)) / 2h of a loss of about 10 whose
// third derivative is at most 10^2. Truncation h^2 / 6 * 10^2 plus rounding 10 u / h, u the unit of
// the roundest tensor on the way: f64 (u = 1.1e-16) with h = 2^-17: 1e-9 + 1.5e-10; f32 (u = 6e-8)
// with h = 2^-8: 2.5e-4 + 1.5e-4. Taken five times as large.
struct Difference {
  double step = std::ldexp(1.0, -17), tolerance = 5e-9;
};

Difference difference_for(const LogicalGraph& graph) {
  for (const LogicalTensor& tensor : graph.tensors())
    if (tensor.type.dtype == DType::kF32) return {.step = std::ldexp(1.0, -8), .tolerance = 2e-3};
  return {};
}

double slope(const Problem& problem, TensorId parameter, std::size_t element, double step) {
  TensorValues above = problem.values, below = problem.values;
  above.at(parameter)[element] += step;
  below.at(parameter)[element] -= step;
  return (loss_of(problem.graph, std::move(above)) - loss_of(problem.graph, std::move(below))) /
         (2 * step);
}

}  // namespace

double check_gradients(const Problem& problem, std::size_t elements_per_parameter) {
  const Difference difference = difference_for(problem.graph);
  LogicalGraph graph = problem.graph;
  const std::vector<ParameterGradient> gradients = append_gradients(graph);
  TensorValues values = problem.values;
  evaluate(graph, values);
  double largest = 0;
  for (const ParameterGradient& gradient : gradients) {
    const TensorId parameter = graph.output(gradient.parameter);
    const std::vector<double>& found = values.at(gradient.gradient);
    const std::size_t stride = std::max<std::size_t>(1, found.size() / elements_per_parameter);
    for (std::size_t i = 0; i < found.size(); i += stride) {
      CAPTURE(graph.op(gradient.parameter).name);
      CAPTURE(i);
      const double wanted = slope(problem, parameter, i, difference.step);
      CHECK(std::abs(found[i] - wanted) <= difference.tolerance * std::max(1.0, std::abs(wanted)));
      largest = std::max(largest, std::abs(found[i]));
    }
  }
  return largest;
}

std::vector<double> random_values(const CounterRng& rng, std::int64_t count, double low,
                                  double high) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < count; ++i)
    values.push_back(low + (high - low) * rng.uniform(static_cast<std::uint64_t>(i)));
  return values;
}

std::vector<double> random_integers(const CounterRng& rng, std::int64_t count, std::int64_t first,
                                    std::int64_t last) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto choices = static_cast<std::uint64_t>(last - first + 1);
    values.push_back(static_cast<double>(
        first + static_cast<std::int64_t>(rng.bits(static_cast<std::uint64_t>(i)) % choices)));
  }
  return values;
}

}  // namespace sextant
