// Every row of words that an operator claims, by machine: split the inputs by the words, run the
// kernel on each shard, put the outputs together by the words, compare with the global run. Kinds
// and inputs come from the registry, so a new operator is covered by existing.
#include "core/base/error.h"
#include "core/graphs/operator.h"
#include "sbp/inference.h"
#include "tests/conformance/operators/sharding.h"
#include "tests/conformance/signatures/signature_cases.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace sextant::signature_soundness_test {
namespace {

// Extremes are integers: where no input is one, they would repeat the whole numbers.
std::vector<Shares> kinds_of_values(const SignatureCase& on) {
  std::vector<Shares> kinds = {Shares::kFractions, Shares::kIntegers};
  for (const TensorType& input : on.on.inputs)
    if (is_integer(input.dtype)) return {Shares::kFractions, Shares::kIntegers, Shares::kExtremes};
  return kinds;
}

// True when the sharded run under these words equals the global run.
bool holds(const SignatureCase& on, const GlobalRun& run, const OpWords& words,
           const Hierarchy& hierarchy, Shares shares, Random& random) {
  const std::vector<Piece> outputs =
      run_sharded(on.def->kind, on.on.attributes, run.inputs, run.before,
                  {.inputs = words.inputs, .outputs = words.outputs}, hierarchy, random, shares);
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (!agree(outputs[i], run.outputs[i])) return false;
  return true;
}

// "(S(0), B) (B, S(1)) -> (S(0), S(1))".
std::string text_of(const OpWords& words) {
  std::string text;
  for (const NdSbp& word : words.inputs) text += to_string(word) + " ";
  text += "->";
  for (const NdSbp& word : words.outputs) text += " " + to_string(word);
  return text;
}

void check(const SignatureCase& on, const GlobalRun& run, const OpWords& words,
           const Hierarchy& hierarchy, Shares shares, Random& random) {
  const bool is_sound = holds(on, run, words, hierarchy, shares, random);
  CHECK_MESSAGE(is_sound, on.name, ": ", text_of(words), " over ", to_string(Shape(hierarchy)),
                " parts");
}

// Calls `visit(case, random)` for every example of every kind.
template <typename Visit>
void for_each_example(const std::string& stream, const Visit& visit) {
  const OperatorRegistry& registry = builtin_operators();
  for (const std::string& kind : registry.kinds()) {
    Random random(stream + kind);
    for (const SignatureCase& on : example_cases(registry.get(kind))) visit(on, random);
  }
}

// Every row that fits that many parts.
void check_one_axis(const SignatureCase& on, std::initializer_list<std::int64_t> all_parts,
                    Shares values, Random& random) {
  const GlobalRun run = run_globally(on, values, random);
  for (const std::int64_t parts : all_parts)
    for (const OpWords& words : nd_products(on.rows, Hierarchy{parts}))
      check(on, run, words, {parts}, values, random);
}

TEST_CASE("every claimed row gives the global result over 2, 3 and 4 parts") {
  for_each_example("one axis", [](const SignatureCase& on, Random& random) {
    for (const Shares values : kinds_of_values(on)) check_one_axis(on, {2, 3, 4}, values, random);
  });
}

// A dim of one element leaves all parts but the first without any.
TEST_CASE("every claimed row gives the global result where shards are empty") {
  int derived = 0;
  for_each_example("empty shards", [&derived](const SignatureCase& on, Random& random) {
    std::set<std::int64_t> extents;
    for (const TensorType& input : on.on.inputs)
      extents.insert(input.shape.extents().begin(), input.shape.extents().end());
    for (const std::int64_t extent : extents) {
      if (extent <= 1 || is_counted(on, extent)) continue;
      const auto shrunk =
          with_extents(on, [extent](std::int64_t other) { return other == extent ? 1 : other; });
      if (!shrunk) continue;
      ++derived;
      check_one_axis(*shrunk, {2, 3}, Shares::kIntegers, random);
    }
  });
  CHECK(derived > 50);
}

// Small integers are exact in every type; results of curved functions agree up to rounding.
TEST_CASE("every claimed row gives the global result in every element type") {
  int derived = 0;
  for_each_example("types", [&derived](const SignatureCase& on, Random& random) {
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kI64, DType::kI32}) {
      const auto other = with_dtype(on, dtype);
      if (!other) continue;
      ++derived;
      check_one_axis(*other, {2, 3}, Shares::kIntegers, random);
      if (is_integer(dtype)) check_one_axis(*other, {2, 3}, Shares::kExtremes, random);
    }
  });
  CHECK(derived > 50);
}

TEST_CASE("products of claimed rows give the global result on two axes, in all nesting orders") {
  for_each_example("two axes", [](const SignatureCase& on, Random& random) {
    const GlobalRun run = run_globally(on, Shares::kIntegers, random);
    for (const Hierarchy& hierarchy : {Hierarchy{2, 2}, Hierarchy{3, 2}})
      for (const OpWords& words : nd_products(on.rows, hierarchy))
        check(on, run, words, hierarchy, Shares::kIntegers, random);
  });
}

