// Text from rows; nothing here computes but the ratio to a reference.
#include "experiments/sweeps/summary.h"

#include "core/text/json_text.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace sextant {

namespace {

using Json = nlohmann::ordered_json;

std::string header_of(const Column& column) {
  return column.unit.empty() ? column.title : fmt::format("{}, {}", column.title, column.unit);
}

std::string field_text(const SweepRow& row, const std::string& key) {
  const std::string value = word_of(row.result.values, key);
  return value.empty() ? word_of(row.point.parameters, key) : value;
}

// Numbers are compared by their ratio, words by whether they are the same.
std::string comparison_of(const Column& column, const SweepRow& row) {
  const std::string published = word_of(row.point.reference, column.reference_key);
  const std::string own_word = word_of(row.result.values, column.key);
  if (published.empty() || own_word.empty()) return "";
  const auto reference = number_of(row.point.reference, column.reference_key);
  const auto own = number_of(row.result.values, column.key);
  if (!reference || !own) return own_word == published ? "equal" : "differs";
  return *reference != 0 ? fmt::format("{:.2f}", *own / *reference) : "";
}

void append_columns(std::vector<std::string>& cells, const Column& column, const SweepRow& row) {
  cells.push_back(field_text(row, column.key));
  if (column.reference_key.empty()) return;
  cells.push_back(word_of(row.point.reference, column.reference_key));
  cells.push_back(comparison_of(column, row));
}

bool has_reference(const Column& column, const std::vector<SweepRow>& rows) {
  return std::any_of(rows.begin(), rows.end(), [&](const SweepRow& row) {
    return !word_of(row.point.reference, column.reference_key).empty();
  });
}

Json shape_json(const ShapeClaim& shape) {
  return {{"statement", shape.statement},
          {"holds", shape.holds ? Json(*shape.holds) : Json()},
          {"detail", shape.detail}};
}

}  // namespace

std::optional<double> ResultRows::value(const std::string& point, const std::string& key) const {
  const SweepRow* row = find(point);
  return row == nullptr ? std::nullopt : number_of(row->result.values, key);
}

std::optional<double> ResultRows::reference(const std::string& point,
                                            const std::string& key) const {
  const SweepRow* row = find(point);
  return row == nullptr ? std::nullopt : number_of(row->point.reference, key);
}

std::optional<bool> ResultRows::is_feasible(const std::string& point) const {
  const SweepRow* row = find(point);
  if (row == nullptr) return std::nullopt;
  if (!row->error) return true;
  return row->error->is_answer() ? std::optional(false) : std::nullopt;
}

const SweepRow* ResultRows::find(const std::string& point) const {
  const auto found = std::find_if(rows_->begin(), rows_->end(),
                                  [&](const SweepRow& row) { return row.point.name == point; });
  return found == rows_->end() ? nullptr : &*found;
}

std::vector<std::vector<std::string>> table_of(const Experiment& experiment,
                                               const std::vector<SweepRow>& rows) {
  std::vector<Column> columns = experiment.columns;
  for (Column& column : columns)
    if (!column.reference_key.empty() && !has_reference(column, rows)) column.reference_key = "";
  std::vector<std::vector<std::string>> table(1, {"point", "way"});
  for (const Column& column : columns) {
    table.front().push_back(header_of(column));
    if (column.reference_key.empty()) continue;
    table.front().push_back("published");
    table.front().push_back("ratio");
  }
  for (const SweepRow& row : rows) {
    std::vector<std::string> cells = {row.point.name, to_string(row.point.way)};
    for (const Column& column : columns) append_columns(cells, column, row);
    if (row.error) cells.back() = row.error->text;
    table.push_back(std::move(cells));
  }
  return table;
}

std::string to_markdown(const std::vector<std::vector<std::string>>& table) {
  std::string text;
  for (std::size_t index = 0; index < table.size(); ++index) {
    for (const std::string& cell : table[index]) {
      std::string escaped;
      for (const char c : cell) {
        if (c == '|') escaped += '\\';
        escaped += c == '\n' ? ' ' : c;
      }
      text += fmt::format("| {} ", escaped);
    }
    text += "|\n";
    if (index > 0) continue;
    for (std::size_t cell = 0; cell < table[index].size(); ++cell) text += "|---";
    text += "|\n";
  }
  return text;
}

std::string verdict_of(const ShapeClaim& shape) {
  if (!shape.holds) return "cannot be said";
  return *shape.holds ? "holds" : "does not hold";
}

std::string summary_json(const Experiment& experiment, const std::vector<SweepRow>& rows,
                         const std::vector<ShapeClaim>& shapes,
                         const std::vector<Figure>& figures) {
  Json json = {{"schema", "sextant.experiment/1"},
               {"experiment", experiment.name},
               {"question", experiment.question},
               {"expectation", experiment.expectation},
               {"baseline", experiment.baseline},
               {"points", rows.size()},
               {"failed", std::count_if(rows.begin(), rows.end(),
                                        [](const SweepRow& row) { return row.error.has_value(); })},
               {"columns", Json::array()},
               {"shapes", Json::array()},
               {"figures", Json::array()}};
  for (const Column& column : experiment.columns)
    json["columns"].push_back({{"key", column.key},
                               {"title", column.title},
                               {"unit", column.unit},
                               {"reference", column.reference_key}});
  for (const ShapeClaim& shape : shapes) json["shapes"].push_back(shape_json(shape));
  for (const Figure& figure : figures) json["figures"].push_back(figure.name);
  return to_readable_text(json);
}

std::string summary_markdown(const Experiment& experiment, const std::vector<SweepRow>& rows,
                             const std::vector<ShapeClaim>& shapes) {
  std::string text = fmt::format("# {}\n\n{}\n\nExpected: {}\nBaseline: {}\n\n{}\n",
                                 experiment.name, experiment.question, experiment.expectation,
                                 experiment.baseline, to_markdown(table_of(experiment, rows)));
  std::vector<std::vector<std::string>> verdicts(1, {"statement", "", "by"});
  for (const ShapeClaim& shape : shapes)
    verdicts.push_back({shape.statement, verdict_of(shape), shape.detail});
  return text + to_markdown(verdicts);
}

}  // namespace sextant
