// Words for a whole graph: every operator gets a signature per axis, in topological order, so that
// the boxing in front of it is cheapest. Deterministic. Rules and costs: README, "Inference".
#pragma once

#include "core/graphs/logical_graph.h"
#include "core/graphs/operator.h"
#include "core/tensors/placement.h"
#include "core/tensors/sbp.h"

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace sextant {

class BoxingPlans;

struct OpInput {
  OpId op;
  std::size_t input = 0;
  auto operator<=>(const OpInput&) const = default;
};

// What is decided before inference. Mesh axes of extent 1 count as B whatever is said of them.
struct WordConstraints {
  std::map<TensorId, NdSbp> tensors;  // words at the producer: parameters, inputs, user's pins
  std::map<OpInput, NdSbp> inputs;    // words in which an operator reads its input
  // The word of one axis alone in which an operator reads its input; nesting is left to inference.
  struct OnAxis {
    std::size_t axis = 0;
    Sbp word;
  };
  std::map<OpInput, OnAxis> inputs_on_axis;
  // Refuse where a split that arrives would be gathered only because its parts would cut a group
  // (the heads of attention), naming the degrees that would do.
  bool whole_groups = false;
  // Operators whose groups several devices may hold: there a split over a multiple of the groups is
  // gathered instead.
  std::set<OpId> shared_groups;
};

struct OpWords {
  std::vector<NdSbp> inputs;  // as the operator wants them; may differ from the producer's words
  std::vector<NdSbp> outputs;
  bool operator==(const OpWords&) const = default;
};

// Equal layers have equal words: each is kept once.
class WordAssignment {
 public:
  const OpWords& of(OpId op) const { return distinct_[of_op_[op.index()]]; }
  // Appends the words of the next operator: new ones, or again those with this number.
  std::size_t add(OpWords words);
  void add_again(std::size_t number) { of_op_.push_back(number); }
  // Those of an earlier operator.
  void add_copy_of(OpId op) { of_op_.push_back(of_op_[op.index()]); }

 private:
  std::vector<OpWords> distinct_;
  std::vector<std::size_t> of_op_;
};

// `stage_of_layer[layer]` names the placement of an operator. Throws Error(kInfeasible) naming the
// operator, its inputs' words and every candidate when none fits the constraints, Error(kUsage) for
// constraints that do not fit the graph.
WordAssignment infer_words(const LogicalGraph& graph, const std::vector<Placement>& stages,
                           const std::vector<int>& stage_of_layer,
                           const WordConstraints& constraints);
// Infers words with plans by bytes that several questions share.
WordAssignment infer_words(const LogicalGraph& graph, const std::vector<Placement>& stages,
                           const std::vector<int>& stage_of_layer,
                           const WordConstraints& constraints, BoxingPlans& plans);

// All N-D products of the operator's rows for these global types that fit a mesh with these extents
// (core/graphs/operator.h, fits), in order of preference: rows of the first axis first. An axis of
// extent 1 takes the row without splits. Where two axes split one dim, each nesting order is a
// product of its own: axis order first. Empty for sources, whose words are the user's choice.
std::vector<OpWords> nd_signatures(const OperatorDef& def, std::span<const TensorType> inputs,
                                   std::span<const TensorType> outputs,
                                   const Attributes& attributes,
                                   std::span<const std::int64_t> hierarchy);

// The words of all axes that rows of one axis make, on a mesh of these extents.
std::vector<OpWords> nd_products(const std::vector<SbpSignature>& rows,
                                 std::span<const std::int64_t> hierarchy);

// The axis along which these words make an operator hand its parts to the next device
// (SbpSignature::ring) instead of acting on them.
std::optional<std::size_t> ring_axis(const OperatorDef& def, std::span<const TensorType> inputs,
                                     std::span<const TensorType> outputs,
                                     const Attributes& attributes, const OpWords& words,
                                     std::span<const std::int64_t> hierarchy);

}  // namespace sextant