// Products of a few rows drawn from those claimed; the first is B.
TEST_CASE("products of claimed rows give the global result on three axes") {
  static constexpr std::size_t kRows = 4, kProducts = 16;
  for_each_example("three axes", [](const SignatureCase& on, Random& random) {
    std::vector<SbpSignature> rows = on.rows;
    const auto last = [&rows] { return static_cast<std::int64_t>(rows.size()) - 1; };
    while (rows.size() > kRows) rows.erase(rows.begin() + random.integer(1, last()));
    std::vector<OpWords> products = nd_products(rows, Hierarchy{2, 2, 2});
    const GlobalRun run = run_globally(on, Shares::kIntegers, random);
    for (std::size_t i = 0; i < std::min(products.size(), kProducts); ++i) {
      const auto at = static_cast<std::size_t>(random.integer(
          static_cast<std::int64_t>(i), static_cast<std::int64_t>(products.size()) - 1));
      std::swap(products[i], products[at]);
      check(on, run, products[i], {2, 2, 2}, Shares::kIntegers, random);
    }
  });
}

// No kernel runs such a row: the machine passes the pieces on itself.
TEST_CASE(
    "a row that is a ring gives the global result by handing every piece to the next device") {
  int rings = 0;
  for_each_example("ring", [&](const SignatureCase& on, Random& random) {
    const GlobalRun run = run_globally(on, Shares::kFractions, random);
    for (const SbpSignature& row : on.def->signatures(on.on.inputs, on.outputs, on.on.attributes)) {
      if (row.ring == 0) continue;
      ++rings;
      CHECK(on.def->has_ring);
      const Hierarchy devices = {row.ring};
      const auto sent = distribute(run.inputs[0], {row.inputs[0]}, devices, random);
      const auto wanted = distribute(run.outputs[0], {row.outputs[0]}, devices, random);
      for (std::size_t device = 0; device < sent.size(); ++device)
        CHECK_MESSAGE(sent[device].values == wanted[(device + 1) % wanted.size()].values, on.name,
                      ": ", to_string(row), " to the device behind ", device);
    }
  });
  CHECK(rings >= 2);
}

// Sources have no inputs to run on, box_local exists in physical graphs alone.
TEST_CASE("every operator that computes has examples and rows") {
  const OperatorRegistry& registry = builtin_operators();
  for (const std::string& kind : registry.kinds()) {
    const OperatorDef& def = registry.get(kind);
    if (def.max_inputs == 0 || def.on_host || kind == "box_local") continue;
    const std::vector<SignatureCase> cases = example_cases(def);
    CHECK_MESSAGE(!cases.empty(), kind, " has no examples");
    for (const SignatureCase& on : cases) CHECK_MESSAGE(!on.rows.empty(), on.name);
  }
}

// The first cells of a Markdown file's tables, one after the other.
std::string first_cells(const std::string& path) {
  std::ifstream file(path);
  std::string cells, line;
  while (std::getline(file, line))
    if (line.starts_with('|')) cells += line.substr(0, line.find('|', 1));
  return cells;
}

TEST_CASE("every kind of operator has a row in the tables of core/operators/README.md") {
  const std::string cells = first_cells(SEXTANT_SOURCE_ROOT "/core/operators/README.md");
  for (const std::string& kind : builtin_operators().kinds())
    CHECK_MESSAGE(cells.find("`" + kind + "`") != std::string::npos, kind);
}

// The suite must be able to fail: rows that look right and are not.
TEST_CASE("unsound rows are caught") {
  const auto is_caught = [](const std::string& kind, std::size_t example, const SbpSignature& row,
                            std::int64_t parts, Shares values = Shares::kIntegers) {
    Random random("unsound" + kind);
    const SignatureCase on = example_cases(builtin_operators().get(kind))[example];
    OpWords words;
    for (const Sbp& word : row.inputs) words.inputs.push_back({word});
    for (const Sbp& word : row.outputs) words.outputs.push_back({word});
    // Few elements may miss what only some values show: one draw of several is enough.
    for (int draw = 0; draw < 8; ++draw) {
      const auto global = run_globally(on, values, random);
      try {
        if (!holds(on, global, words, {parts}, values, random)) return true;
      } catch (const Error&) {
        return true;  // the kernel refuses parts that do not fit together
      }
    }
    return false;
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
  // Integers that end at the limits of their type, and sums that wrap in one type alone.
  CHECK(is_caught("add", 4, {{p, p}, {p}}, 2, Shares::kExtremes));
  CHECK(is_caught("neg", 2, {{p}, {p}}, 2, Shares::kExtremes));
  CHECK(is_caught("cast", 4, {{p}, {p}}, 2, Shares::kExtremes));        // i32 to i64
  CHECK(is_caught("reduce_sum", 4, {{p}, {p}}, 2, Shares::kExtremes));  // i32 to i64
}

}  // namespace
}  // namespace sextant::signature_soundness_test
