// A point per words of the two operands; its value is what the rules make of them.
#include "experiments/signatures/signatures.h"

#include "core/graphs/operator.h"
#include "core/tensors/sbp.h"
#include "sbp/inference.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace sextant::signatures {

namespace {

constexpr const char* kNone = "none";
constexpr std::int64_t kExtent = 240;  // every dim; what axes have divides it

struct Row {
  const char *x, *w, *y;
};
constexpr std::array<Row, 6> kTable1 = {{{"S(0)", "B", "S(0)"},
                                         {"B", "S(1)", "S(1)"},
                                         {"S(1)", "S(0)", "P(sum)"},
                                         {"P(sum)", "B", "P(sum)"},
                                         {"B", "P(sum)", "P(sum)"},
                                         {"B", "B", "B"}}};
constexpr std::array<Row, 2> kTable3 = {
    {{"(S(0), B)", "(B, S(1))", "(S(0), S(1))"}, {"(S(0), S(1))", "(B, S(0))", "(S(0), P(sum))"}}};
constexpr std::array<const char*, 4> kWords = {"S(0)", "S(1)", "B", "P(sum)"};

// The mesh: one axis, or two.
std::vector<std::int64_t> mesh_of(std::int64_t axes) {
  return axes == 1 ? std::vector<std::int64_t>{4} : std::vector<std::int64_t>{2, 4};
}

std::string name_of(const std::string& x, const std::string& w) {
  return fmt::format("X {}, W {}", x, w);
}

SweepPoint point_of(std::int64_t table, const std::string& x, const std::string& w,
                    const std::string& published) {
  return {.name = name_of(x, w),
          .way = ResultWay::kCounted,
          .parameters = {{"table", static_cast<double>(table)}, {"x", x}, {"w", w}},
          .reference = {{"y", published}}};
}

// What the table has for two words of one axis: a pair that it does not list is no signature.
std::string published_of(const std::string& x, const std::string& w) {
  const auto* const row = std::find_if(kTable1.begin(), kTable1.end(),
                                       [&](const Row& one) { return one.x == x && one.w == w; });
  return row == kTable1.end() ? kNone : row->y;
}

std::vector<SweepPoint> points(bool quick) {
  std::vector<SweepPoint> points;
  for (const char* x : kWords)
    for (const char* w : kWords) {
      const std::string published = published_of(x, w);
      if (!quick || published != kNone) points.push_back(point_of(1, x, w, published));
    }
  for (const Row& row : kTable3) points.push_back(point_of(3, row.x, row.w, row.y));
  return points;
}

// Every signature of Y [n, n] = X [n, n] W [n, n] on the mesh.
std::vector<OpWords> product_signatures(std::int64_t axes) {
  const OperatorDef& product = builtin_operators().get("matmul");
  const TensorType square = {.shape = Shape{kExtent, kExtent}, .dtype = DType::kF32};
  const std::vector<TensorType> operands = {square, square};
  const Attributes none;
  return nd_signatures(product, operands, product.infer(operands, none), none, mesh_of(axes));
}

PointResult evaluate(const SweepPoint& point) {
  const NdSbp x = parse_nd_sbp(word_of(point.parameters, "x"));
  const NdSbp w = parse_nd_sbp(word_of(point.parameters, "w"));
  const std::vector<OpWords> all = product_signatures(static_cast<std::int64_t>(x.size()));
  std::string y = kNone;
  for (const OpWords& words : all)
    if (words.inputs == std::vector<NdSbp>{x, w}) y = to_string(words.outputs.front());
  return {.values = {{"y", y}, {"signatures", static_cast<double>(all.size())}}};
}

// That every pair of words of a table has what is published for it.
ShapeClaim equal_to(const ResultRows& rows, double table, std::string statement) {
  ShapeClaim shape = {std::move(statement), std::nullopt, "no row"};
  std::size_t equal = 0, known = 0;
  std::string other;
  for (const SweepRow& row : rows.all()) {
    if (number_of(row.point.parameters, "table") != table || row.error) continue;
    const std::string own = word_of(row.result.values, "y");
    const std::string published = word_of(row.point.reference, "y");
    ++known;
    if (own == published)
      ++equal;
    else if (other.empty())
      other = fmt::format("; {}: Y {}, published {}", row.point.name, own, published);
  }
  if (known == 0) return shape;
  shape.holds = equal == known;
  shape.detail = fmt::format("{} of {} pairs of words{}", equal, known, other);
  return shape;
}

std::vector<ShapeClaim> shapes(const ResultRows& rows) {
  return {equal_to(rows, 1, "on one axis a product has the signatures of table 1 and no others"),
          equal_to(rows, 3, "on two axes it has those of table 3")};
}

}  // namespace

Experiment experiment() {
  return {.name = "signatures",
          .question =
              "Which words may the operands of a matrix product have, and which has its result "
              "then (arXiv 2110.15032, tables 1 and 3)?",
          .expectation = "the paper's rows on one axis, and products of them, axis by axis, on two",
          .baseline = "the table, typed in: it is the reference and no value",
          .columns = {{"table", "table", ""},
                      {"x", "X", ""},
                      {"w", "W", ""},
                      {"y", "Y", "", "y"},
                      {"signatures", "signatures on the mesh", ""}},
          .points = points,
          .evaluate = evaluate,
          .shapes = shapes};
}

}  // namespace sextant::signatures
