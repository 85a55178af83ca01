// Global tensors go in and out of every operator, so a wrong value is found where it arises.
#include "tests/conformance/pieces.h"

#include "core/operator.h"

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
  return !op.inputs.empty() && !def.on_host && def.state_outputs.empty();
}

std::vector<SbpSignature> fitting_rows(const LogicalGraph& graph, const LogicalOp& op,
                                       std::int64_t parts) {
  std::vector<SbpSignature> rows;
  const OperatorDef& def = graph.registry().get(op.kind);
  for (SbpSignature& row :
       def.signatures(types_of(graph, op.inputs), types_of(graph, op.outputs), op.attributes)) {
    const SbpSignature* const product[] = {&row};
    const std::int64_t hierarchy[] = {parts};
    if (fits(product, hierarchy)) rows.push_back(std::move(row));
  }
  return rows;
}

void run_by_row(const LogicalGraph& graph, const LogicalOp& op, const SbpSignature& row,
                std::int64_t parts, TensorValues& values, Random& random) {
  std::vector<Piece> inputs, outputs;
  OperandWords words;
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    inputs.push_back(whole(graph.tensor(op.inputs[i]).type, values.at(op.inputs[i])));
    words.inputs.push_back({row.inputs[i]});
  }
  for (std::size_t i = 0; i < op.outputs.size(); ++i) {
    outputs.push_back(blank(graph.tensor(op.outputs[i]).type));
    words.outputs.push_back({row.outputs[i]});
  }
  std::vector<Piece> results =
      run_sharded(op.kind, op.attributes, inputs, outputs, words, {parts}, random);
  for (std::size_t i = 0; i < results.size(); ++i)
    values[op.outputs[i]] = std::move(results[i].values);
}

std::size_t most_rows(const LogicalGraph& graph, std::int64_t parts) {
  std::size_t most = 0;
  for (const LogicalOp& op : graph.ops())
    if (is_run(graph, op)) most = std::max(most, fitting_rows(graph, op, parts).size());
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

void evaluate_sharded(const LogicalGraph& graph, TensorValues& values, std::int64_t parts,
                      const ChooseRow& choose, Random& random) {
  for (const LogicalOp& op : graph.ops()) {
    if (!is_run(graph, op)) continue;
    const std::vector<SbpSignature> rows = fitting_rows(graph, op, parts);
    run_by_row(graph, op, rows[choose() % rows.size()], parts, values, random);
  }
}

TensorValues check_all_splits(const LogicalGraph& graph, const TensorValues& given, int mixtures) {
  TensorValues wanted = given;
  evaluate(graph, wanted);
  Random random("splits");
  for (const std::int64_t parts : {2, 3, 4}) {
    CAPTURE(parts);
    const auto run = [&](const ChooseRow& choose) {
      TensorValues found = given;
      evaluate_sharded(graph, found, parts, choose, random);
      check_equal(graph, found, wanted);
    };
    for (std::size_t row = 0; row < most_rows(graph, parts); ++row) run([row] { return row; });
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
