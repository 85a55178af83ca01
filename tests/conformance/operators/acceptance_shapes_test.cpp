// Acceptance cases about tensors that are cut, joined and reshaped while they are split: G04, G07,
// G08, G09, G18. Each case, and random tensors like it, runs by every product of rows over 2, 3, 4
// and 2x2 parts; what the global run must give is said element by element.
#include "compiler/training/autodiff.h"
#include "core/graphs/operator.h"
#include "core/operators/movement/rearrange.h"
#include "core/operators/movement/sources.h"
#include "core/tensors/placement.h"
#include "sbp/inference.h"
#include "tests/conformance/operators/operator_runner.h"
#include "tests/conformance/operators/pieces.h"
#include "tests/conformance/operators/sharding.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace sextant::acceptance_shapes_test {
namespace {

using Values = std::vector<double>;
using Integers = std::vector<std::int64_t>;

Sbp s(std::size_t dim) { return Sbp::split(dim); }

Values numbers(std::int64_t count, double first = 0) {
  Values values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), first);
  return values;
}

// A graph under construction, with the values of its inputs.
struct Graph {
  LogicalGraph graph{builtin_operators()};
  TensorValues given;
  Rearranger build{graph, 0};

  TensorId input(const std::string& name, Shape shape, Values values, DType dtype = DType::kF64) {
    const TensorId id = add_input(graph, name, 0, {std::move(shape), dtype});
    given[id] = std::move(values);
    return id;
  }
  TensorId parameter(const std::string& name, Shape shape, Values values) {
    const TensorId id = add_parameter(graph, name, 0, {std::move(shape), DType::kF64}, {});
    given[id] = std::move(values);
    return id;
  }
  TensorId op(std::string kind, std::vector<TensorId> inputs, Attributes attributes = {}) {
    return add_op(graph, std::move(kind), std::move(inputs), std::move(attributes));
  }
  // The loss sum(c u): its gradient at c is u.
  void set_upstream(TensorId c, Values u) {
    const Shape shape = graph.tensor(c).type.shape;
    const TensorId product = op("mul", {c, input("upstream", shape, std::move(u))});
    Integers dims(shape.rank());
    std::iota(dims.begin(), dims.end(), 0);
    const TensorId loss = op("reduce_sum", {product}, {{"dims", dims}});
    graph.set_loss(
        loss,
        op("constant", {}, {{"shape", Integers{}}, {"dtype", std::string("f64")}, {"value", 1.0}}));
  }
  const Shape& shape(TensorId id) const { return graph.tensor(id).type.shape; }
  TensorValues check(int mixtures = 10) const { return check_all_splits(graph, given, mixtures); }
};

bool is_claimed(const std::string& kind, const TensorType& x, const Attributes& attributes,
                const Sbp& in, const Sbp& out, std::int64_t parts) {
  const OperatorDef& def = builtin_operators().get(kind);
  const std::vector<TensorType> inputs = {x}, outputs = def.infer(inputs, attributes);
  for (const SbpSignature& row : def.signatures(inputs, outputs, attributes)) {
    const std::vector<const SbpSignature*> one = {&row};
    if (row.inputs[0] == in && row.outputs[0] == out && fits(one, Hierarchy{parts})) return true;
  }
  return false;
}

// Calls `visit(index, flat)` for every element, row-major.
void for_each_index(const Shape& shape,
                    const std::function<void(const Integers&, std::size_t)>& visit) {
  Integers index(shape.rank(), 0);
  for (std::int64_t flat = 0; flat < shape.elements(); ++flat) {
    visit(index, static_cast<std::size_t>(flat));
    for (std::size_t dim = shape.rank(); dim-- > 0;) {
      if (++index[dim] < shape[dim]) break;
      index[dim] = 0;
    }
  }
}

double at(const Shape& shape, const Values& values, const Integers& index) {
  std::int64_t flat = 0;
  for (std::size_t dim = 0; dim < shape.rank(); ++dim) flat = flat * shape[dim] + index[dim];
  return values[static_cast<std::size_t>(flat)];
}

Shape random_shape(Random& random, std::int64_t min_rank, std::int64_t least) {
  Integers extents;
  for (std::int64_t rank = random.integer(min_rank, 3); rank > 0; --rank)
    extents.push_back(random.integer(least, 6));
  return Shape(std::move(extents));
}

Values random_values(const Shape& shape, Random& random) {
  Values values(static_cast<std::size_t>(shape.elements()));
  for (double& value : values) value = static_cast<double>(random.integer(-9, 9));
  return values;
}

