// The law of the whole algebra: a graph run on shards, every operator under the words that
// inference gave it and every tensor boxed into the words its reader wants, equals the graph run
// globally. Boxing is taken at its word here (collect, then distribute); tests/sbp proves the
// plans.
#include "tests/conformance/signatures/signature_graphs.h"

#include "core/operators/movement/sources.h"
#include "core/tensors/placement.h"
#include "sbp/inference.h"
#include "tests/conformance/operators/sharding.h"
#include "tests/conformance/signatures/signature_boxing.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sextant::signature_graphs_test {
namespace {

Placement random_placement(Random& random) {
  const std::vector<std::vector<MeshAxis>> meshes = {{{"x", 2}},
                                                     {{"x", 3}},
                                                     {{"x", 2}, {"y", 2}},
                                                     {{"x", 3}, {"y", 2}},
                                                     {{"x", 2}, {"y", 2}, {"z", 2}}};
  return consecutive_placement(meshes[random.index(meshes.size())]);
}

// Random splits for the inputs of the graph; half of the operators read in words of a random
// product.
WordConstraints random_constraints(const LogicalGraph& graph, const Hierarchy& hierarchy,
                                   Random& random) {
  WordConstraints constraints;
  for (std::size_t i = 0; i < graph.ops().size(); ++i) {
    const LogicalOp& op = graph.ops()[i];
    if (op.inputs.empty()) {
      const std::size_t rank = graph.tensor(op.outputs[0]).type.shape.rank();
      NdSbp words;
      for (std::size_t axis = 0; axis < hierarchy.size(); ++axis) {
        const std::size_t dim = random.index(rank + 1);
        words.push_back(dim == rank ? Sbp::broadcast() : Sbp::split(dim));
      }
      constraints.tensors[op.outputs[0]] = words;
    } else if (random.integer(0, 1) == 0) {
      const std::vector<OpWords> products =
          nd_signatures(graph.registry().get(op.kind), types_of(graph, op.inputs),
                        types_of(graph, op.outputs), op.attributes, hierarchy);
      const OpWords& words = products[random.index(products.size())];
      for (std::size_t input = 0; input < op.inputs.size(); ++input)
        constraints.inputs[{OpId(i), input}] = words.inputs[input];
    }
  }
  return constraints;
}

// Results of a few operators in a row that answer a change of 10^-12 by at most 10^-7 each, here
// started by roundings of 10^-16.
bool are_close(const Piece& found, const Piece& wanted) {
  const double largest = largest_of(wanted.values);
  for (std::size_t i = 0; i < wanted.values.size(); ++i)
    if (!(std::abs(found.values[i] - wanted.values[i]) <= 1e-6 * largest)) return false;
  return true;
}

class ShardedRun {
 public:
  // With `by_plan` tensors are boxed by the planner's steps.
  ShardedRun(const RandomGraph& random_graph, const Placement& placement,
             const WordAssignment& words, bool by_plan, Random& random)
      : graph_(random_graph),
        placement_(placement),
        hierarchy_(placement.hierarchy()),
        words_(words),
        by_plan_(by_plan),
        random_(random) {}

  // Empty, or the operator that went wrong first.
  std::string complaint() {
    for (std::size_t i = 0; i < graph_.graph.ops().size(); ++i) {
      const LogicalOp& op = graph_.graph.ops()[i];
      run(op, words_.of(OpId(i)));
      for (std::size_t out = 0; out < op.outputs.size(); ++out) {
        const Held& held = held_.at(op.outputs[out]);
        if (!are_close(collect(held.pieces, held.words, hierarchy_),
                       graph_.values.at(op.outputs[out])))
          return op.name + " " + op.kind + " " + text_of(words_.of(OpId(i)));
      }
    }
    return {};
  }

 private:
  struct Held {
    NdSbp words;
    std::vector<Piece> pieces;
  };

