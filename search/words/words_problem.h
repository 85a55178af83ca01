// Which words every operator of a training graph takes on a mesh that stands, as a min-sum problem:
// what the strategy leaves open are labels, modelled time is cost. What is in the cost and what is
// not: README.
#pragma once

#include "compiler/strategy/strategy.h"
#include "compiler/words/stage.h"
#include "core/costs/cost_model.h"
#include "core/graphs/logical_graph.h"
#include "sbp/boxing_plans.h"
#include "sbp/inference.h"
#include "sbp/mesh_state.h"
#include "search/min_sum/problem.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sextant {

// Of a strategy whose graph is not the one that words are asked for, a setting that makes it
// another, and what is wanted: cp, sp, recompute, pieces, ZeRO 2 and 3.
struct SettingOutsideWords {
  std::string setting, wanted;  // "cp=2", "cp=1"
};
std::optional<SettingOutsideWords> setting_outside_words(const Strategy& strategy);
// Throws Error(kUsage) naming both.
void require_words_settings(const Strategy& strategy);

// Words that the compiler gives every operator under a strategy of these settings. `by_bytes` may
// be shared by many questions.
WordAssignment words_of_strategy(const LogicalGraph& training, const Strategy& strategy,
                                 BoxingPlans& by_bytes);

// One way to run an operator: a label.
struct WordChoice {
  OpWords words;
  std::vector<MeshState> inputs, outputs;
};

// The variable of an operator, and its labels.
struct OpVariable {
  std::int32_t variable = 0;
  std::vector<WordChoice> choices;
  // Of a parameter, by label: the words that a pin of it says, in which it is read.
  std::vector<NdSbp> read;
  std::vector<std::size_t> followed_by;  // tables of the problem that say who must follow
};

// The variable of a tensor that several operators read: a version that all of them start from.
struct TensorVariable {
  std::int32_t variable = 0;
  TensorId tensor;
  int stage = 0;  // where it is read
  std::vector<MeshState> choices;
  std::vector<std::size_t> tables;  // of the problem: from the producer, and to each reader
};

// A value: graph and models may go.
class WordsProblem {
 public:
  const MinSumProblem& problem() const { return problem_; }
  const std::vector<OpVariable>& operators() const { return operators_; }  // by OpId
  const std::vector<TensorVariable>& tensors() const { return tensors_; }
  const Strategy& strategy() const { return strategy_; }

  const OpWords& words_of(OpId op, const Labels& labels) const;
  // The labels of words for all operators, tensors at their cheapest. Nothing: some operator has no
  // such label, or some parameter is read in words that no pin of it implies.
  std::optional<Labels> labels_of(const WordAssignment& words) const;
  // The problem in LP format, with what its variables and labels are as comments.
  std::string lp_text() const;

 private:
  friend class WordsProblemBuilder;
  bool is_followed(const OpVariable& parameter, Labels& labels, std::int32_t label) const;
  std::int64_t cost_at(const std::vector<std::size_t>& tables, const Labels& labels) const;

  Strategy strategy_;
  std::size_t num_axes_ = 0;  // of the mesh
  MinSumProblem problem_;
  std::vector<std::string> names_;  // of variables
  std::vector<OpVariable> operators_;
  std::vector<TensorVariable> tensors_;
};

// What the strategy says is kept to, its pins among it; parameters that no pin names may take any
// words. Throws what require_words_settings and the compiler's strategy_words throw,
// Error(kInfeasible) naming the operator for which nothing fits what is given, and for key/value
// heads that devices share.
WordsProblem make_words_problem(const LogicalGraph& training, const Strategy& strategy,
                                std::int64_t micro_batches, const NetworkModel& network,
                                const CostModel& cost);

}  // namespace sextant