std::int64_t rank_of(const Shape& shape) { return static_cast<std::int64_t>(shape.rank()); }

Integers without(Integers index, std::int64_t dim) {
  index.erase(index.begin() + dim);
  return index;
}
Integers with(Integers index, std::int64_t dim, std::int64_t value) {
  index.insert(index.begin() + dim, value);
  return index;
}

// G04

TEST_CASE("G04: an index into a dim that does not divide gives 20 to 39 on every layout") {
  for (const std::int64_t index : {1, -2}) {
    Graph g;
    const TensorId x = g.input("x", {3, 4, 5}, numbers(60));
    const TensorId y = g.build.select("y", x, 0, index);
    CHECK(g.shape(y) == Shape{4, 5});
    CHECK(g.check().at(y) == numbers(20, 20));
  }
  const Attributes second = {
      {"dim", std::int64_t{0}}, {"start", std::int64_t{1}}, {"stop", std::int64_t{2}}};
  const TensorType x{{3, 4, 5}, DType::kF64};
  // Ranks hold 2 and 1 of the 3: the first has what is wanted.
  CHECK(is_claimed("slice", x, second, s(0), Sbp::partial(), 2));
  CHECK(!is_claimed("slice", x, second, s(0), s(0), 2));
  const Values part = numbers(20, 20);
  const Piece whole_x = whole(x, numbers(60));
  Random random("G04");
  const std::vector<Piece> shards = distribute(whole_x, {s(0)}, {2}, random);
  for (std::size_t rank : {0, 1}) {
    std::vector<Piece> y = {blank({{1, 4, 5}, DType::kF64})};
    run_operator("slice", second, {shards[rank]}, y);
    CHECK(y[0].values == (rank == 0 ? part : Values(20, 0.0)));
  }
}

TEST_CASE("indices and slices of tensors of any size do not depend on the split") {
  Random random("G04 kind");
  for (int instance = 0; instance < 30; ++instance) {
    Graph g;
    const Shape shape = random_shape(random, 1, 1);
    const std::int64_t dim = random.integer(0, rank_of(shape) - 1);
    const std::int64_t extent = shape[static_cast<std::size_t>(dim)];
    const std::int64_t start = random.integer(0, extent - 1);
    const std::int64_t stop = random.integer(start, extent);
    const TensorId x = g.input("x", shape, random_values(shape, random));
    const TensorId one = g.build.select("one", x, dim - rank_of(shape), start - extent);
    const TensorId some = g.build.slice("some", x, dim, start, stop);
    const TensorValues values = g.check();
    for_each_index(g.shape(one), [&](const Integers& index, std::size_t flat) {
      CHECK(values.at(one)[flat] == at(shape, values.at(x), with(index, dim, start)));
    });
    for_each_index(g.shape(some), [&](Integers index, std::size_t flat) {
      index[static_cast<std::size_t>(dim)] += start;
      CHECK(values.at(some)[flat] == at(shape, values.at(x), index));
    });
  }
}

// G07, G08

TEST_CASE("G07: splitting and merging dims in one reshape keeps the order of the elements") {
  Graph g;
  const TensorId x = g.input("x", {4, 4, 4}, numbers(64));
  const TensorId y = g.build.reshape("y", x, {8, -1});
  CHECK(g.shape(y) == Shape{8, 8});
  const Values values = g.check().at(y);
  for (std::size_t r = 0; r < 8; ++r)
    for (std::size_t c = 0; c < 8; ++c)
      CHECK(values[8 * r + c] == 8.0 * static_cast<double>(r) + static_cast<double>(c));
  // Under S(1) rank 0 holds rows 0, 2, 4, 6 of y: no split of y at all.
  Random random("G07");
  const Piece first =
      distribute(whole({{4, 4, 4}, DType::kF64}, numbers(64)), {s(1)}, {2}, random)[0];
  Values rows;
  for (const std::size_t r : {0, 2, 4, 6})
    rows.insert(rows.end(), values.begin() + static_cast<std::ptrdiff_t>(8 * r),
                values.begin() + static_cast<std::ptrdiff_t>(8 * r + 8));
  CHECK(first.values == rows);
  const TensorType type{{4, 4, 4}, DType::kF64};
  const Attributes to_8x8 = {{"shape", Integers{8, 8}}};
  for (const std::int64_t parts : {2, 4}) {
    CHECK(is_claimed("reshape", type, to_8x8, s(0), s(0), parts));
    for (const std::size_t out : {0, 1})
      CHECK(!is_claimed("reshape", type, to_8x8, s(1), s(out), parts));
  }
}

