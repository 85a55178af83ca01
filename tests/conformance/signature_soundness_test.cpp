// Every row of words that an operator claims, by machine: split the inputs by the words, run the
// kernel on each shard, put the outputs together by the words, compare with the global run. Kinds
// and inputs come from the registry, so a new operator is covered by existing.
#include "core/operator.h"
#include "tests/conformance/operator_runner.h"
#include "tests/conformance/sharding.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace sextant {
namespace {

// One operator on one set of inputs, run globally.
struct GlobalRun {
  const OperatorDef* def;
  OperatorExample example;
  std::vector<Piece> inputs;
  std::vector<Piece> before, outputs;  // outputs before (state) and after
};

std::pair<std::int64_t, std::int64_t> range_of(const OperatorExample& example, std::size_t input) {
  return example.ranges.empty() ? std::pair<std::int64_t, std::int64_t>{-3, 3}
                                : example.ranges[input];
}

Piece random_piece(const TensorType& type, std::pair<std::int64_t, std::int64_t> range,
                   Random& random) {
  std::vector<double> values(static_cast<std::size_t>(type.shape.elements()));
  for (double& value : values)
    value = static_cast<double>(random.integer(range.first, range.second));
  return whole(type, std::move(values));
}

GlobalRun run_globally(const OperatorDef& def, const OperatorExample& example, Random& random) {
  GlobalRun run{.def = &def, .example = example, .inputs = {}, .before = {}, .outputs = {}};
  for (std::size_t i = 0; i < example.inputs.size(); ++i)
    run.inputs.push_back(random_piece(example.inputs[i], range_of(example, i), random));
  const bool has_state = !def.state_outputs.empty();
  for (const TensorType& type : def.infer(example.inputs, example.attributes))
    run.before.push_back(has_state ? random_piece(type, {0, 3}, random) : blank(type));
  run.outputs = run.before;
  run_operator(def.kind, example.attributes, run.inputs, run.outputs);
  return run;
}

// N-D words of a product of rows, one per axis.
OperandWords product_of(const GlobalRun& run, const std::vector<const SbpSignature*>& rows) {
  OperandWords words{.inputs = std::vector<NdSbp>(run.inputs.size()),
                     .outputs = std::vector<NdSbp>(run.outputs.size())};
  for (const SbpSignature* row : rows) {
    for (std::size_t i = 0; i < run.inputs.size(); ++i) words.inputs[i].push_back(row->inputs[i]);
    for (std::size_t i = 0; i < run.outputs.size(); ++i)
      words.outputs[i].push_back(row->outputs[i]);
  }
  return words;
}

// True when the sharded run with these rows equals the global run.
bool holds(const GlobalRun& run, const std::vector<const SbpSignature*>& rows,
           const Hierarchy& hierarchy, Random& random) {
  const std::vector<Piece> outputs =
      run_sharded(run.def->kind, run.example.attributes, run.inputs, run.before,
                  product_of(run, rows), hierarchy, random);
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (!agree(outputs[i], run.outputs[i])) return false;
  return true;
}

// "matmul (S(0), B) (B, S(1)) -> (S(0), S(1))".
std::string text_of(const GlobalRun& run, const std::vector<const SbpSignature*>& rows) {
  const OperandWords words = product_of(run, rows);
  std::string text = run.def->kind;
  for (const NdSbp& word : words.inputs) text += " " + to_string(word);
  text += " ->";
  for (const NdSbp& word : words.outputs) text += " " + to_string(word);
  return text;
}

// Calls `visit(run, rows, random)` for every example of every kind.
template <typename Visit>
void for_each_example(const std::string& stream, const Visit& visit) {
  const OperatorRegistry& registry = builtin_operators();
  for (const std::string& kind : registry.kinds()) {
    const OperatorDef& def = registry.get(kind);
    if (def.examples == nullptr) continue;
    Random random(stream + kind);
    for (const OperatorExample& example : def.examples()) {
      const GlobalRun run = run_globally(def, example, random);
      visit(run,
            def.signatures(example.inputs, def.infer(example.inputs, example.attributes),
                           example.attributes),
            random);
    }
  }
}

// Runs a product of rows, one per axis, unless it does not fit the mesh.
void check(const GlobalRun& run, const std::vector<const SbpSignature*>& rows,
           const Hierarchy& hierarchy, Random& random) {
  if (!fits(rows, hierarchy)) return;
  CAPTURE(text_of(run, rows));
  CAPTURE(hierarchy[0]);
  CHECK(holds(run, rows, hierarchy, random));
}

using Rows = std::vector<SbpSignature>;

TEST_CASE("every claimed row gives the global result over 2, 3 and 4 parts") {
  for_each_example("one axis", [](const GlobalRun& run, const Rows& rows, Random& random) {
    for (const SbpSignature& row : rows)
      for (const std::int64_t parts : {2, 3, 4}) check(run, {&row}, {parts}, random);
  });
}

TEST_CASE("products of claimed rows give the global result on two axes") {
  for_each_example("two axes", [](const GlobalRun& run, const Rows& rows, Random& random) {
    for (const SbpSignature& major : rows)
      for (const SbpSignature& minor : rows)
        for (const std::int64_t parts : {2, 3}) check(run, {&major, &minor}, {parts, 2}, random);
  });
}

// The suite must be able to fail: rows that look right and are not.
TEST_CASE("unsound rows are caught") {
  const auto is_caught = [](const std::string& kind, std::size_t example, const SbpSignature& row,
                            std::int64_t parts) {
    Random random("unsound" + kind);
    const OperatorDef& def = builtin_operators().get(kind);
    const GlobalRun run = run_globally(def, def.examples()[example], random);
    return !holds(run, {&row}, {parts}, random);
  };
  const Sbp b = Sbp::broadcast(), p = Sbp::partial(), p_max = Sbp::partial(ReduceOp::kMax);
  const auto s = [](std::size_t dim) { return Sbp::split(dim); };
  CHECK(is_caught("matmul", 0, {{p, p}, {p}}, 2));                           // bilinear (G13)
  CHECK(is_caught("bias_add", 0, {{p, b}, {p}}, 2));                         // bias twice (G14)
  CHECK(is_caught("gelu", 0, {{p}, {p}}, 2));                                // not linear (G12)
  CHECK(is_caught("mul", 0, {{p_max, b}, {p_max}}, 2));                      // sign unknown
  CHECK(is_caught("layer_norm", 0, {{s(2), s(0), s(0)}, {s(2), b, b}}, 2));  // G20
  CHECK(is_caught("embedding", 0, {{b, s(0)}, {b}}, 2));                     // rows of other shards
  // Query heads without their group.
  CHECK(is_caught("attention", 1, {{s(2), b, b}, {s(2), s(2)}}, 2));
  CHECK(is_caught("reshape", 0, {{s(1)}, {s(1)}}, 3));  // 12 -> 4x3 over 3 parts
  CHECK(is_caught("reshape", 1, {{s(2)}, {s(1)}}, 3));  // a later dim of a group (G07)
  CHECK(is_caught("pick", 0, {{s(2), b}, {b}}, 2));
  CHECK(is_caught("cross_entropy", 0, {{s(0), s(0), s(0), s(0), s(0)}, {b, b}}, 2));
}

}  // namespace
}  // namespace sextant