  static std::string text_of(const OpWords& words) {
    std::string text;
    for (const NdSbp& word : words.inputs) text += to_string(word) + " ";
    text += "->";
    for (const NdSbp& word : words.outputs) text += " " + to_string(word);
    return text;
  }

  void run(const LogicalOp& op, const OpWords& words) {
    std::vector<std::vector<Piece>> in, out;  // by operand, then device
    for (std::size_t i = 0; i < op.inputs.size(); ++i)
      in.push_back(boxed(held_.at(op.inputs[i]), words.inputs[i]));
    for (std::size_t i = 0; i < op.outputs.size(); ++i)
      out.push_back(op.inputs.empty() ? distribute(graph_.values.at(op.outputs[i]),
                                                   words.outputs[i], hierarchy_, random_)
                                      : distribute(blank(graph_.graph.tensor(op.outputs[i]).type),
                                                   words.outputs[i], hierarchy_, random_));
    const auto ring =
        ring_axis(graph_.graph.registry().get(op.kind), types_of(graph_.graph, op.inputs),
                  types_of(graph_.graph, op.outputs), op.attributes, words, hierarchy_);
    if (ring)
      pass_on(in[0], out[0], *ring);
    else if (!op.inputs.empty())
      for (std::size_t device = 0; device < out[0].size(); ++device)
        run_device(op, in, out, device);
    for (std::size_t i = 0; i < op.outputs.size(); ++i)
      held_[op.outputs[i]] = {words.outputs[i], std::move(out[i])};
  }

  // Pieces are listed by coordinates, the last axis fastest.
  void pass_on(const std::vector<Piece>& in, std::vector<Piece>& out, std::size_t axis) const {
    std::size_t stride = 1;
    for (std::size_t inner = axis + 1; inner < hierarchy_.size(); ++inner)
      stride *= static_cast<std::size_t>(hierarchy_[inner]);
    const auto parts = static_cast<std::size_t>(hierarchy_[axis]);
    for (std::size_t device = 0; device < in.size(); ++device) {
      const std::size_t at = device / stride % parts;
      const std::size_t next = device - at * stride + (at + 1) % parts * stride;
      out[next].values = in[device].values;
    }
  }

  static void run_device(const LogicalOp& op, const std::vector<std::vector<Piece>>& in,
                         std::vector<std::vector<Piece>>& out, std::size_t device) {
    std::vector<Piece> local_in, local_out;
    for (const std::vector<Piece>& pieces : in) local_in.push_back(pieces[device]);
    for (const std::vector<Piece>& pieces : out) local_out.push_back(pieces[device]);
    run_operator(op.kind, op.attributes, local_in, local_out);
    for (std::size_t i = 0; i < out.size(); ++i) out[i][device] = std::move(local_out[i]);
  }

  std::vector<Piece> boxed(const Held& held, const NdSbp& words) {
    if (held.words == words) return held.pieces;
    if (by_plan_) return box_by_plan(held.pieces, held.words, words, placement_);
    return distribute(collect(held.pieces, held.words, hierarchy_), words, hierarchy_, random_,
                      Shares::kFractions);
  }

  const RandomGraph& graph_;
  const Placement& placement_;
  Hierarchy hierarchy_;
  const WordAssignment& words_;
  bool by_plan_;
  Random& random_;
  std::map<TensorId, Held> held_;
};

struct Seen {
  std::set<std::string> kinds, reductions;
  std::size_t ops = 0, boxings = 0;

