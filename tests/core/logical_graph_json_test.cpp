// Logical graphs in files: written and read back, and every mistake refused at its place.
#include "core/files/logical_graph_json.h"

#include "core/base/error.h"
#include "core/operators/layers/loss.h"
#include "core/operators/movement/sources.h"
#include "core/text/json_reader.h"
#include "tests/support/unknown_keys.h"

#include <doctest/doctest.h>

namespace sextant::logical_graph_json_test {
namespace {

GraphDocument read(std::string_view text) {
  const JsonDocument document(text, "graph.json");
  return graph_from_json(document.root());
}

// One layer and a loss; every kind of attribute is there.
GraphDocument example() {
  GraphDocument document;
  document.name = "example";
  LogicalGraph& graph = document.graph;
  const TensorId x = add_input(graph, "x", 0, {{4, 5}, DType::kF32});
  const TensorId labels =
      add_input(graph, "labels", 1, {{4}, DType::kI32}, {.limit = 6, .ignored = kIgnoreIndex});
  ParameterInfo info;
  info.initializer = {Initializer::Kind::kNormal, 0.5};
  info.weight_decay = false;
  info.tensor_parallel_dim = 1;
  const TensorId w = add_parameter(graph, "w", 0, {{5, 6}, DType::kF32}, info);
  const auto add = [&](const char* kind, std::vector<TensorId> inputs, Attributes attributes) {
    return graph.output(graph.add({.kind = kind,
                                   .name = kind,
                                   .attributes = std::move(attributes),
                                   .inputs = std::move(inputs),
                                   .outputs = {},
                                   .phase = Phase::kForward,
                                   .layer = 0,
                                   .parameter = std::nullopt}));
  };
  const TensorId y = add("matmul", {x, w}, {{"transpose_w", false}});
  const TensorId z = add("scale", {y}, {{"factor", 2.0}});
  const LossTensors loss = softmax_cross_entropy(graph, z, labels, "loss", 1);
  graph.set_loss(loss.loss_sum, loss.token_count);
  document.words = {
      {.op = *graph.find_op("matmul"), .is_input = true, .index = 0, .words = {Sbp::broadcast()}},
      {.op = *graph.find_op("matmul"), .words = {Sbp::split(1)}}};
  document.placements = {consecutive_placement({{"tp", 2}}),
                         consecutive_placement({{"tp", 2}}, Rank(2))};
  document.stage_of_layer = {0, 1};
  return document;
}

void check_equal(const LogicalGraph& a, const LogicalGraph& b) {
  REQUIRE(a.ops().size() == b.ops().size());
  for (std::size_t i = 0; i < a.ops().size(); ++i) {
    const LogicalOp &one = a.ops()[i], &other = b.ops()[i];
    CAPTURE(one.name);
    CHECK(one.name == other.name);
    CHECK(one.kind == other.kind);
    CHECK(one.attributes == other.attributes);
    CHECK(one.inputs == other.inputs);
    CHECK(one.outputs == other.outputs);
    CHECK(one.phase == other.phase);
    CHECK(one.layer == other.layer);
    CHECK(one.recompute_of == other.recompute_of);
    REQUIRE(one.parameter.has_value() == other.parameter.has_value());
    if (!one.parameter) continue;
    CHECK(one.parameter->initializer == other.parameter->initializer);
    CHECK(one.parameter->weight_decay == other.parameter->weight_decay);
    CHECK(one.parameter->tensor_parallel_dim == other.parameter->tensor_parallel_dim);
    CHECK(one.parameter->expert_parallel_dim == other.parameter->expert_parallel_dim);
  }
  CHECK(a.loss_sum() == b.loss_sum());
  CHECK(a.token_count() == b.token_count());
}

TEST_CASE("a graph reads back from its text, with words, placements and stages") {
  const GraphDocument written = example();
  const GraphDocument found = read(to_json_text(written));
  CHECK(found.name == "example");
  check_equal(found.graph, written.graph);
  CHECK(found.words == written.words);
  CHECK(found.placements == written.placements);
  CHECK(found.stage_of_layer == written.stage_of_layer);
  CHECK(to_json_text(found) == to_json_text(written));
}

TEST_CASE("what backward repeats is written and read by the name of the original") {
  GraphDocument written = example();
  const OpId original = *written.graph.find_op("scale");
  LogicalOp again = written.graph.op(original);
  again.name = "scale.recompute";
  again.phase = Phase::kRecompute;
  again.recompute_of = original;
  written.graph.add(std::move(again));
  const std::string text = to_json_text(written);
  check_equal(read(text).graph, written.graph);
  const auto changed = [&](const std::string& to) {
    const std::string from = "\"recompute_of\": \"scale\"";
    std::string copy = text;
    REQUIRE(copy.find(from) != std::string::npos);
    copy.replace(copy.find(from), from.size(), "\"recompute_of\": \"" + to + "\"");
    try {
      read(copy);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  for (const std::string wrong : {"matmul", "nothing", "scale.recompute"})
    CHECK(changed(wrong).find("recompute_of: no operator before this one is '" + wrong + "'") !=
          std::string::npos);
}

TEST_CASE("every mistake is refused at its place") {
  const std::string text = to_json_text(example());
  const auto changed = [&](std::string_view from, std::string_view to) {
    std::string copy = text;
    REQUIRE_MESSAGE(copy.find(from) != std::string::npos, std::string(from));
    copy.replace(copy.find(from), from.size(), to);
    try {
      read(copy);
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::kBadInput);
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  CHECK(changed("graph/1", "graph/2") ==
        "graph.json: schema: found \"sextant.graph/2\"; this program reads sextant.graph/1");
  CHECK(changed("\"kind\": \"matmul\"", "\"kind\": \"matmal\"") ==
        "graph.json: operators[3]: operator 'matmul': unknown operator kind 'matmal', did you mean "
        "'matmul'?");
  CHECK(changed("[\"x\", \"w\"]", "[\"x\", \"v\"]") ==
        "graph.json: operators[3].inputs[1]: no operator before this one makes 'v'");
  CHECK(changed("\"name\": \"scale\"", "\"name\": \"s*\"").find("is no name") != std::string::npos);
  CHECK(changed("\"name\": \"scale\"", "\"name\": \"w\"").find("two operators are named 'w'") !=
        std::string::npos);
  CHECK(changed("[5, 6]", "[4, 6]").find("operators[3]: operator 'matmul':") != std::string::npos);
  CHECK(changed("\"factor\": 2.0", "\"factor\": \"two\"").find("operators[4]: operator 'scale'") !=
        std::string::npos);
  CHECK(
      changed("\"factor\": 2.0", "\"factor\": {}") ==
      "graph.json: operators[4].attributes.factor: wanted true, false, a number, text or a list of "
      "integers");
  CHECK(changed("\"tensor_parallel_dim\": 1", "\"tensor_parallel_dim\": 2") ==
        "graph.json: operators[2].parameter.tensor_parallel_dim: found 2, wanted 0 to 1");
  CHECK(changed("\"weight_decay\"", "\"decay\"").find("unknown key 'decay'") != std::string::npos);
  CHECK(changed("\"output 0\": \"S(1)\"", "\"output 0\": \"S(2)\"") ==
        "graph.json: operators[3].words.output 0: 'matmul' of shape 4x6 has no dim 2");
  CHECK(changed("\"output 0\"", "\"output 1\"") ==
        "graph.json: operators[3].words: unknown key 'output 1', did you mean 'output 0'?");
  CHECK(changed("\"transpose_w\"", "\"transpose_W\"") ==
        "graph.json: operators[3]: operator 'matmul': matmul: unknown attribute 'transpose_W', did "
        "you mean 'transpose_w'?");
  CHECK(changed("\"factor\": 2.0", "\"factor\": 2") ==
        "graph.json: operators[4]: operator 'scale': scale: the attribute 'factor' is an integer, "
        "wanted a real number");
  CHECK(changed("{\"ignore_index\": -100}", "{\"smoothing\": 0.1}") ==
        "graph.json: operators[8]: operator 'loss': cross_entropy: 'smoothing' is 0.1, but the "
        "attribute 'classes' is missing: wanted 6");
  CHECK(changed("\"output 0\": \"S(1)\"", "\"output 0\": \"(S(1), B)\"")
            .find("are 2 words for the 1 axes of [tp=2]") != std::string::npos);
  CHECK(changed("\"count\": \"loss:1\"", "\"count\": \"loss:2\"")
            .find("loss.count: no operator before this one makes 'loss:2'") != std::string::npos);
  CHECK(changed("\"count\": \"loss:1\"", "\"count\": \"x\"").find("the loss needs scalars") !=
        std::string::npos);
  CHECK(changed("[tp=2]{2, 3}", "[tp=2]{2}").find("placements[1]") != std::string::npos);
  CHECK(changed("[0, 1]", "[0, 2]") == "graph.json: stages[1]: found 2, wanted 0 to 1");
  CHECK(changed("[0, 1]", "[0]") ==
        "graph.json: stages: 1 stages for 2 layers: wanted one per layer");
  CHECK(changed("\"phase\": \"data\"", "\"phase\": \"dat\"").find("operators[0].phase") !=
        std::string::npos);
}

// A graph file with an input `ids` [6] and operators that read it: `how` they become ids of theirs.
std::string with_ids(const std::string& input, const std::string& how, const std::string& reader) {
  return R"({"schema": "sextant.graph/1", "name": "n", "operators": [
      {"name": "ids", "kind": "input", "layer": 0,
       "attributes": {"shape": [6], "dtype": "i32")" +
         input + R"(}},
      {"name": "x", "kind": "input", "layer": 0, "attributes": {"shape": [6, 10], "dtype": "f32"}},
      {"name": "row", "kind": "input", "layer": 0, "attributes": {"shape": [6], "dtype": "f32"}},
      {"name": "table", "kind": "parameter", "layer": 0,
       "attributes": {"shape": [10, 3], "dtype": "f32", "init": "zeros", "init_std": 0.0}})" +
         how + R"(, {"name": "reader", "layer": 0, )" + reader + "}]}";
}

std::string refusal_of_ids(const std::string& input, const std::string& how,
                           const std::string& reader) {
  try {
    read(with_ids(input, how, reader));
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kBadInput);
    return error.what();
  }
  return "accepted";
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("ids of an input fit every operator that counts with them") {
  // Each counts 10 of something.
  const std::pair<const char*, const char*> readers[] = {
      {"embedding", R"("kind": "embedding", "inputs": ["ids", "table"])"},
      {"embedding_grad",
       R"("kind": "embedding_grad", "inputs": ["ids", "x"], "attributes": {"vocab": 10})"},
      {"pick", R"("kind": "pick", "inputs": ["x", "ids"])"},
      {"cross_entropy", R"("kind": "cross_entropy", "inputs": ["x", "row", "row", "row", "ids"])"},
      {"gather", R"("kind": "gather", "inputs": ["table", "ids"], "attributes": {"dim": 0})"},
      {"scatter_add",
       R"("kind": "scatter_add", "inputs": ["x", "ids"], "attributes": {"dim": 0, "extent": 10})"},
      {"one_hot", R"("kind": "one_hot", "inputs": ["ids"],
                     "attributes": {"extent": 10, "dtype": "f32"})"}};
  for (const auto& [kind, reader] : readers) {
    CAPTURE(kind);
    CHECK(refusal_of_ids(R"(, "limit": 10)", "", reader) == "accepted");
    CHECK(refusal_of_ids(R"(, "limit": 7)", "", reader) == "accepted");
    const std::string above = refusal_of_ids(R"(, "limit": 11)", "", reader);
    CHECK(contains(above, std::string("graph.json: operators: operator 'reader' (") + kind +
                              "): the input 'ids' lets in ids from 0 to 10, but there are 10 "));
    CHECK(contains(above, "wanted a limit of at most 10"));
    CHECK(contains(refusal_of_ids("", "", reader), "the input 'ids' has no limit"));
  }
}

TEST_CASE("ids are followed through what only moves or bounds them") {
  const std::string reader = R"("kind": "pick", "inputs": ["x", "y"])";
  const auto through = [&](const std::string& how) {
    return refusal_of_ids(R"(, "limit": 11)", ", " + how, reader);
  };
  for (const char* how : {R"({"name": "a", "kind": "reshape", "inputs": ["ids"], "layer": 0,
           "attributes": {"shape": [2, 3]}},
          {"name": "b", "kind": "transpose", "inputs": ["a"], "layer": 0,
           "attributes": {"permutation": [1, 0]}},
          {"name": "y", "kind": "reshape", "inputs": ["b"], "layer": 0, "attributes": {"shape": [6]}})",
                          R"({"name": "a", "kind": "split", "inputs": ["ids"], "layer": 0,
           "attributes": {"dim": 0, "extents": [2, 4]}},
          {"name": "b", "kind": "pad", "inputs": ["a:1"], "layer": 0,
           "attributes": {"dim": 0, "before": 1, "after": 0}},
          {"name": "c", "kind": "slice", "inputs": ["a"], "layer": 0,
           "attributes": {"dim": 0, "start": 0, "stop": 1}},
          {"name": "y", "kind": "concat", "inputs": ["b", "c"], "layer": 0,
           "attributes": {"dim": 0, "extents": [5, 1]}})",
                          R"({"name": "y", "kind": "cast", "inputs": ["ids"], "layer": 0,
           "attributes": {"dtype": "i64"}})"})
    CHECK(contains(through(how), "the input 'ids' lets in ids from 0 to 10"));
  // Ten at most from here on; whatever else is computed is for the kernel to see.
  CHECK(through(R"({"name": "y", "kind": "clamp", "inputs": ["ids"], "layer": 0,
                    "attributes": {"max": 9.0}})") == "accepted");
  CHECK(through(R"({"name": "y", "kind": "add", "inputs": ["ids", "ids"], "layer": 0})") ==
        "accepted");
  CHECK(contains(through(R"({"name": "y", "kind": "constant", "layer": 0,
                             "attributes": {"shape": [6], "dtype": "i32", "value": 10.0}})"),
                 "(pick): 'y' lets in ids from 10 to 10"));
}

TEST_CASE("a label that an input lets in beside the classes is the one that the loss ignores") {
  const auto loss = [](const std::string& attributes) {
    return R"("kind": "cross_entropy", "inputs": ["x", "row", "row", "row", "ids"])" + attributes;
  };
  const std::string input = R"(, "limit": 10, "ignore_index": -1)";
  CHECK(refusal_of_ids(input, "", loss(R"(, "attributes": {"ignore_index": -1})")) == "accepted");
  CHECK(
      contains(refusal_of_ids(input, "", loss("")),
               "(cross_entropy): the input 'ids' has the ignore_index -1, which is none of the 10 "
               "classes, and the operator ignores -100"));
  CHECK(contains(
      refusal_of_ids(input, "", R"("kind": "embedding", "inputs": ["ids", "table"])"),
      "(embedding): the input 'ids' has the ignore_index -1, which is none of the 10 rows of the "
      "table, and the operator ignores none"));
  // A look-up of no place is a zero, and says so with its ignore_index.
  CHECK(refusal_of_ids(input, "", R"("kind": "one_hot", "inputs": ["ids"],
                                     "attributes": {"extent": 10, "dtype": "f32"})") == "accepted");
  CHECK(
      contains(refusal_of_ids(R"(, "limit": 0)", "", loss("")), "'limit' is 0, wanted 1 or more"));
}

TEST_CASE("a key or an attribute that nobody knows is refused wherever it stands") {
  const std::vector<std::string> texts = with_unknown_key(to_json_text(example()));
  CHECK(texts.size() > 15);
  for (const std::string& text : texts) {
    try {
      read(text);
      FAIL_CHECK("accepted: " << text);
    } catch (const Error& error) {
      CHECK_MESSAGE(std::string(error.what()).find("'no_such_key'") != std::string::npos,
                    std::string(error.what()));
    }
  }
}

TEST_CASE("layers have no gaps, and a graph has operators") {
  const auto refusal = [](std::string_view text) {
    try {
      read(text);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  CHECK(refusal(R"({"schema": "sextant.graph/1", "name": "n", "operators": []})") ==
        "graph.json: operators: a graph has operators");
  CHECK(refusal(R"({"schema": "sextant.graph/1", "name": "n", "operators": [
      {"name": "x", "kind": "input", "layer": 1, "attributes": {"shape": [2], "dtype": "f32"}}]})") ==
        "graph.json: operators: layers are 0 to 1, but no operator has layer 0");
}

}  // namespace
}  // namespace sextant::logical_graph_json_test
