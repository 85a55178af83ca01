// An experiment as a value: one question, its points, and what their rows say about it.
#pragma once

#include "experiments/sweeps/row.h"
#include "experiments/sweeps/sweep.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace sextant {

// A number or word of every row that tables show.
struct Column {
  std::string key;    // of a parameter or value
  std::string title;  // "samples/s"
  std::string unit;   // "s", "B", "" for words and ratios
  // Of the reference that stands beside it; empty: none.
  std::string reference_key = {};
};

// A statement about rows.
struct ShapeClaim {
  std::string statement;      // "tensor parallelism collapses across nodes"
  std::optional<bool> holds;  // nothing: rows are missing
  std::string detail;         // the numbers it rests on, or which rows are missing
};

struct Figure {
  std::string name;  // of a file: "throughput.svg"
  std::string svg;
};

// Rows by the names of their points.
class ResultRows {
 public:
  explicit ResultRows(const std::vector<SweepRow>& rows) : rows_(&rows) {}
  explicit ResultRows(std::vector<SweepRow>&&) = delete;  // it keeps a reference

  const std::vector<SweepRow>& all() const { return *rows_; }
  // Nothing where there is no such row, where it failed, or has no such number.
  std::optional<double> value(const std::string& point, const std::string& key) const;
  std::optional<double> reference(const std::string& point, const std::string& key) const;
  // Whether it has values, or cannot be (its error is infeasible); nothing where it is missing or
  // failed otherwise.
  std::optional<bool> is_feasible(const std::string& point) const;

 private:
  const SweepRow* find(const std::string& point) const;
  const std::vector<SweepRow>* rows_;
};

struct Experiment {
  std::string name;      // "hybrid-gpt"
  std::string question;  // one sentence
  std::string expectation;
  std::string baseline;  // the simplest thing that could win
  std::vector<Column> columns;
  // A few cheap points with `quick`, which are among all.
  std::function<std::vector<SweepPoint>(bool quick)> points;
  EvaluatePoint evaluate;
  std::function<std::vector<ShapeClaim>(const ResultRows&)> shapes;
  std::function<std::vector<Figure>(const ResultRows&)> figures = {};  // empty: none
  // What people are told instead of the table of all rows, which is in table.md; empty: that table.
  std::function<std::string(const ResultRows&)> said = {};
};

}  // namespace sextant
