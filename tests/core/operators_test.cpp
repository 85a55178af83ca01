// What every operator kind must satisfy by its form, and the rows, shapes and work that can be
// stated by hand. Whether claimed rows are sound is shown by running them
// (tests/conformance/signatures/signature_soundness_test.cpp).
#include "core/base/error.h"
#include "core/graphs/kernel_names.h"
#include "core/graphs/logical_graph.h"
#include "core/graphs/operator.h"
#include "core/operators/layers/loss.h"
#include "core/operators/movement/sources.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string>
#include <vector>

namespace sextant::operators_test {
namespace {

using Integers = std::vector<std::int64_t>;

TensorType f32(Shape shape) { return {.shape = std::move(shape), .dtype = DType::kF32}; }
TensorType f64(Shape shape) { return {.shape = std::move(shape), .dtype = DType::kF64}; }
TensorType bf16(Shape shape) { return {.shape = std::move(shape), .dtype = DType::kBF16}; }
TensorType i32(Shape shape) { return {.shape = std::move(shape), .dtype = DType::kI32}; }
TensorType boolean(Shape shape) { return {.shape = std::move(shape), .dtype = DType::kBool}; }

const OperatorDef& def(std::string_view kind) { return builtin_operators().get(kind); }

std::vector<TensorType> infer(std::string_view kind, const std::vector<TensorType>& inputs,
                              const Attributes& attributes = {}) {
  return def(kind).infer(inputs, attributes);
}

std::vector<SbpSignature> rows_of(std::string_view kind, const std::vector<TensorType>& inputs,
                                  const Attributes& attributes = {}) {
  return def(kind).signatures(inputs, infer(kind, inputs, attributes), attributes);
}

// "S(0) B -> S(0)", with " if 4" where the number of parts must divide 4.
std::string text(const SbpSignature& row) {
  std::string text;
  for (const Sbp& word : row.inputs) text += to_string(word) + " ";
  text += "->";
  for (const Sbp& word : row.outputs) text += " " + to_string(word);
  if (row.divisible != 0) text += " if " + std::to_string(row.divisible);
  return text;
}

std::set<std::string> row_texts(std::string_view kind, const std::vector<TensorType>& inputs,
                                const Attributes& attributes = {}) {
  std::set<std::string> texts;
  for (const SbpSignature& row : rows_of(kind, inputs, attributes)) texts.insert(text(row));
  return texts;
}

std::string refusal(std::string_view kind, const std::vector<TensorType>& inputs,
                    const Attributes& attributes = {}) {
  try {
    infer(kind, inputs, attributes);
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kBadInput);
    return error.what();
  }
  return "accepted";
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

void check_words(const std::vector<Sbp>& words, const std::vector<TensorType>& types) {
  REQUIRE(words.size() == types.size());
  for (std::size_t i = 0; i < words.size(); ++i)
    if (words[i].is_split()) CHECK(words[i].dim < types[i].shape.rank());
}

constexpr std::array<std::string_view, 5> kWithoutExamples = {"box_local", "input", "loss_scale",
                                                              "metrics", "parameter"};

TEST_CASE("every kind on a device has example inputs that its shape rule accepts") {
  for (const std::string& kind : builtin_operators().kinds()) {
    CAPTURE(kind);
    const bool is_free = std::count(kWithoutExamples.begin(), kWithoutExamples.end(), kind) > 0;
    CHECK((def(kind).examples != nullptr) == !is_free);
    if (is_free) continue;
    REQUIRE(!def(kind).examples().empty());
    for (const OperatorExample& example : def(kind).examples()) {
      CHECK(example.inputs.size() >= def(kind).min_inputs);
      CHECK(example.inputs.size() <= def(kind).max_inputs);
      CHECK((example.ranges.empty() || example.ranges.size() == example.inputs.size()));
      CHECK(!infer(kind, example.inputs, example.attributes).empty());
    }
  }
}

std::string refusal_of_attributes(std::string_view kind, const Attributes& attributes) {
  try {
    require_attributes(def(kind), attributes);
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kBadInput);
    return error.what();
  }
  return "accepted";
}

Attributes without(const Attributes& attributes, std::string_view name) {
  Attributes rest;
  for (const auto& [other, value] : attributes.entries())
    if (other != name) rest.set(other, value);
  return rest;
}

TEST_CASE("every kind takes the attributes that it declares, of their types, and no others") {
  for (const std::string& kind : builtin_operators().kinds()) {
    CAPTURE(kind);
    if (def(kind).examples == nullptr) continue;
    for (const OperatorExample& example : def(kind).examples()) {
      const Attributes& good = example.attributes;
      CHECK(refusal_of_attributes(kind, good) == "accepted");
      Attributes more = good;
      more.set("smoothin", 0.5);
      CHECK(contains(refusal_of_attributes(kind, more), kind + ": unknown attribute 'smoothin'"));
      for (const AttributeDef& one : def(kind).attributes) {
        const std::string name(one.name);
        CAPTURE(name);
        const bool is_needed = one.presence == AttributeDef::Presence::kNeeded;
        CHECK((refusal_of_attributes(kind, without(good, name)) == "accepted") == !is_needed);
        Attributes other = good;
        other.set(name, one.type == AttributeType::kText ? AttributeValue(true)
                                                         : AttributeValue(std::string("?")));
        CHECK(contains(refusal_of_attributes(kind, other),
                       kind + ": the attribute '" + name + "' is "));
      }
    }
  }
}

TEST_CASE("an unknown attribute is refused with the nearest, a missing one by name and type") {
  CHECK(refusal_of_attributes("matmul", {{"transpose_W", true}}) ==
        "matmul: unknown attribute 'transpose_W', did you mean 'transpose_w'?");
  CHECK(refusal_of_attributes("cross_entropy", {{"smoothin", 0.1}}) ==
        "cross_entropy: unknown attribute 'smoothin', did you mean 'smoothing'?");
  CHECK(refusal_of_attributes("relu", {{"alpha", 0.1}}) ==
        "relu: unknown attribute 'alpha': the operator has none");
  CHECK(refusal_of_attributes("gather", {}) ==
        "gather: the attribute 'dim', an integer, is missing");
}

TEST_CASE("a smoothed loss knows how many classes share") {
  const TensorType x = f32({2, 7}), row = f32({2}), labels = i32({2});
  const auto loss = [&](const Attributes& attributes) {
    return refusal("cross_entropy", {x, row, row, row, labels}, attributes);
  };
  CHECK(loss({{"smoothing", 0.0}}) == "accepted");
  CHECK(loss({{"smoothing", 0.1}, {"classes", std::int64_t{7}}}) == "accepted");
  CHECK(contains(loss({{"smoothing", 0.1}}), "the attribute 'classes' is missing: wanted 7"));
  CHECK(contains(loss({{"smoothing", 0.1}, {"classes", std::int64_t{8}}}),
                 "the attribute 'classes' is 8, but x is 2x7 f32: wanted 7"));
  CHECK(contains(loss({{"smoothing", 1.0}, {"classes", std::int64_t{7}}}),
                 "the attribute 'smoothing' is 1, wanted 0 or more and less than 1"));
  CHECK(
      contains(refusal("cross_entropy_grad", {x, row, row, labels, f32({})}, {{"smoothing", 0.1}}),
               "the attribute 'classes' is missing"));
}

TEST_CASE("every row has one word per operand and splits only dims that exist") {
  for (const std::string& kind : builtin_operators().kinds()) {
    if (def(kind).examples == nullptr) continue;
    for (const OperatorExample& example : def(kind).examples()) {
      const std::vector<TensorType> outputs = infer(kind, example.inputs, example.attributes);
      for (const SbpSignature& row : rows_of(kind, example.inputs, example.attributes)) {
        CAPTURE(kind);
        CAPTURE(text(row));
        check_words(row.inputs, example.inputs);
        check_words(row.outputs, outputs);
        CHECK(row.divisible != 1);  // holds for one part only: not worth a row
      }
    }
  }
}

TEST_CASE("all-broadcast is the first row of every kind and no row is listed twice") {
  for (const std::string& kind : builtin_operators().kinds()) {
    if (def(kind).examples == nullptr) continue;
    for (const OperatorExample& example : def(kind).examples()) {
      CAPTURE(kind);
      const std::vector<SbpSignature> rows = rows_of(kind, example.inputs, example.attributes);
      REQUIRE(!rows.empty());
      const auto is_broadcast = [](const Sbp& word) { return word.is_broadcast(); };
      CHECK(std::all_of(rows[0].inputs.begin(), rows[0].inputs.end(), is_broadcast));
      CHECK(std::all_of(rows[0].outputs.begin(), rows[0].outputs.end(), is_broadcast));
      CHECK(row_texts(kind, example.inputs, example.attributes).size() == rows.size());
    }
  }
}

// A slice reads only what it keeps, a share of a partial value only what it has.
TEST_CASE("local boxing reads no more than it writes and no more than there is") {
  const TensorType whole{Shape{8, 2}, DType::kF32}, part{Shape{3, 2}, DType::kF32};
  const auto work = [](const TensorType& from, const TensorType& to) {
    return def("box_local").work(std::vector{from}, std::vector{to}, {});
  };
  CHECK(work(whole, part).read == Bytes(24));
  CHECK(work(whole, part).written == Bytes(24));
  CHECK(work(part, whole).read == Bytes(24));
  CHECK(work(part, whole).written == Bytes(64));
}

TEST_CASE("every kind names a kernel that cost models know, and every family is some kind's") {
  std::set<std::string> used;
  for (const std::string& kind : builtin_operators().kinds()) {
    if (def(kind).examples == nullptr) continue;
    for (const OperatorExample& example : def(kind).examples()) {
      CAPTURE(kind);
      const Work work = def(kind).work(
          example.inputs, infer(kind, example.inputs, example.attributes), example.attributes);
      CHECK_NOTHROW(require_kernel_name(work.kernel));
      used.insert(std::string(kernel_family(work.kernel)));
      CHECK(work.flops >= 0);
      CHECK(work.written.value >= 0);
    }
  }
  for (const std::string& family : kernel_families())
    CHECK_MESSAGE((family == "none" || used.count(family) == 1), family);
}

TEST_CASE("a kernel name that no operator gives is refused with the nearest") {
  const auto extents = matmul_extents("matmul:3x5x7");
  REQUIRE(extents);
  CHECK(extents->m == 3);
  CHECK(extents->n == 5);
  CHECK(extents->k == 7);
  CHECK(!matmul_extents("copy"));
  CHECK(matmul_extents("conv:3x5x7")->n == 5);
  const auto attention = attention_extents("attention_grad:1024x64");
  REQUIRE(attention);
  CHECK(attention->keys == 1024);
  CHECK(attention->head_size == 64);
  CHECK(attention->products() == 5);
  CHECK(!attention->sees_all);
  CHECK(attention_extents("attention:128x64:all")->sees_all);
  CHECK(attention_extents("attention:128x64:all")->head_size == 64);
  CHECK(kernel_of_any_extents("attention:128x64:all") == "attention:0x64");
  CHECK(!attention_extents("attention"));
  CHECK(row_extent("normalization_sum:128") == 128);
  CHECK(kernel_of_any_extents("attention:1024x64") == "attention:0x64");
  CHECK(kernel_of_any_extents("matmul:3x5x7") == "matmul");
  for (const char* name :
       {"matmul", "matmul:", "matmul:3x5", "matmul:3x5x7x9", "matmul:3x5x-7", "matmul:3x5x7 ",
        "conv:3x5", "attention:64", "attention:8x0", "normalization:", "Copy", "gemm", ""})
    CHECK_THROWS_AS(require_kernel_name(name), Error);
  CHECK_THROWS_WITH_AS(require_kernel_name("elementwse"),
                       doctest::Contains("did you mean 'elementwise'"), Error);
}

TEST_CASE("every gradient kind is an operator of the registry") {
  const std::vector<std::string> kinds = builtin_operators().kinds();
  CHECK(std::is_sorted(kinds.begin(), kinds.end()));
  for (const char* kind : {"matmul_grad_weight", "layer_norm_grad_input", "rms_norm_grad_weight",
                           "attention_grad", "cross_entropy_grad", "embedding_grad", "adamw"})
    CHECK(builtin_operators().find(kind) != nullptr);
}

TEST_CASE("an unknown kind is refused with the nearest one") {
  CHECK_THROWS_WITH_AS(builtin_operators().get("layernorm"),
                       "unknown operator kind 'layernorm', did you mean 'layer_norm'?", Error);
}

TEST_CASE("a kind cannot be registered twice") {
  OperatorRegistry registry;
  registry.add({.kind = "twice"});
  CHECK_THROWS_AS(registry.add({.kind = "twice"}), Error);
}

// Rows.

TEST_CASE("matmul has exactly the six rows of its table") {
  CHECK(row_texts("matmul", {f32({4, 3}), f32({3, 2})}) ==
        std::set<std::string>{"B B -> B", "S(0) B -> S(0)", "B S(1) -> S(1)", "S(1) S(0) -> P(sum)",
                              "P(sum) B -> P(sum)", "B P(sum) -> P(sum)"});
}

TEST_CASE("a transposed weight swaps its rows and columns in every row") {
  CHECK(row_texts("matmul", {f32({5, 4, 3}), f32({2, 3})}, {{"transpose_w", true}}) ==
        std::set<std::string>{"B B -> B", "S(0) B -> S(0)", "S(1) B -> S(1)", "B S(0) -> S(2)",
                              "S(2) S(1) -> P(sum)", "P(sum) B -> P(sum)", "B P(sum) -> P(sum)"});
}

TEST_CASE("no row of matmul takes two partial factors") {
  for (const SbpSignature& row : rows_of("matmul", {f32({4, 3}), f32({3, 2})}))
    CHECK(!(row.inputs[0].is_partial() && row.inputs[1].is_partial()));
}

TEST_CASE("a bias is added to partial values only when it is partial itself") {
  const std::set<std::string> rows = row_texts("bias_add", {f32({4, 3}), f32({3})});
  CHECK(rows == std::set<std::string>{"B B -> B", "S(0) B -> S(0)", "S(1) S(0) -> S(1)",
                                      "P(sum) P(sum) -> P(sum)", "P(max) B -> P(max)",
                                      "B P(max) -> P(max)", "P(min) B -> P(min)",
                                      "B P(min) -> P(min)"});
}

TEST_CASE("a norm never claims a split of the dim it normalises") {
  for (const char* kind : {"layer_norm", "rms_norm"}) {
    std::vector<TensorType> inputs = {f32({2, 5, 4}), f32({4}), f32({4})};
    if (kind == std::string_view("rms_norm")) inputs.pop_back();
    for (const SbpSignature& row : rows_of(kind, inputs, {{"epsilon", 1e-5}}))
      CHECK(row.inputs[0] != Sbp::split(2));
  }
}

TEST_CASE("the weight gradient of a norm is partial where the tokens are split") {
  CHECK(row_texts("layer_norm_grad_weight",
                  {f32({2, 5, 4}), f32({2, 5}), f32({2, 5}), f32({2, 5, 4})})
            .count("S(0) S(0) S(0) S(0) -> P(sum) P(sum)") == 1);
}

TEST_CASE("heads split over any parts without groups and over divisors of the KV heads with them") {
  const TensorType q = f32({2, 3, 8, 2});
  CHECK(row_texts("attention", {q, q, q}).count("S(2) S(2) S(2) -> S(2) S(2)") == 1);
  const TensorType four = f32({2, 3, 4, 2}), one = f32({2, 3, 1, 2});
  CHECK(row_texts("attention", {q, four, four}).count("S(2) S(2) S(2) -> S(2) S(2) if 4") == 1);
  using Set = std::set<std::string>;
  const Set always{"B B B -> B B", "S(0) S(0) S(0) -> S(0) S(0)", "S(1) B B -> S(1) S(1)",
                   "B B S(3) -> S(3) B", "B B P(sum) -> P(sum) B"};
  CHECK(row_texts("attention", {q, one, one}) == always);
  // Told the size of the groups, a shard of query heads finds its key/value head by global index.
  Set told = always;
  told.insert("S(2) B B -> S(2) S(2)");
  CHECK(row_texts("attention", {q, one, one}, {{"group", std::int64_t{8}}}) == told);
}

TEST_CASE("query heads over more parts than key/value heads still follow the groups they cut") {
  const TensorType q = f32({2, 3, 8, 2}), two = f32({2, 3, 2, 2});
  const std::vector<SbpSignature> rows =
      rows_of("attention", {q, two, two}, {{"group", std::int64_t{4}}});
  const auto row = [&](std::string_view wanted) {
    return &*std::find_if(rows.begin(), rows.end(),
                          [&](const SbpSignature& row) { return text(row) == wanted; });
  };
  const SbpSignature *together = row("S(2) S(2) S(2) -> S(2) S(2) if 2"),
                     *queries = row("S(2) B B -> S(2) S(2)"),
                     *batch = row("S(0) S(0) S(0) -> S(0) S(0)");
  const auto fit = [](std::vector<const SbpSignature*> product) {
    return fits(product, Integers{2, 2});
  };
  CHECK(fit({queries, queries}));
  CHECK(fit({together, batch}));
  CHECK(!fit({together, together}));  // 4 parts of 2 key/value heads
  // Heads 0 1 | 4 5 on the first half of the minor axis, with key/value head 0: 4 and 5 read 1.
  CHECK(!fit({queries, together}));
  // Key/value head 0 on the first half of the major axis, inside of which its queries are shared
  // out.
  CHECK(fit({together, queries}));
  const std::vector<const SbpSignature*> product = {together, queries};
  CHECK(!fits(product, Integers{2, 2}, std::vector<std::size_t>{1, 0}));
}

TEST_CASE("reshape keeps the first dim of a merged group split, over parts that divide it") {
  const auto rows = [](Shape from, Integers to) {
    std::set<std::string> rows = row_texts("reshape", {f32(std::move(from))}, {{"shape", to}});
    for (const char* always :
         {"B -> B", "P(sum) -> P(sum)", "P(max) -> P(max)", "P(min) -> P(min)"})
      CHECK(rows.erase(always) == 1);
    return rows;
  };
  using Set = std::set<std::string>;
  // 12 heads of 64: 768 columns cut between heads over 2, 3, 4, 6 and 12 parts.
  CHECK(rows({2, 5, 768}, {2, 5, 12, 64}) ==
        Set{"S(0) -> S(0)", "S(1) -> S(1)", "S(2) -> S(2) if 12"});
  // [4,4,4] -> [8,8] is one group: S(1) would interleave; S(0) over gcd(4, 8) = 4 parts.
  CHECK(rows({4, 4, 4}, {8, 8}) == Set{"S(0) -> S(0) if 4"});
  CHECK(rows({6, 256}, {1536}) == Set{"S(0) -> S(0) if 6"});
  CHECK(rows({5, 3}, {5, 1, 3}) == Set{"S(0) -> S(0)", "S(1) -> S(2)"});
  CHECK(rows({3, 5}, {5, 3}) == Set{});
  CHECK(rows({4, 0}, {0, 7}) == Set{});
}

TEST_CASE("a negative factor turns a partial maximum into a partial minimum") {
  CHECK(row_texts("scale", {f32({3})}, {{"factor", -2.0}}).count("P(max) -> P(min)") == 1);
  CHECK(row_texts("scale", {f32({3})}, {{"factor", 2.0}}).count("P(max) -> P(max)") == 1);
}

TEST_CASE(
    "cast keeps partial sums of floating types where the new type has every value of the old one") {
  const std::array<DType, 7> all = {DType::kF64, DType::kF32, DType::kBF16, DType::kF16,
                                    DType::kI64, DType::kI32, DType::kBool};
  const std::set<std::string> widening = {"f64 f64",  "f32 f32",  "bf16 bf16", "f16 f16", "f32 f64",
                                          "bf16 f32", "bf16 f64", "f16 f32",   "f16 f64"};
  for (const DType from : all)
    for (const DType to : all) {
      const std::string pair = std::string(to_string(from)) + " " + std::string(to_string(to));
      CAPTURE(pair);
      const auto rows = row_texts("cast", {{{3}, from}}, {{"dtype", std::string(to_string(to))}});
      CHECK(rows.count("P(sum) -> P(sum)") == widening.count(pair));
      const bool is_monotone = to != DType::kBool || from == DType::kBool;
      CHECK(rows.count("P(max) -> P(max)") == static_cast<std::size_t>(is_monotone));
      CHECK(rows.count("P(min) -> P(min)") == static_cast<std::size_t>(is_monotone));
    }
}

TEST_CASE("an operand that stretches along a split dim stays whole") {
  using Set = std::set<std::string>;
  const auto splits = [](std::vector<TensorType> inputs) {
    Set splits;
    for (const std::string& row : row_texts("add", inputs))
      if (row.find('S') != std::string::npos) splits.insert(row);
    return splits;
  };
  CHECK(splits({f32({4, 3}), f32({4, 3})}) == Set{"S(0) S(0) -> S(0)", "S(1) S(1) -> S(1)"});
  CHECK(splits({f32({4, 3}), f32({3})}) == Set{"S(0) B -> S(0)", "S(1) S(0) -> S(1)"});
  CHECK(splits({f32({3, 1}), f32({2, 1, 5})}) ==
        Set{"B S(0) -> S(0)", "S(0) B -> S(1)", "B S(2) -> S(2)"});
  CHECK(splits({f32({}), f32({5})}) == Set{"B S(0) -> S(0)"});
  CHECK(splits({f32({1}), f32({1})}) == Set{"S(0) S(0) -> S(0)"});  // nothing repeats
  CHECK(splits({f32({1}), f32({0})}) == Set{"B S(0) -> S(0)"});
}

TEST_CASE("shapes stretch from the right") {
  const auto shape = [](Shape a, Shape b) {
    return to_string(infer("add", {f32(std::move(a)), f32(std::move(b))})[0].shape);
  };
  CHECK(shape({4, 1, 3}, {2, 1}) == "4x2x3");
  CHECK(shape({}, {}) == "()");
  CHECK(shape({2, 3}, {}) == "2x3");
  CHECK(shape({1, 3}, {0, 1}) == "0x3");
}

TEST_CASE("a factor of zero passes no maximum: it times the neutral element is no number") {
  CHECK(row_texts("scale", {f32({3})}, {{"factor", 0.0}}) ==
        std::set<std::string>{"B -> B", "S(0) -> S(0)", "P(sum) -> P(sum)"});
}

TEST_CASE("powers pass partial values by their exponent") {
  using Set = std::set<std::string>;
  const auto partial = [](double exponent) {
    Set rows = row_texts("pow", {f32({3})}, {{"exponent", exponent}});
    CHECK(rows.erase("B -> B") + rows.erase("S(0) -> S(0)") == 2);
    return rows;
  };
  CHECK(partial(1) == Set{"P(sum) -> P(sum)", "P(max) -> P(max)", "P(min) -> P(min)"});
  CHECK(partial(3) == Set{"P(max) -> P(max)", "P(min) -> P(min)"});
  CHECK(partial(0.5) == Set{"P(min) -> P(min)"});
  CHECK(partial(-0.5) == Set{"P(min) -> P(max)"});
  for (const double exponent : {2.0, 0.0, -1.0, -2.0}) CHECK(partial(exponent).empty());
}

TEST_CASE("the loss of split tokens is a partial sum and that of split classes is whole") {
  const TensorType row = f32({2, 5});
  const std::set<std::string> rows =
      row_texts("cross_entropy", {f32({2, 5, 7}), row, row, row, i32({2, 5})});
  CHECK(rows ==
        std::set<std::string>{"B B B B B -> B B", "S(0) S(0) S(0) S(0) S(0) -> P(sum) P(sum)",
                              "S(1) S(1) S(1) S(1) S(1) -> P(sum) P(sum)", "S(2) B B B B -> B B"});
}

TEST_CASE("all states of an optimizer split like their gradient and the step never does") {
  const Attributes attributes = def("adamw").examples()[0].attributes;
  CHECK(row_texts("adamw", {f32({5, 3}), f32({5, 3}), f32({2})}, attributes) ==
        std::set<std::string>{"B B B -> B B B B", "S(0) S(0) B -> S(0) S(0) S(0) B",
                              "S(1) S(1) B -> S(1) S(1) S(1) B"});
  CHECK(infer("adamw", {f32({5, 3}), f32({2})}, attributes) ==
        infer("adamw", {f32({5, 3}), f32({5, 3}), f32({2})}, attributes));
  // A gradient may have accumulated in 16 bits; what it moves has 32.
  CHECK(infer("adamw", {bf16({5, 3}), f32({2})}, attributes) ==
        infer("adamw", {f32({5, 3}), f32({2})}, attributes));
}

TEST_CASE("rows that depend on the number of parts fit only where it divides") {
  const SbpSignature free{{Sbp::split(0)}, {Sbp::split(0)}};
  const SbpSignature heads{{Sbp::split(2)}, {Sbp::split(2)}, 4};
  const auto fit = [](std::vector<const SbpSignature*> rows, Integers hierarchy) {
    return fits(rows, hierarchy);
  };
  CHECK(fit({&free}, {5}));
  CHECK(fit({&heads}, {4}));
  CHECK(!fit({&heads}, {3}));
  CHECK(fit({&free, &heads}, {3, 2}));
  CHECK(fit({&heads, &heads}, {2, 2}));
  CHECK(!fit({&heads, &heads}, {2, 4}));  // 8 parts of 4 heads
}

// Shapes.

TEST_CASE("shape rules give the shapes of their formulas") {
  CHECK(infer("matmul", {bf16({2, 5, 3}), bf16({3, 7})}) == std::vector{bf16({2, 5, 7})});
  CHECK(infer("matmul", {bf16({2, 3}), bf16({3, 7})}, {{"out_dtype", "f32"}}) ==
        std::vector{f32({2, 7})});
  CHECK(infer("matmul_grad_weight", {bf16({2, 5, 3}), bf16({2, 5, 7})}) ==
        std::vector{f32({3, 7})});
  CHECK(infer("matmul_grad_weight", {f64({5, 3}), f64({5, 7})}, {{"transpose_w", true}}) ==
        std::vector{f64({7, 3})});
  CHECK(infer("bias_add", {f32({2, 5, 3}), f32({5, 3})}) == std::vector{f32({2, 5, 3})});
  CHECK(infer("reduce_to_bias", {bf16({2, 5, 3})}, {{"rank", std::int64_t{2}}}) ==
        std::vector{f32({5, 3})});
  CHECK(infer("embedding", {i32({2, 5}), f32({7, 3})}) == std::vector{f32({2, 5, 3})});
  CHECK(infer("layer_norm", {bf16({2, 4}), bf16({4}), bf16({4})}, {{"epsilon", 1e-5}}) ==
        std::vector{bf16({2, 4}), f32({2}), f32({2})});
  CHECK(infer("attention", {bf16({2, 3, 4, 8}), bf16({2, 3, 2, 8}), bf16({2, 3, 2, 8})}) ==
        std::vector{bf16({2, 3, 4, 8}), f32({2, 3, 4})});
  CHECK(infer("attention", {bf16({2, 3, 4, 8}), bf16({2, 5, 2, 8}), bf16({2, 5, 2, 6})}) ==
        std::vector{bf16({2, 3, 4, 6}), f32({2, 3, 4})});
  CHECK(infer("transpose", {f32({2, 3, 5})}, {{"permutation", Integers{2, 0, 1}}}) ==
        std::vector{f32({5, 2, 3})});
  CHECK(infer("row_max", {bf16({2, 5, 7})}) == std::vector{f32({2, 5})});
}

TEST_CASE("shape rules hold for empty shards") {
  CHECK(infer("matmul", {f32({0, 3}), f32({3, 7})}) == std::vector{f32({0, 7})});
  CHECK(infer("matmul", {f32({2, 0}), f32({0, 7})}) == std::vector{f32({2, 7})});
  CHECK(infer("row_max", {f32({5, 0})}) == std::vector{f32({5})});
  const TensorType none = f32({2, 3, 0, 8});
  CHECK(infer("attention", {none, none, none}) == std::vector{none, f32({2, 3, 0})});
}

TEST_CASE("shape rules refuse what does not fit and say what was found and wanted") {
  CHECK(contains(refusal("matmul", {f32({2, 3}), f32({4, 7})}), "3 columns of x meet 4 rows of w"));
  CHECK(contains(refusal("matmul", {f32({2, 3}), f32({3, 4})}, {{"transpose_w", true}}),
                 "3 columns of x meet 4 rows"));
  CHECK(contains(refusal("matmul", {f32({2, 3}), bf16({3, 7})}), "w is 3x7 bf16, wanted f32"));
  CHECK(contains(refusal("matmul", {f32({2, 3}), f32({3})}), "wanted 2 dims"));
  CHECK(contains(refusal("matmul", {f32({}), f32({3, 7})}), "at least 1 dims"));
  CHECK(contains(refusal("matmul_grad_weight", {f32({2, 3}), f32({4, 7})}), "equal leading dims"));
  CHECK(contains(refusal("add", {f32({2, 3}), f32({2})}),
                 "add: a is 2x3 f32 and b is 2 f32, wanted extents that are equal or 1"));
  CHECK(contains(refusal("mul", {f32({2}), i32({2})}), "b is 2 i32, wanted f32 as a has"));
  CHECK(contains(refusal("sub", {boolean({2}), boolean({2})}), "a is 2 bool, wanted numbers"));
  CHECK(contains(refusal("exp", {i32({2})}), "x is 2 i32, wanted a floating element type"));
  CHECK(contains(refusal("where", {f32({2}), f32({2}), f32({2})}),
                 "condition is 2 f32, wanted bool"));
  CHECK(contains(refusal("where", {boolean({2}), f32({}), f32({3})}),
                 "condition is 2 bool and b is 3 f32"));
  CHECK(contains(refusal("logical_or", {boolean({2}), i32({2})}), "b is 2 i32, wanted bool"));
  CHECK(contains(refusal("less", {f32({2}), bf16({2})}), "b is 2 bf16, wanted f32 as a has"));
  CHECK(contains(refusal("clamp", {f32({2})}, {{"min", 1.0}, {"max", 0.0}}),
                 "min 1 is not at most max 0"));
  CHECK(contains(refusal("add_scalar", {i32({2})}, {{"value", 0.5}}),
                 "value 0.5 for x that is 2 i32, wanted an integer"));
  CHECK(contains(refusal("tanh_grad", {f32({2}), f32({3})}), "dy is 3 f32, wanted 2 f32"));
  CHECK(contains(refusal("pow", {f32({2})}, {{"exponent", std::nan("")}}), "not finite"));
  CHECK(contains(refusal("gelu", {f32({2})}, {{"approximate", "erf"}}), "wanted tanh or none"));
  CHECK(contains(refusal("cast", {f32({2})}, {{"dtype", "f31"}}), "f31"));
  CHECK(contains(refusal("bias_add", {f32({2, 3}), f32({2})}), "wanted shape 3"));
  CHECK(contains(refusal("bias_add", {f32({3}), f32({2, 3})}), "at least 2 dims"));
  CHECK(contains(refusal("reduce_to_bias", {f32({3})}, {{"rank", std::int64_t{2}}}), "2 dims"));
  CHECK(contains(refusal("layer_norm", {f32({2, 4}), f32({3}), f32({4})}, {{"epsilon", 1e-5}}),
                 "gamma is 3 f32, wanted 4 f32"));
  CHECK(contains(refusal("rope", {f32({2, 3, 4, 5})}, {{"theta", 1e4}}), "even head size"));
  CHECK(contains(refusal("rope", {f32({2, 3, 4, 6})}, {{"theta", 1e4}, {"factor", 0.5}}),
                 "factor 0.5, wanted 1"));
  CHECK(contains(refusal("rope", {f32({2, 3, 4, 6})},
                         {{"theta", 1e4}, {"factor", 2.0}, {"original_length", std::int64_t{8}}}),
                 "low_turns and high_turns go together"));
  const auto scaled = [&](std::int64_t length, double low, double high) {
    return refusal("rope", {f32({2, 3, 4, 6})},
                   {{"theta", 1e4},
                    {"factor", 2.0},
                    {"original_length", length},
                    {"low_turns", low},
                    {"high_turns", high}});
  };
  CHECK(contains(scaled(0, 1, 4), "original_length 0"));
  CHECK(contains(scaled(8, 4, 1), "turns from 4 to 1"));
  const TensorType q = f32({2, 3, 6, 8}), four = f32({2, 3, 4, 8});
  CHECK(contains(refusal("attention", {q, four, four}), "6 query heads do not share 4"));
  CHECK(contains(refusal("attention", {q, f32({3, 3, 6, 8}), q}), "k is 3x3x6x8"));
  CHECK(contains(refusal("attention", {q, f32({2, 5, 6, 8}), q}), "v is 2x3x6x8"));
  const TensorType two = f32({2, 2, 6, 8});
  CHECK(contains(refusal("attention", {q, two, two}), "wanted at least the 3 positions of q"));
  CHECK(contains(refusal("attention", {q, four, four}, {{"group", std::int64_t{1}}}),
                 "4 key/value heads with groups of 1 do not serve 6 query heads"));
  CHECK(contains(refusal("embedding", {f32({2}), f32({7, 3})}), "ids is 2 f32, wanted i32 or i64"));
  CHECK(contains(refusal("embedding", {i32({2}), f32({7})}), "[vocabulary, hidden]"));
  CHECK(contains(refusal("reshape", {f32({2, 3})}, {{"shape", Integers{7}}}), "has 6 elements"));
  CHECK(contains(refusal("transpose", {f32({2, 3})}, {{"permutation", Integers{0, 0}}}),
                 "each of the 2 dims"));
  const auto cut = [](std::int64_t dim, std::int64_t start, std::int64_t stop) {
    return Attributes{{"dim", dim}, {"start", start}, {"stop", stop}};
  };
  CHECK(contains(refusal("slice", {f32({2, 3})}, cut(1, 2, 4)), "[2, 4) does not lie in dim 1"));
  CHECK(contains(refusal("slice", {f32({2, 3})}, cut(2, 0, 1)), "dim 2 is not a dim"));
  CHECK(contains(refusal("pick", {f32({2, 3}), i32({3})}), "labels is 3 i32, wanted shape 2"));
  const Attributes adamw = def("adamw").examples()[0].attributes;
  CHECK(contains(refusal("adamw", {bf16({3}), bf16({3}), f32({2})}, adamw),
                 "adamw: parameter is 3 bf16, wanted 3 f32"));
  CHECK(
      contains(refusal("adamw", {f32({3}), f32({})}, adamw), "control is () f32, wanted shape 2"));
  Attributes late = adamw;
  late.set("schedule", std::string("cosine"));
  late.set("warm_up", std::int64_t{10});
  late.set("total_updates", std::int64_t{10});
  CHECK(contains(refusal("adamw", {f32({3}), f32({2})}, late), "ends within its warm-up of 10"));
  late.set("schedule", std::string("cosin"));
  CHECK(contains(refusal("adamw", {f32({3}), f32({2})}, late), "schedule is 'cosin'"));
  CHECK(contains(refusal("metrics", {f32({}), f32({})}, {{"names", "loss"}}), "1 names"));
  CHECK(contains(refusal("metrics", {f32({2})}, {{"names", "loss"}}), "wanted shape ()"));
}

// Work.

TEST_CASE("a matmul costs two FLOPs per multiply-add and names its extents") {
  const std::vector<TensorType> inputs = {bf16({2, 5, 3}), bf16({3, 7})};
  const Work work = def("matmul").work(inputs, infer("matmul", inputs), {});
  CHECK(work.flops == 2.0 * 10 * 7 * 3);
  CHECK(work.kernel == "matmul:10x7x3");
  CHECK(work.read == Bytes(2 * (30 + 21)));
  CHECK(work.written == Bytes(2 * 70));
}

TEST_CASE("attention costs its causal half: two products forward, five backward") {
  // Per head of 8 and sequence 3: pairs 3 * 4 / 2 = 6, a product 2 * 8 * 6 = 96 FLOPs; 2 x 4 heads.
  const TensorType q = f32({2, 3, 4, 8}), kv = f32({2, 3, 2, 8}), lse = f32({2, 3, 4});
  const std::vector<TensorType> forward = {q, kv, kv}, backward = {q, kv, kv, q, lse, q};
  CHECK(def("attention").work(forward, infer("attention", forward), {}).flops == 2 * 8 * 96);
  CHECK(def("attention_grad").work(backward, infer("attention_grad", backward), {}).flops ==
        5 * 8 * 96);
  // One of three queries sees two of the three keys on average: 2 of 6 pairs.
  const std::vector<TensorType> third = {f32({2, 1, 4, 8}), kv, kv};
  CHECK(def("attention").work(third, infer("attention", third), {}).flops == 2 * 8 * 32);
}

TEST_CASE("shape rules of windows and routing say what does not fit") {
  CHECK(infer("conv", {f32({2, 6, 8, 9}), f32({9, 2, 3, 2})},
              {{"stride", Integers{2, 3}}, {"padding", Integers{1, 0}}}) ==
        std::vector{f32({2, 9, 4, 3})});
  CHECK(infer("conv", {f32({1, 1, 0}), f32({1, 1, 3})}) == std::vector{f32({1, 1, 0})});
  CHECK(contains(refusal("conv", {f32({1, 5, 8}), f32({4, 2, 3})}), "5 channels of x 1x5x8"));
  CHECK(contains(refusal("conv", {f32({1, 6, 8}), f32({4, 2, 3})}), "do not divide into 3 groups"));
  CHECK(contains(refusal("conv", {f32({1, 1, 2}), f32({1, 1, 3})}), "windows of 3 do not fit"));
  CHECK(contains(refusal("conv", {f32({1, 1}), f32({1, 1})}), "at least 3 dims"));
  CHECK(contains(refusal("conv", {f32({1, 1, 8}), f32({1, 1, 3})}, {{"stride", Integers{1, 1}}}),
                 "stride has 2 entries"));
  CHECK(contains(refusal("conv", {f32({1, 1, 8}), f32({1, 1, 3})}, {{"spatial", Integers{7}}}),
                 "more than the spatial extent 7"));
  CHECK(contains(refusal("conv", {f32({1, 1, 8}), f32({1, 1, 3})}, {{"dilation", Integers{0}}}),
                 "dilation 0 is less than 1"));
  CHECK(infer("max_pool", {f32({2, 3, 7})}, {{"kernel", Integers{2}}}) ==
        std::vector{f32({2, 3, 3})});
  CHECK(contains(
      refusal("max_pool", {f32({2, 3, 7})}, {{"kernel", Integers{2}}, {"padding", Integers{2}}}),
      "padding 2"));
  CHECK(contains(refusal("avg_pool", {f32({2, 3, 7})}, {{"kernel", Integers{2, 2}}}),
                 "2 spatial dims"));
  CHECK(contains(refusal("dropout", {f32({2})}, {{"rate", 1.5}, {"stream", "x"}}), "rate 1.5"));
  CHECK(contains(refusal("top_k", {f32({2, 3})}, {{"k", std::int64_t{4}}}), "wanted 1 to 3"));
  const Attributes experts{{"experts", std::int64_t{4}}, {"capacity", std::int64_t{2}}};
  const TensorType choices = i32({2, 5, 2});
  CHECK(infer("moe_dispatch", {bf16({2, 5, 3}), choices, choices}, experts) ==
        std::vector{bf16({4, 2, 2, 3})});
  CHECK(
      contains(refusal("moe_dispatch", {f32({2, 4, 3}), choices, choices}, experts), "x is 2x4x3"));
  CHECK(contains(refusal("moe_combine", {f32({4, 3, 2, 3}), choices, choices}), "y is 4x3x2x3"));
  CHECK(contains(refusal("sgd", {i32({3}), f32({2})}, def("sgd").examples()[0].attributes),
                 "sgd: gradient is 3 i32"));
  CHECK(contains(refusal("update_control", {f32({})}, {{"max_norm", 1.0}}),
                 "there are no stats to clip by"));
}

TEST_CASE("a convolution costs two FLOPs per tap, and a shard those of the positions it has") {
  // 2 x 8 windows x 9 outputs x 2 channels x 3 taps.
  const std::vector<TensorType> inputs = {f32({2, 6, 8}), f32({9, 2, 3})};
  const Attributes attributes{{"padding", Integers{1}}, {"spatial", Integers{8}}};
  const Work work = def("conv").work(inputs, infer("conv", inputs, attributes), attributes);
  CHECK(work.flops == 2.0 * 2 * 8 * 9 * 2 * 3);
  CHECK(work.kernel == "conv:16x9x6");
  const std::vector<TensorType> half = {f32({2, 6, 4}), f32({9, 2, 3})};
  CHECK(def("conv").work(half, infer("conv", half, attributes), attributes).flops ==
        2.0 * 2 * 4 * 9 * 2 * 3);
}

TEST_CASE("a look-up reads the rows it looks up, not the table") {
  const std::vector<TensorType> inputs = {i32({2, 5}), f32({1000, 3})};
  const Work work = def("embedding").work(inputs, infer("embedding", inputs), {});
  CHECK(work.read == Bytes(4 * 10 + 4 * 30));
  CHECK(work.written == Bytes(4 * 30));
}

// Builders.

TEST_CASE("an initializer survives its way through attributes") {
  for (const Initializer initializer : {Initializer{}, Initializer{Initializer::Kind::kOnes, 0.0},
                                        Initializer{Initializer::Kind::kNormal, 0.02}}) {
    Attributes attributes;
    set_initializer(attributes, initializer);
    CHECK(initializer_of(attributes) == initializer);
  }
  CHECK_THROWS_WITH_AS(initializer_of({{"init", "uniform"}, {"init_std", 1.0}}),
                       "initializer 'uniform' is not zeros, ones or normal", Error);
}

TEST_CASE("the loss helper adds the four pieces and returns both scalars") {
  LogicalGraph graph(builtin_operators());
  const TensorId logits = add_input(graph, "logits", 0, bf16({2, 5, 7}));
  const TensorId labels =
      add_input(graph, "labels", 0, i32({2, 5}), {.limit = 7, .ignored = kIgnoreIndex});
  const LossTensors loss = softmax_cross_entropy(graph, logits, labels, "loss", 1);
  CHECK(graph.tensor(loss.loss_sum).type == f32({}));
  CHECK(graph.tensor(loss.token_count).type == f32({}));
  CHECK(graph.ops().size() == 6);
  CHECK(graph.op(*graph.find_op("loss")).attributes.integer("ignore_index") == -100);
}

}  // namespace
}  // namespace sextant::operators_test
