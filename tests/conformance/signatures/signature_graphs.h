// Random small graphs of registered operators on global tensors, with their values: chains and
// diamonds that are fit to be compared between a global and a sharded run.
#pragma once

#include "core/graphs/logical_graph.h"
#include "core/graphs/operator.h"
#include "tests/conformance/operators/sharding.h"

#include <cstddef>
#include <map>
#include <string>

namespace sextant {

struct RandomGraph {
  LogicalGraph graph{builtin_operators()};
  std::map<TensorId, Piece> values;  // of every tensor, from the global run
};

// Appends operators until the graph has `num_ops` of them besides its inputs, or nothing fits. An
// operator comes from an example of its kind, its extents renamed to fit a tensor that is there;
// every operator but the first reads such a tensor. Left out are
// - state, sources, host operators, other floating types than f64;
// - results that are not finite or above 1000, and inputs outside the example's range;
// - operators that answer a change of 10^-12 of what an operator before made by more than 10^-7:
//   comparisons of rounded numbers, roundings, poles. A sharded run sums in another order, so there
//   it may rightly give another result.
RandomGraph random_graph(const std::string& stream, std::size_t num_ops);

// "op3 = matmul(in0 5x4, op1 4x3) -> 5x3; ...".
std::string to_string(const RandomGraph& graph);

}  // namespace sextant