  void add(const LogicalGraph& graph, const WordAssignment& words) {
    std::map<TensorId, NdSbp> made;
    for (std::size_t i = 0; i < graph.ops().size(); ++i) {
      const LogicalOp& op = graph.ops()[i];
      const OpWords& of_op = words.of(OpId(i));
      ops += op.inputs.empty() ? 0 : 1;
      kinds.insert(op.kind);
      for (std::size_t input = 0; input < op.inputs.size(); ++input) {
        boxings += made.at(op.inputs[input]) == of_op.inputs[input] ? 0 : 1;
        for (const Sbp& word : of_op.inputs[input])
          if (word.is_partial()) reductions.insert(to_string(word));
      }
      for (std::size_t output = 0; output < op.outputs.size(); ++output)
        made[op.outputs[output]] = of_op.outputs[output];
    }
  }
};

TEST_CASE("random graphs under random words equal their global runs") {
  constexpr int kGraphs = 400;
  Seen seen;
  for (int number = 0; number < kGraphs; ++number) {
    const std::string stream = "graph " + std::to_string(number);
    Random random("words of " + stream);
    const RandomGraph graph = random_graph(stream, static_cast<std::size_t>(random.integer(2, 8)));
    const Placement placement = random_placement(random);
    const Hierarchy hierarchy = placement.hierarchy();
    const WordAssignment words = infer_words(graph.graph, {placement}, {0},
                                             random_constraints(graph.graph, hierarchy, random));
    seen.add(graph.graph, words);
    const std::string wrong =
        ShardedRun(graph, placement, words, number % 2 == 0, random).complaint();
    CHECK_MESSAGE(wrong.empty(), stream, ", mesh ", to_string(Shape(hierarchy)), ": ", wrong,
                  " in ", to_string(graph));
  }
  // The graphs are what they are meant to be.
  CHECK(seen.ops > 3 * kGraphs);
  CHECK(seen.boxings > seen.ops);
  CHECK(seen.kinds.size() > 30);
  CHECK(seen.reductions == std::set<std::string>{"P(max)", "P(min)", "P(sum)"});
}

std::vector<SbpSignature> linear_rows(std::span<const TensorType>, std::span<const TensorType>,
                                      const Attributes&) {
  return {{{Sbp::broadcast()}, {Sbp::broadcast()}}, {{Sbp::partial()}, {Sbp::partial()}}};
}

// The suite must be able to fail: a gelu that says it is linear.
TEST_CASE("an operator with an unsound row is named") {
  OperatorRegistry registry;
  registry.add(builtin_operators().get("input"));
  registry.add(builtin_operators().get("matmul"));
  OperatorDef gelu = builtin_operators().get("gelu");
  gelu.signatures = linear_rows;
  registry.add(gelu);
  RandomGraph graph{.graph = LogicalGraph(registry), .values = {}};
  const TensorId x = add_input(graph.graph, "x", 0, {{3, 4}, DType::kF64});
  const TensorId w = add_input(graph.graph, "w", 0, {{4, 2}, DType::kF64});
  const auto append = [&](std::string kind, std::vector<TensorId> inputs, Attributes attributes) {
    return graph.graph.output(graph.graph.add({.kind = kind,
                                               .name = kind,
                                               .attributes = std::move(attributes),
                                               .inputs = std::move(inputs),
                                               .outputs = {},
                                               .phase = Phase::kForward,
                                               .layer = 0,
                                               .parameter = std::nullopt}));
  };
  const TensorId product = append("matmul", {x, w}, {});
  append("gelu", {product}, {{"approximate", std::string("none")}});
  TensorValues values = {{x, std::vector<double>(12, 0.5)}, {w, std::vector<double>(8, 0.25)}};
  evaluate(graph.graph, values);
  for (const auto& [tensor, held] : values)
    graph.values[tensor] = whole(graph.graph.tensor(tensor).type, held);
  WordConstraints constraints;
  constraints.tensors = {{x, {Sbp::split(1)}}, {w, {Sbp::split(0)}}, {product, {Sbp::partial()}}};
  constraints.inputs = {{{*graph.graph.find_op("gelu"), 0}, {Sbp::partial()}}};
  const Placement two = consecutive_placement({{"x", 2}});
  Random random("planted");
  const WordAssignment words = infer_words(graph.graph, {two}, {0}, constraints);
  CHECK(ShardedRun(graph, two, words, true, random).complaint() == "gelu gelu P(sum) -> P(sum)");
}

}  // namespace
}  // namespace sextant::signature_graphs_test
