// Backward words follow from forward words. The law: let an operator run under a claimed row, and
// let the gradient of every output arrive in the dual of the output's word (B <-> P(sum), S <-> S:
// a copy has the sum of the copies' gradients, a share of a sum has the gradient of the sum). Then
// all operators of its gradient rule have rows for what they read, and the gradient of every input
// comes out in the dual of the input's word, with no communication anywhere: only free steps
// (signature_search.h). P(max) and P(min) have no dual.
#include "core/operator.h"
#include "tests/conformance/gradient_rule.h"
#include "tests/conformance/signature_search.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace sextant {
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

// Per tensor the words it can have without communication.
class Reach {
 public:
  Reach(const GradientRule& rule, std::int64_t parts)
      : graph_(rule.graph), parts_(parts), words_(rule.graph.tensors().size()) {}

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

  bool gives(TensorId tensor, const Sbp& word) const {
    const std::vector<Sbp>& words = words_[tensor.index()];
    return std::any_of(words.begin(), words.end(),
                       [&](const Sbp& have) { return is_free_step(have, word); });
  }

 private:
  bool reads(const LogicalOp& op, const SbpSignature& row) const {
    for (std::size_t i = 0; i < op.inputs.size(); ++i)
      if (!gives(op.inputs[i], row.inputs[i])) return false;
    return true;
  }

  const LogicalGraph& graph_;
  std::int64_t parts_;
  std::vector<std::vector<Sbp>> words_;
};

// The loss of a graph: its gradient is the constant 1, whole everywhere.
bool is_loss(const LogicalOp& op) { return op.kind == "cross_entropy"; }

// Empty where the law holds, else what is in its way.
std::string complaint(const GradientRule& rule, const SbpSignature& row, std::int64_t parts) {
  Reach reach(rule, parts);
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

TEST_CASE("the dual of every row is among the rows of its gradient, without communication") {
  const OperatorRegistry& registry = builtin_operators();
  for (const std::string& kind : registry.kinds()) {
    const OperatorDef& def = registry.get(kind);
    if (def.gradient == nullptr) continue;
    for (const SignatureCase& on : example_cases(def))
      for (const std::size_t output : differentiable_outputs(on)) {
        const GradientRule rule = apply_gradient_rule(on, {output});
        for (const SbpSignature& row : on.rows)
          for (const std::int64_t parts : {2, 3}) {
            const std::vector<const SbpSignature*> one = {&row};
            if (!has_dual(row) || !fits(one, Hierarchy{parts})) continue;
            const std::string wrong = complaint(rule, row, parts);
            CHECK_MESSAGE(wrong.empty(), on.name, ": ", to_string(row), " over ", parts,
                          " parts, gradient of output ", output, ": ", wrong);
          }
      }
  }
}

}  // namespace
}  // namespace sextant
