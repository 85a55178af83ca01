// Words for a whole graph: every operator gets a signature per axis, in topological order, so that
// the boxing in front of it is cheapest. Deterministic.
#pragma once

#include "core/cost_model.h"
#include "core/logical_graph.h"
#include "core/operator.h"
#include "core/placement.h"
#include "core/sbp.h"

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sextant {

// What is decided before inference.
struct WordConstraints {
  std::map<TensorId, NdSbp> tensors;  // words at the producer: parameters, inputs, user's pins
};

struct OpWords {
  std::vector<NdSbp> inputs;  // as the operator wants them; may differ from the producer's words
  std::vector<NdSbp> outputs;
};

struct WordAssignment {
  std::vector<OpWords> ops;  // by OpId
};

// `stage_of_layer[layer]` names the placement of an operator. Operators without constraint take the
// cheapest product of their rows: cost = bytes (or time with `network`) of boxing their inputs plus
// their share of compute; ties by preference order of the rows. Throws Error(kInfeasible) naming
// the operator, its inputs' words and every candidate.
WordAssignment infer_words(const LogicalGraph& graph, const std::vector<Placement>& stages,
                           const std::vector<int>& stage_of_layer,
                           const WordConstraints& constraints,
                           const NetworkModel* network = nullptr);

// All N-D products of the operator's rows for these global types that fit a mesh with these extents
// (core/operator.h, fits), in order of preference.
std::vector<OpWords> nd_signatures(const OperatorDef& def, std::span<const TensorType> inputs,
                                   std::span<const TensorType> outputs,
                                   const Attributes& attributes,
                                   std::span<const std::int64_t> hierarchy);

}  // namespace sextant