TEST_CASE("G08: flattening a dim that does not divide gives 0 to 1535 and keeps no uneven split") {
  Graph g;
  const TensorId x = g.input("x", {6, 256}, numbers(1536));
  const TensorId y = g.build.flatten("y", x, 0, -1);
  CHECK(g.shape(y) == Shape{1536});
  CHECK(g.check().at(y) == numbers(1536));
  const TensorType type{{6, 256}, DType::kF64};
  const Attributes flat = {{"shape", Integers{1536}}};
  // Rows 2, 2, 1, 1 are 512, 512, 256, 256 elements, where the split of 1536 wants 384 each.
  CHECK(!is_claimed("reshape", type, flat, s(0), s(0), 4));
  for (const std::int64_t parts : {2, 3, 6})
    CHECK(is_claimed("reshape", type, flat, s(0), s(0), parts));
}

// The divisors of n in a random order: a shape of n elements.
Integers random_factors(std::int64_t elements, Random& random) {
  Integers extents;
  while (elements > 1 && extents.size() < 3) {
    std::int64_t factor = random.integer(1, elements);
    while (elements % factor != 0) --factor;
    extents.push_back(factor);
    elements /= factor;
  }
  extents.push_back(elements);
  return extents;
}

TEST_CASE("any reshape of any tensor keeps the order of its elements, however it is split") {
  Random random("G07 kind");
  for (int instance = 0; instance < 60; ++instance) {
    Graph g;
    const std::int64_t elements = random.integer(1, 36);
    const Integers from = random_factors(elements, random), to = random_factors(elements, random);
    const TensorId x = g.input("x", Shape(from), numbers(elements));
    const TensorId y = g.build.reshape("y", x, to);
    CAPTURE(to_string(Shape(from)));
    CAPTURE(to_string(Shape(to)));
    CHECK(g.check().at(y) == numbers(elements));
  }
}

// G09

TEST_CASE("G09: a sum that stands for a concatenation runs over the axis that splits alone") {
  const Piece four = whole({{4}, DType::kF64}, Values(4, 1.0));
  const Piece twelve = whole({{12}, DType::kF64}, Values(12, 1.0));
  const Attributes joined = {{"dim", std::int64_t{0}}, {"extents", Integers{4, 12}}};
  const NdSbp split{s(0), Sbp::broadcast()};
  const auto run = [&](const NdSbp& out) {
    Random random("G09");
    return run_sharded("concat", joined, {four, twelve}, {blank({{16}, DType::kF64})},
                       {.inputs = {split, split}, .outputs = {out}}, {4, 2}, random)[0]
        .values;
  };
  CHECK(run({Sbp::partial(), Sbp::broadcast()}) == Values(16, 1.0));
  CHECK(run({Sbp::partial(), Sbp::partial()}) == Values(16, 2.0));  // the fault, and no row
  const OperatorDef& def = builtin_operators().get("concat");
  const std::vector<TensorType> in = {four.global, twelve.global}, out = {{{16}, DType::kF64}};
  const std::vector<OpWords> products = nd_signatures(def, in, out, joined, Hierarchy{4, 2});
  const auto has = [&](const NdSbp& words) {
    return std::find(products.begin(), products.end(), OpWords{{split, split}, {words}}) !=
           products.end();
  };
  CHECK(has({Sbp::partial(), Sbp::broadcast()}));
  CHECK(!has({Sbp::partial(), Sbp::partial()}));
}

TEST_CASE("G09: inference joins split parts without a reduction over the axis that replicates") {
  Graph g;
  const TensorId a = g.input("a", {4}, Values(4, 1.0)), b = g.input("b", {12}, Values(12, 1.0));
  const TensorId y = g.build.concat("y", {a, b}, -1);
  CHECK(g.check().at(y) == Values(16, 1.0));
  WordConstraints constraints;
  constraints.tensors = {{a, parse_nd_sbp("(S(0), B)")}, {b, parse_nd_sbp("(S(0), B)")}};
  const Placement mesh = consecutive_placement({{"x", 4}, {"y", 2}});
  const WordAssignment words = infer_words(g.graph, {mesh}, {0}, constraints);
  CHECK(to_string(words.of(*g.graph.find_op("y")).outputs[0]) == "(P(sum), B)");
}

