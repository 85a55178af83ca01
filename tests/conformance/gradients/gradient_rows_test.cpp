// Backward words follow from forward words. The law: let an operator run under a claimed row, and
// let the gradient of every output arrive in the dual of the output's word (B <-> P(sum), S <-> S:
// a copy has the sum of the copies' gradients, a share of a sum has the gradient of the sum). Then
// all operators of its gradient rule have rows for what they read, and the gradient of every input
// comes out in the dual of the input's word, with no communication anywhere: only free steps
// (signature_search.h). P(max) and P(min) have no dual.
//
// One kind of rows owes more: where a row of elements is split and its statistics are made of the
// parts in the forward pass, by a reduction before the operator, the gradient through the
// statistics is made of the parts too. There partial sums may be reduced, but nothing is gathered.
#include "core/graphs/operator.h"
#include "core/tensors/placement.h"
#include "sbp/inference.h"
#include "tests/conformance/gradients/gradient_rule.h"
#include "tests/conformance/signatures/signature_search.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace sextant::gradient_rows_test {
namespace {

Sbp dual(const Sbp& word) {
  if (word.is_broadcast()) return Sbp::partial();
  return word.is_partial() ? Sbp::broadcast() : word;
}

bool has_dual(const SbpSignature& row) {
  const auto is_extreme = [](const Sbp& word) {
    return word.is_partial() && word.reduce != ReduceOp::kSum;
  };
  return std::none_of(row.inputs.begin(), row.inputs.end(), is_extreme) &&
         std::none_of(row.outputs.begin(), row.outputs.end(), is_extreme);
}

// Whose statistics, inputs after the first, belong to the row of elements that is split.
bool is_made_of_parts(const SignatureCase& on, const SbpSignature& row) {
  return on.def->kind == "softmax" && row.inputs[0].is_split() && row.inputs[1].is_broadcast();
}

bool is_allowed_step(const Sbp& from, const Sbp& to, bool may_reduce) {
  return is_free_step(from, to) || (may_reduce && from.is_partial() && to.is_broadcast());
}

// Per tensor the words it can have without communication, or with reductions alone.
class Reach {
 public:
  Reach(const GradientRule& rule, std::int64_t parts, bool may_reduce)
      : graph_(rule.graph),
        parts_(parts),
        may_reduce_(may_reduce),
        words_(rule.graph.tensors().size()) {}

  void start(TensorId tensor, const Sbp& word) { words_[tensor.index()] = {word}; }

  // False when no row of the operator fits what it reads.
  bool run(const LogicalOp& op) {
    std::vector<TensorType> in, out;
    for (const TensorId input : op.inputs) in.push_back(graph_.tensor(input).type);
    for (const TensorId output : op.outputs) out.push_back(graph_.tensor(output).type);
    bool has_row = false;
    for (const SbpSignature& row :
         graph_.registry().get(op.kind).signatures(in, out, op.attributes)) {
      const std::vector<const SbpSignature*> one = {&row};
      if (!fits(one, Hierarchy{parts_}) || !reads(op, row)) continue;
      has_row = true;
      for (std::size_t i = 0; i < op.outputs.size(); ++i)
        words_[op.outputs[i].index()].push_back(row.outputs[i]);
    }
    return has_row;
  }

  // A tensor without elements has all words at once.
  bool gives(TensorId tensor, const Sbp& word) const {
    if (graph_.tensor(tensor).type.shape.elements() == 0) return true;
    const std::vector<Sbp>& words = words_[tensor.index()];
    return std::any_of(words.begin(), words.end(),
                       [&](const Sbp& have) { return is_allowed_step(have, word, may_reduce_); });
  }

 private:
  bool reads(const LogicalOp& op, const SbpSignature& row) const {
    for (std::size_t i = 0; i < op.inputs.size(); ++i)
      if (!gives(op.inputs[i], row.inputs[i])) return false;
    return true;
  }

