// Global tensors go in and out of every operator, so a wrong value is found where it arises.
#include "tests/conformance/operators/pieces.h"

#include "core/graphs/operator.h"
#include "sbp/inference.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace sextant {
namespace {

bool is_run(const LogicalGraph& graph, const LogicalOp& op) {
  const OperatorDef& def = graph.registry().get(op.kind);
  return !def.on_host && def.state_outputs.empty();
}

std::vector<OpWords> products_of(const LogicalGraph& graph, const LogicalOp& op,
                                 const Hierarchy& hierarchy) {
  return nd_signatures(graph.registry().get(op.kind), types_of(graph, op.inputs),
                       types_of(graph, op.outputs), op.attributes, hierarchy);
}

void run_by_words(const LogicalGraph& graph, const LogicalOp& op, const OpWords& words,
                  const Hierarchy& hierarchy, TensorValues& values, Random& random) {
  std::vector<Piece> inputs, outputs;
  for (const TensorId input : op.inputs)
    inputs.push_back(whole(graph.tensor(input).type, values.at(input)));
  for (const TensorId output : op.outputs) outputs.push_back(blank(graph.tensor(output).type));
  std::vector<Piece> results = run_sharded(op.kind, op.attributes, inputs, outputs,
                                           {words.inputs, words.outputs}, hierarchy, random);
  for (std::size_t i = 0; i < results.size(); ++i)
    values[op.outputs[i]] = std::move(results[i].values);
}

std::size_t most_products(const LogicalGraph& graph, const Hierarchy& hierarchy) {
  std::size_t most = 0;
  for (const LogicalOp& op : graph.ops())
    if (is_run(graph, op)) most = std::max(most, products_of(graph, op, hierarchy).size());
  return most;
}

void check_equal(const LogicalGraph& graph, const TensorValues& found, const TensorValues& wanted) {
  for (const auto& [tensor, values] : wanted) {
    CAPTURE(graph.tensor(tensor).name);
    const TensorType& type = graph.tensor(tensor).type;
    CHECK(agree(whole(type, found.at(tensor)), whole(type, values)));
  }
}

}  // namespace

TensorId add_op(LogicalGraph& graph, std::string kind, std::vector<TensorId> inputs,
                Attributes attributes) {
  std::string name = kind + std::to_string(graph.ops().size());
  return graph.output(graph.add({.kind = std::move(kind),
                                 .name = std::move(name),
                                 .attributes = std::move(attributes),
                                 .inputs = std::move(inputs),
                                 .outputs = {},
                                 .phase = Phase::kForward,
                                 .layer = 0,
                                 .parameter = std::nullopt}));
}

void evaluate_sharded(const LogicalGraph& graph, TensorValues& values, const Hierarchy& hierarchy,
                      const ChooseRow& choose, Random& random) {
  for (const LogicalOp& op : graph.ops()) {
    if (!is_run(graph, op)) continue;
    const std::vector<OpWords> products = products_of(graph, op, hierarchy);
    run_by_words(graph, op, products[choose() % products.size()], hierarchy, values, random);
  }
}

TensorValues check_all_splits(const LogicalGraph& graph, const TensorValues& given, int mixtures) {
  TensorValues wanted = given;
  evaluate(graph, wanted);
  Random random("splits");
  for (const Hierarchy& hierarchy : {Hierarchy{2}, Hierarchy{3}, Hierarchy{4}, Hierarchy{2, 2}}) {
    CAPTURE(to_string(Shape(hierarchy)));
    const auto run = [&](const ChooseRow& choose) {
      TensorValues found = given;
      evaluate_sharded(graph, found, hierarchy, choose, random);
      check_equal(graph, found, wanted);
    };
    const std::size_t most = most_products(graph, hierarchy);
    for (std::size_t product = 0; product < most; ++product) run([product] { return product; });
    for (int mixture = 0; mixture < mixtures; ++mixture)
      run([&] { return static_cast<std::size_t>(random.integer(0, 1 << 20)); });
  }
  return wanted;
}

void check_six_digits(const std::vector<double>& found, const std::vector<double>& wanted) {
  REQUIRE(found.size() == wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) CHECK(std::abs(found[i] - wanted[i]) < 5e-7);
}

}  // namespace sextant