TEST_CASE("joined and parted tensors of any size do not depend on the split") {
  Random random("G09 kind");
  for (int instance = 0; instance < 30; ++instance) {
    Graph g;
    const Shape shape = random_shape(random, 1, 1);
    const std::int64_t dim = random.integer(0, rank_of(shape) - 1);
    const auto d = static_cast<std::size_t>(dim);
    std::vector<TensorId> parts;
    Integers extents, start_of, part_of;
    for (std::int64_t part = random.integer(1, 3); part > 0; --part) {
      extents.push_back(random.integer(0, 5));
      for (std::int64_t i = 0; i < extents.back(); ++i) {
        part_of.push_back(static_cast<std::int64_t>(parts.size()));
        start_of.push_back(i);
      }
      const Shape part_shape = shape.with_extent(d, extents.back());
      const std::string name = "in" + std::to_string(parts.size());
      parts.push_back(g.input(name, part_shape, random_values(part_shape, random)));
    }
    const TensorId joined = g.build.concat("joined", parts, dim);
    const std::vector<TensorId> parted =
        g.build.split("parted", joined, dim - rank_of(shape), extents);
    const TensorValues values = g.check();
    for_each_index(g.shape(joined), [&](Integers index, std::size_t flat) {
      const auto along = static_cast<std::size_t>(index[d]);
      const TensorId part = parts[static_cast<std::size_t>(part_of[along])];
      index[d] = start_of[along];
      CHECK(values.at(joined)[flat] == at(g.shape(part), values.at(part), index));
    });
    for (std::size_t i = 0; i < parts.size(); ++i)
      CHECK(values.at(parted[i]) == values.at(parts[i]));
  }
}

// G18

TensorId gradient_of(const std::vector<ParameterGradient>& gradients, const LogicalGraph& graph,
                     TensorId parameter) {
  for (const ParameterGradient& gradient : gradients)
    if (graph.output(gradient.parameter) == parameter) return gradient.gradient;
  FAIL("no gradient");
  return {};
}

TEST_CASE("G18: stacking renumbers the split, and each part gets its own gradient back") {
  Graph g;
  const TensorId a = g.parameter("a", {2, 2}, {1, 2, 3, 4});
  const TensorId b = g.parameter("b", {2, 2}, {5, 6, 7, 8});
  const TensorId c = g.build.stack("c", {a, b}, 0);
  CHECK(g.shape(c) == Shape{2, 2, 2});
  WordConstraints constraints;
  constraints.tensors = {{a, {s(1)}}, {b, {s(1)}}};
  const WordAssignment words =
      infer_words(g.graph, {consecutive_placement({{"x", 2}})}, {0}, constraints);
  CHECK(words.of(*g.graph.find_op("c")).outputs[0] == NdSbp{s(2)});
  g.set_upstream(c, numbers(8));
  const std::vector<ParameterGradient> gradients = append_gradients(g.graph);
  const TensorValues values = g.check();
  CHECK(values.at(c) == numbers(8, 1));
  CHECK(values.at(gradient_of(gradients, g.graph, a)) == Values{0, 1, 2, 3});
  CHECK(values.at(gradient_of(gradients, g.graph, b)) == Values{4, 5, 6, 7});
}

TEST_CASE("stacked and unbound tensors and their gradients do not depend on the split") {
  Random random("G18 kind");
  for (int instance = 0; instance < 15; ++instance) {
    Graph g;
    const Shape shape = random_shape(random, 0, 1);
    const std::int64_t dim = random.integer(0, rank_of(shape));
    std::vector<TensorId> parts;
    for (std::int64_t part = random.integer(1, 3); part > 0; --part) {
      const std::string name = "in" + std::to_string(parts.size());
      parts.push_back(g.parameter(name, shape, random_values(shape, random)));
    }
    const TensorId stacked = g.build.stack("stacked", parts, dim - rank_of(shape) - 1);
    const std::vector<TensorId> unbound = g.build.unbind("unbound", stacked, dim);
    REQUIRE(unbound.size() == parts.size());
    // The last part is read twice, so that parts differ in their gradients; one may not be read.
    TensorId sum = g.op("add", {unbound.front(), unbound.back()});
    const Values upstream = random_values(shape, random);
    g.set_upstream(g.op("add", {sum, g.build.select("last", stacked, dim, -1)}), upstream);
    const std::vector<ParameterGradient> gradients = append_gradients(g.graph);
    const TensorValues values = g.check(5);
    for_each_index(g.shape(stacked), [&](const Integers& index, std::size_t flat) {
      const TensorId part = parts[static_cast<std::size_t>(index[static_cast<std::size_t>(dim)])];
      CHECK(values.at(stacked)[flat] == at(shape, values.at(part), without(index, dim)));
    });
    for (std::size_t i = 0; i < parts.size(); ++i) {
      CHECK(values.at(unbound[i]) == values.at(parts[i]));
      const double uses = (i == 0 ? 1.0 : 0.0) + (i + 1 == parts.size() ? 2.0 : 0.0);
      Values wanted = upstream;
      for (double& value : wanted) value *= uses;
      CHECK(values.at(gradient_of(gradients, g.graph, parts[i])) == wanted);
    }
  }
}