  const LogicalGraph& graph_;
  std::int64_t parts_;
  bool may_reduce_;
  std::vector<std::vector<Sbp>> words_;
};

// The loss of a graph: its gradient is the constant 1, whole everywhere.
bool is_loss(const LogicalOp& op) { return op.kind == "cross_entropy"; }

// Empty where the law holds, else what is in its way.
std::string complaint(const GradientRule& rule, const SbpSignature& row, std::int64_t parts,
                      bool may_reduce) {
  Reach reach(rule, parts, may_reduce);
  for (std::size_t i = 0; i < rule.inputs.size(); ++i) reach.start(rule.inputs[i], row.inputs[i]);
  for (std::size_t i = 0; i < rule.outputs.size(); ++i) {
    reach.start(rule.outputs[i], row.outputs[i]);
    if (rule.arriving[i])
      reach.start(*rule.arriving[i],
                  is_loss(rule.graph.op(rule.op)) ? Sbp::broadcast() : dual(row.outputs[i]));
  }
  for (std::size_t i = rule.op.index() + 1; i < rule.graph.ops().size(); ++i) {
    const LogicalOp& op = rule.graph.ops()[i];
    if (!reach.run(op)) return op.kind + " has no row for what it reads";
  }
  for (std::size_t i = 0; i < rule.inputs.size(); ++i)
    if (rule.made[i] && !reach.gives(*rule.made[i], dual(row.inputs[i])))
      return "the gradient of input " + std::to_string(i) + " does not come out as " +
             to_string(dual(row.inputs[i]));
  return {};
}

// Calls `visit(case, output, rule, row, parts)` for every row that has a dual, and every output
// that takes a gradient.
template <typename Visit>
void for_each_dual_row(const Visit& visit) {
  const OperatorRegistry& registry = builtin_operators();
  for (const std::string& kind : registry.kinds())
    for (const SignatureCase& on : example_cases(registry.get(kind)))
      for (const std::size_t output : differentiable_outputs(on)) {
        const GradientRule rule = apply_gradient_rule(on, {output});
        for (const SbpSignature& row : on.rows)
          for (const std::int64_t parts : {2, 3}) {
            const std::vector<const SbpSignature*> one = {&row};
            if (has_dual(row) && fits(one, Hierarchy{parts})) visit(on, output, rule, row, parts);
          }
      }
}

// The one exception: the gradient of a cast to a wider type rounds, and a sum is rounded once,
// after it is complete (G15). The gradients of a copy are reduced before.
bool rounds_a_sum(const SignatureCase& on, const SbpSignature& row) {
  return on.def->kind == "cast" && row.outputs[0].is_broadcast() &&
         size_of(on.on.inputs[0].dtype) < size_of(on.outputs[0].dtype);
}

TEST_CASE("the dual of every row is among the rows of its gradient, without communication") {
  for_each_dual_row([](const SignatureCase& on, std::size_t output, const GradientRule& rule,
                       const SbpSignature& row, std::int64_t parts) {
    if (rounds_a_sum(on, row)) return;
    const std::string wrong = complaint(rule, row, parts, is_made_of_parts(on, row));
    CHECK_MESSAGE(wrong.empty(), on.name, ": ", to_string(row), " over ", parts,
                  " parts, gradient of output ", output, ": ", wrong);
  });
}

// Words that sources may be given: no partial ones.
bool is_whole(const Sbp& word) { return !word.is_partial(); }

// Rows that sources alone can bring about: the inputs and the gradients of all outputs are whole.
bool is_from_sources(const SbpSignature& row) {
  return std::all_of(row.inputs.begin(), row.inputs.end(), is_whole) &&
         std::none_of(row.outputs.begin(), row.outputs.end(),
                      [](const Sbp& word) { return word.is_broadcast(); });
}

// Empty when inference reads every tensor in words that are there already or a free step away.
std::string gather_of(const GradientRule& rule, const SbpSignature& row, std::int64_t parts,
                      bool may_reduce) {
  WordConstraints constraints;
  for (std::size_t i = 0; i < rule.inputs.size(); ++i) {
    constraints.tensors[rule.inputs[i]] = {row.inputs[i]};
    constraints.inputs[{rule.op, i}] = {row.inputs[i]};
  }
  for (std::size_t i = 0; i < rule.outputs.size(); ++i) {
    constraints.tensors[rule.outputs[i]] = {row.outputs[i]};
    if (rule.arriving[i]) constraints.tensors[*rule.arriving[i]] = {dual(row.outputs[i])};
  }
  const WordAssignment words =
      infer_words(rule.graph, {consecutive_placement({{"x", parts}})}, {0}, constraints);
  std::vector<std::vector<Sbp>> versions(rule.graph.tensors().size());
  for (std::size_t i = 0; i < rule.graph.ops().size(); ++i) {
    const LogicalOp& op = rule.graph.ops()[i];
    for (std::size_t input = 0; input < op.inputs.size(); ++input) {
      const Sbp wanted = words.of(OpId(i)).inputs[input][0];
      std::vector<Sbp>& there = versions[op.inputs[input].index()];
      if (std::none_of(there.begin(), there.end(),
                       [&](const Sbp& word) { return is_allowed_step(word, wanted, may_reduce); }))
        return op.kind + " reads input " + std::to_string(input) + " as " + to_string(wanted) +
               ", made as " + to_string(there[0]);
      there.push_back(wanted);
    }
    for (std::size_t output = 0; output < op.outputs.size(); ++output)
      versions[op.outputs[output].index()].push_back(words.of(OpId(i)).outputs[output][0]);
  }
  return {};
}

TEST_CASE("inference finds backward words without communication for every row of whole inputs") {
  int rows = 0;
  for_each_dual_row([&rows](const SignatureCase& on, std::size_t output, const GradientRule& rule,
                            const SbpSignature& row, std::int64_t parts) {
    const bool is_empty = std::any_of(
        on.on.inputs.begin(), on.on.inputs.end(),
        [](const TensorType& type) { return type.shape.elements() == 0; });  // all costs are 0
    if (is_empty || !is_from_sources(row)) return;
    ++rows;
    const std::string wrong = gather_of(rule, row, parts, is_made_of_parts(on, row));
    CHECK_MESSAGE(wrong.empty(), on.name, ": ", to_string(row), " over ", parts,
                  " parts, gradient of output ", output, ": ", wrong);
  });
  CHECK(rows > 100);
}

}  // namespace
}  // namespace sextant::gradient_rows_test
