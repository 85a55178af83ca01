// Runs a whole logical graph operator by operator over a mesh, each operator by a row of its own
// choice on each axis: what a compiler may do with a graph, without a compiler.
#pragma once

#include "core/graphs/logical_graph.h"
#include "tests/conformance/operators/operator_runner.h"
#include "tests/conformance/operators/sharding.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace sextant {

// Appends an operator named after its kind and its place in the graph; its first output.
TensorId add_op(LogicalGraph& graph, std::string kind, std::vector<TensorId> inputs,
                Attributes attributes);

// Values of all tensors when every operator runs over the mesh by one of the products of rows that
// fit: `choose` gives a number, taken modulo how many these are. Given are the values of parameters
// and inputs.
using ChooseRow = std::function<std::size_t()>;
void evaluate_sharded(const LogicalGraph& graph, TensorValues& values, const Hierarchy& hierarchy,
                      const ChooseRow& choose, Random& random);

// Checks that every row of every operator, alone and among `mixtures` random choices for all
// operators at once, over 2, 3, 4 and 2x2 parts gives the values of the global run. Returns these.
TensorValues check_all_splits(const LogicalGraph& graph, const TensorValues& given,
                              int mixtures = 20);

// Checks that the numbers agree in the six decimals that acceptance cases give.
void check_six_digits(const std::vector<double>& found, const std::vector<double>& wanted);

}  // namespace sextant
