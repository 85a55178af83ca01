// Tables 1, 2 and 3 of arXiv 2110.15032 from our own rules: what is computed is what was published,
// and a row that differs is seen.
#include "experiments/boxing_volumes/boxing_volumes.h"
#include "experiments/signatures/signatures.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace sextant::paper_tables_test {
namespace {

std::vector<SweepRow> rows_of(const Experiment& experiment, bool quick) {
  std::vector<SweepRow> rows;
  for (const SweepPoint& point : experiment.points(quick)) {
    SweepRow row;
    row.experiment = experiment.name;
    row.point = point;
    row.result = experiment.evaluate(point);
    rows.push_back(std::move(row));
  }
  return rows;
}

void set(SweepRow& row, std::string_view key, const FieldValue& value) {
  const auto field = std::find_if(row.result.values.begin(), row.result.values.end(),
                                  [&](const auto& one) { return one.first == key; });
  REQUIRE(field != row.result.values.end());
  field->second = value;
}

std::vector<bool> verdicts(const Experiment& experiment, const std::vector<SweepRow>& rows) {
  std::vector<bool> verdicts;
  for (const ShapeClaim& shape : experiment.shapes(ResultRows(rows))) {
    REQUIRE(shape.holds.has_value());
    verdicts.push_back(*shape.holds);
  }
  return verdicts;
}

TEST_CASE("the rules of a product are tables 1 and 3, and another word would be seen") {
  const Experiment tables = signatures::experiment();
  std::vector<SweepRow> rows = rows_of(tables, false);
  CHECK(rows.size() == 16 + 2);
  CHECK(verdicts(tables, rows) == std::vector{true, true});
  const auto of = [&](const std::string& name) {
    return std::find_if(rows.begin(), rows.end(),
                        [&](const SweepRow& row) { return row.point.name == name; });
  };
  CHECK(word_of(of("X S(0), W S(0)")->result.values, "y") == "none");
  // Rows on one axis: the table's six.
  CHECK(number_of(rows.front().result.values, "signatures") == 6.0);
  set(*of("X S(1), W S(0)"), "y", std::string("S(0)"));
  CHECK(verdicts(tables, rows) == std::vector{false, true});
  set(rows.back(), "y", std::string("none"));
  CHECK(verdicts(tables, rows) == std::vector{false, false});
}

TEST_CASE("planned bytes, and those that ranks count, are the formulas of table 2") {
  const Experiment volumes = boxing_volumes::experiment();
  std::vector<SweepRow> rows = rows_of(volumes, true);
  CHECK(verdicts(volumes, rows) == std::vector{true, true});
  set(rows.front(), "counted_bytes", 1.0);
  CHECK(verdicts(volumes, rows) == std::vector{true, false});
}

}  // namespace
}  // namespace sextant::paper_tables_test
