// Chains of matrix products through inference: U V W with U split by columns and V by rows owes one
// reduction, and pays it once.
#include "core/base/error.h"
#include "core/operators/movement/sources.h"
#include "sbp/inference.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace sextant::matmul_chain_test {
namespace {

const Placement kFour = consecutive_placement({{"x", 4}});

// gelu(U V W) of batches if `batch` is not 0; gelu wants its input whole.
struct Chain {
  Chain(std::int64_t batch, std::int64_t n, std::int64_t q)
      : kind(batch == 0 ? "matmul" : "batch_matmul"), first(batch == 0 ? 0 : 1) {
    const auto shape = [&](std::int64_t rows, std::int64_t columns) {
      return batch == 0 ? Shape{rows, columns} : Shape{batch, rows, columns};
    };
    const TensorId u = source("u", shape(6, 8), Sbp::split(first + 1));
    const TensorId v = source("v", shape(8, n), Sbp::split(first));
    const TensorId w = source("w", shape(n, q), Sbp::broadcast());
    uv = op(kind, "uv", {u, v});
    uvw = op(kind, "uvw", {uv, w});
    op("gelu", "gelu", {uvw}, {{"approximate", std::string("none")}});
  }

  TensorId source(const std::string& name, Shape shape, Sbp word) {
    const TensorId id = add_input(graph, name, 0, {std::move(shape), DType::kF32});
    constraints.tensors[id] = {word};
    return id;
  }
  TensorId op(const std::string& op_kind, const std::string& name, std::vector<TensorId> inputs,
              Attributes attributes = {}) {
    return graph.output(graph.add({.kind = op_kind,
                                   .name = name,
                                   .attributes = std::move(attributes),
                                   .inputs = std::move(inputs),
                                   .outputs = {},
                                   .phase = Phase::kForward,
                                   .layer = 0,
                                   .parameter = std::nullopt}));
  }
  WordAssignment infer() const { return infer_words(graph, {kFour}, {0}, constraints); }
  const OpWords& words(const WordAssignment& assignment, const char* name) const {
    return assignment.of(*graph.find_op(name));
  }

  // Names of the operators in front of which a partial value is reduced.
  std::vector<std::string> reductions(const WordAssignment& assignment) const {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < graph.ops().size(); ++i) {
      const LogicalOp& reader = graph.ops()[i];
      for (std::size_t input = 0; input < reader.inputs.size(); ++input) {
        const LogicalTensor& tensor = graph.tensor(reader.inputs[input]);
        const Sbp made = assignment.of(tensor.producer).outputs[tensor.output_index][0];
        const Sbp wanted = assignment.of(OpId(i)).inputs[input][0];
        if (made.is_partial() && !wanted.is_partial()) names.push_back(reader.name);
      }
    }
    return names;
  }

  std::string kind;
  std::size_t first;  // dim of the rows
  LogicalGraph graph{builtin_operators()};
  WordConstraints constraints;
  TensorId uv, uvw;
};

TEST_CASE("U V W stays partial through the second product and is reduced once, at the end") {
  for (const std::int64_t batch : {0, 3})
    for (const std::int64_t q : {1, 3, 4}) {
      const Chain chain(batch, 5, q);  // the end is the smaller tensor
      const WordAssignment words = chain.infer();
      CHECK(chain.words(words, "uv").outputs[0] == NdSbp{Sbp::partial()});
      CHECK(chain.words(words, "uvw") ==
            OpWords{{{Sbp::partial()}, {Sbp::broadcast()}}, {{Sbp::partial()}}});
      CHECK(chain.reductions(words) == std::vector<std::string>{"gelu"});
    }
}

TEST_CASE("where the end is no smaller the one reduction comes before it") {
  for (const std::int64_t batch : {0, 3})
    for (const std::int64_t q : {5, 6, 20}) {
      const Chain chain(batch, 5, q);
      CHECK(chain.reductions(chain.infer()) == std::vector<std::string>{"uvw"});
    }
}

TEST_CASE("two partial factors are refused with both sides and every candidate") {
  for (const std::int64_t batch : {0, 3}) {
    Chain chain(batch, 6, 6);
    const TensorId square = chain.op(chain.kind, "square", {chain.uv, chain.uvw});
    chain.constraints.inputs = {{{*chain.graph.find_op("square"), 0}, {Sbp::partial()}},
                                {{*chain.graph.find_op("square"), 1}, {Sbp::partial()}}};
    std::string message;
    try {
      chain.infer();
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::kInfeasible);
      message = error.what();
    }
    CHECK(chain.graph.tensor(square).name == "square");
    for (const std::string& part :
         {"operator 'square' (" + chain.kind + ")", std::string("inputs: 'uv' P(sum)"),
          std::string(", 'uvw' "), std::string(", given P(sum)"),
          std::string("[P(sum), B -> P(sum)]"), std::string("[B, P(sum) -> P(sum)]")}) {
      CAPTURE(message);
      CHECK(message.find(part) != std::string::npos);
    }
  }
}

TEST_CASE("batched products split over two axes like single ones") {
  const OperatorDef& def = builtin_operators().get("batch_matmul");
  const std::vector<TensorType> in = {{{4, 8, 8}, DType::kF32}, {{4, 8, 8}, DType::kF32}};
  const std::vector<OpWords> products =
      nd_signatures(def, in, std::vector<TensorType>{{{4, 8, 8}, DType::kF32}}, {},
                    std::vector<std::int64_t>{2, 2});
  const auto has = [&](const char* x, const char* w, const char* y) {
    const OpWords words{{parse_nd_sbp(x), parse_nd_sbp(w)}, {parse_nd_sbp(y)}};
    return std::find(products.begin(), products.end(), words) != products.end();
  };
  CHECK(has("(S(1), B)", "(B, S(2))", "(S(1), S(2))"));
  CHECK(has("(S(1), S(2))", "(B, S(1))", "(S(1), P(sum))"));
  CHECK(has("(S(0), S(2))", "(S(0), S(1))", "(S(0), P(sum))"));
  CHECK(has("(S(0), B)", "(S(0), P(sum))", "(S(0), P(sum))"));
  CHECK(!has("(P(sum), B)", "(P(sum), B)", "(P(sum), B)"));
}

}  // namespace
}  // namespace sextant::matmul_chain_test