TEST_CASE("unsqueeze, squeeze and transpose of any tensor do not depend on the split") {
  Random random("insertion");
  for (int instance = 0; instance < 20; ++instance) {
    Graph g;
    const Shape shape = random_shape(random, 1, 1);
    const TensorId x = g.input("x", shape, random_values(shape, random));
    const std::int64_t dim = random.integer(-rank_of(shape) - 1, rank_of(shape));
    const TensorId longer = g.build.unsqueeze("longer", x, dim);
    const TensorId back = g.build.squeeze("back", longer, dim);
    Integers permutation(shape.rank());
    std::iota(permutation.begin(), permutation.end(), 0);
    for (std::size_t i = permutation.size(); i-- > 1;)
      std::swap(
          permutation[i],
          permutation[static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(i)))]);
    const TensorId turned = g.build.transpose("turned", x, permutation);
    const TensorValues values = g.check();
    CHECK(g.shape(longer).rank() == shape.rank() + 1);
    CHECK(values.at(longer) == values.at(x));
    CHECK(g.shape(back) == shape);
    CHECK(values.at(back) == values.at(x));
    for_each_index(g.shape(turned), [&](const Integers& index, std::size_t flat) {
      Integers from(index.size());
      for (std::size_t i = 0; i < index.size(); ++i)
        from[static_cast<std::size_t>(permutation[i])] = index[i];
      CHECK(values.at(turned)[flat] == at(shape, values.at(x), from));
    });
  }
}

// Look-ups

// Index lists that also name what is not there.
Values random_indices(const Shape& shape, std::int64_t extent, Random& random) {
  Values indices(static_cast<std::size_t>(shape.elements()));
  for (double& index : indices) index = static_cast<double>(random.integer(-2, extent + 1));
  return indices;
}

TEST_CASE(
    "look-ups in tensors of any size do not depend on the split, indices out of range are 0") {
  Random random("look-ups");
  for (int instance = 0; instance < 25; ++instance) {
    Graph g;
    const Shape shape = random_shape(random, 1, 1);
    const std::int64_t dim = random.integer(0, rank_of(shape) - 1);
    const auto d = static_cast<std::size_t>(dim);
    const Shape list = random_shape(random, 0, 0);
    const Shape beside = shape.with_extent(d, random.integer(0, 4));
    const TensorId x = g.parameter("x", shape, random_values(shape, random));
    const TensorId i = g.input("i", list, random_indices(list, shape[d], random), DType::kI32);
    const TensorId j = g.input("j", beside, random_indices(beside, shape[d], random), DType::kI64);
    const TensorId gathered = g.build.gather("gathered", x, i, dim - rank_of(shape));
    const TensorId taken = g.build.take_along_dim("taken", x, j, dim);
    const TensorValues values = g.check();
    const auto look_up = [&](Integers index, double where) {
      if (where < 0 || where >= static_cast<double>(shape[d])) return 0.0;
      index[d] = static_cast<std::int64_t>(where);
      return at(shape, values.at(x), index);
    };
    for_each_index(g.shape(gathered), [&](const Integers& index, std::size_t flat) {
      const auto first = index.begin() + dim, last = first + rank_of(list);
      Integers outside(index.begin(), first);
      outside.push_back(0);
      outside.insert(outside.end(), last, index.end());
      CHECK(values.at(gathered)[flat] ==
            look_up(outside, at(list, values.at(i), Integers(first, last))));
    });
    for_each_index(beside, [&](const Integers& index, std::size_t flat) {
      CHECK(values.at(taken)[flat] == look_up(index, values.at(j)[flat]));
    });
  }
}

TEST_CASE("an index that is looked up twice gets both gradients, one that is not there none") {
  Graph g;
  const TensorId x = g.parameter("x", {3, 2}, numbers(6));
  const TensorId i = g.input("i", {4}, {2, -1, 2, 3}, DType::kI64);
  g.set_upstream(g.build.gather("y", x, i, 0), {1, 2, 30, 40, 5, 6, 70, 80});
  const std::vector<ParameterGradient> gradients = append_gradients(g.graph);
  CHECK(g.check().at(gradients[0].gradient) == Values{0, 0, 0, 0, 6, 8});
}

}  // namespace
}  // namespace sextant::acceptance_shapes_test
