// All that a page says of an experiment: summary.json and results.jsonl of its folder
// (experiments/sweeps/README.md).
#pragma once

#include "cli/pages/origin.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace sextant {

// Numbers and words by name.
struct RowFields {
  std::map<std::string, double> numbers;
  std::map<std::string, std::string> words;

  // Nothing where the row has no such key, or no number under it.
  std::optional<double> number(const std::string& key) const;
};

struct ExperimentRow {
  std::string point;
  OriginKind way = OriginKind::kSimulated;  // or measured, or counted
  std::string key;
  RowFields parameters, values, reference;
  std::string error_code = {}, error_text = {};  // empty: it is finished
  std::optional<double> spread;
  std::string machine, build, commit, seed;

  bool is_failed() const { return !error_code.empty(); }
};

struct ExperimentColumn {
  std::string key, title, unit;
  std::string reference;  // key of what others published; empty: none
};

struct ExperimentShape {
  std::string statement, detail;
  std::optional<bool> holds;  // nothing: cannot be said
};

struct ExperimentView {
  std::string folder;  // as it was named
  std::string name, question, expectation, baseline;
  std::int64_t points = 0;  // of the sweep, when its summary was written
  std::vector<ExperimentColumn> columns;
  std::vector<ExperimentShape> shapes;
  std::vector<std::string> figures;  // files of the folder
  std::vector<ExperimentRow> rows;   // the last of each point and way
  bool is_cut = false;               // the last line of results.jsonl has no end
  std::int64_t others = 0;           // rows of other experiments, left out
  std::string results_hash;

  std::string results_file() const { return folder + "/results.jsonl"; }
};

// Throws Error(kBadInput) with file and line or key for what is missing, of another version or
// cannot be read, for a figure that is no file of the folder, and where there is no row.
ExperimentView experiment_view(const std::string& folder);

}  // namespace sextant
