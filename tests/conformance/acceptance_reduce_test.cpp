// Acceptance cases about reductions of split tensors: means (G02). The case and random tensors like
// it run by every row of every operator.
#include "core/operator.h"
#include "core/operators/sources.h"
#include "tests/conformance/operator_runner.h"
#include "tests/conformance/pieces.h"
#include "tests/conformance/sharding.h"

#include <doctest/doctest.h>

#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace sextant {
namespace {

using Values = std::vector<double>;
using Integers = std::vector<std::int64_t>;

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

Values numbers(std::int64_t count) {
  Values values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 0.0);
  return values;
}

// One operator with attributes on one tensor, by every row.
Values by_every_row(const std::string& kind, const TensorType& type, const Values& values,
                    const Attributes& attributes) {
  LogicalGraph graph(builtin_operators());
  const TensorId x = add_input(graph, "x", 0, type);
  const TensorId y = add_op(graph, kind, {x}, attributes);
  return check_all_splits(graph, {{x, values}}).at(y);
}

TEST_CASE("G02: the mean of 0 to 11 is 5.5 and of one row 1.5, whatever is split") {
  const Attributes all = {{"dims", Integers{0, 1}}};
  CHECK(by_every_row("reduce_mean", {{3, 4}, DType::kF64}, numbers(12), all) == Values{5.5});
  CHECK(by_every_row("reduce_mean", {{1, 4}, DType::kF64}, numbers(4), all) == Values{1.5});
}

TEST_CASE("reductions of tensors of any size do not depend on the split") {
  Random random("sizes");
  for (const std::string kind : {"reduce_sum", "reduce_mean", "reduce_max", "reduce_min"}) {
    for (int instance = 0; instance < 12; ++instance) {
      const Shape shape{random.integer(0, 5), random.integer(1, 6), random.integer(1, 3)};
      Integers dims;
      for (const std::int64_t dim : {0, 1, 2})
        if (random.integer(0, 1) == 1) dims.push_back(dim);
      // A mean of nothing is NaN, which `collect` also uses for elements that nobody holds.
      if (kind == "reduce_mean" && shape[0] == 0) continue;
      Values values(static_cast<std::size_t>(shape.elements()));
      for (double& value : values) value = static_cast<double>(random.integer(-9, 9));
      by_every_row(kind, {shape, DType::kF64}, values,
                   {{"dims", dims}, {"keep_dims", random.integer(0, 1) == 1}});
    }
  }
}

}  // namespace
}  // namespace sextant
