// Strict where a mistake would show wrong numbers, lenient with keys that later versions add.
#include "cli/pages/experiment_view.h"

#include "compiler/expand/plan.h"
#include "core/base/check.h"
#include "core/text/json_reader.h"
#include "experiments/sweeps/results_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>
#include <variant>

namespace sextant {
namespace {

constexpr const char* kExperimentSchema = "sextant.experiment/1";

void require_schema_of(const JsonCursor& root, const char* wanted) {
  const JsonCursor schema = root.at("schema");
  if (schema.text() != wanted)
    schema.refuse(fmt::format("'{}' is not {}, which this program reads", schema.text(), wanted));
}

std::string text_at(const JsonCursor& object, const char* key) {
  const auto value = object.find_value(key);
  return value ? value->text() : std::string();
}

ExperimentColumn column_from(const JsonCursor& json) {
  return {json.at("key").text(), json.at("title").text(), text_at(json, "unit"),
          text_at(json, "reference")};
}

ExperimentShape shape_from(const JsonCursor& json) {
  ExperimentShape shape{json.at("statement").text(), text_at(json, "detail"), std::nullopt};
  if (const auto holds = json.find_value("holds")) shape.holds = holds->boolean();
  return shape;
}

// A name that leads out of the folder is none of the experiment's.
std::string figure_from(const JsonCursor& json, const std::string& folder) {
  const std::string& name = json.text();
  if (name.empty() || name.find('/') != std::string::npos || !name.ends_with(".svg"))
    json.refuse(fmt::format("'{}' is not the name of an SVG file in {}", name, folder));
  // Not by a link, which may lead out of the folder.
  std::error_code failed;
  if (!std::filesystem::is_regular_file(
          std::filesystem::symlink_status(folder + "/" + name, failed)))
    json.refuse(fmt::format("there is no file {}/{}", folder, name));
  return name;
}

void read_summary(ExperimentView& view, const std::string& path) {
  const JsonDocument document = read_json_file(path);
  const JsonCursor root = document.root();
  require_schema_of(root, kExperimentSchema);
  view.name = root.at("experiment").text();
  view.question = root.at("question").text();
  view.expectation = text_at(root, "expectation");
  view.baseline = text_at(root, "baseline");
  view.points = root.at("points").integer_between(0, std::numeric_limits<std::int64_t>::max());
  for (const JsonCursor& column : root.at("columns").elements())
    view.columns.push_back(column_from(column));
  for (const JsonCursor& shape : root.at("shapes").elements())
    view.shapes.push_back(shape_from(shape));
  if (const auto figures = root.find_value("figures"))
    for (const JsonCursor& figure : figures->elements())
      view.figures.push_back(figure_from(figure, view.folder));
}

RowFields fields_of(const Fields& values) {
  RowFields fields;
  for (const auto& [key, value] : values)
    if (const auto* number = std::get_if<double>(&value))
      fields.numbers[key] = *number;
    else
      fields.words[key] = std::get<std::string>(value);
  return fields;
}

OriginKind kind_of(ResultWay way) {
  switch (way) {
    case ResultWay::kSimulated:
      return OriginKind::kSimulated;
    case ResultWay::kMeasured:
      return OriginKind::kMeasured;
    case ResultWay::kCounted:
      return OriginKind::kCounted;
  }
  return OriginKind::kCounted;
}

ExperimentRow shown_row(const SweepRow& row) {
  ExperimentRow shown = {.point = row.point.name,
                         .way = kind_of(row.point.way),
                         .key = row.key,
                         .parameters = fields_of(row.point.parameters),
                         .values = fields_of(row.result.values),
                         .reference = fields_of(row.point.reference),
                         .spread = row.result.spread,
                         .machine = row.origin.machine,
                         .build = row.origin.build,
                         .commit = row.origin.commit,
                         .seed = fmt::format("{}", row.origin.seed)};
  if (!row.error) return shown;
  shown.error_code = row.error->code;
  shown.error_text = row.error->text;
  return shown;
}

void keep_last(std::vector<ExperimentRow>& rows, ExperimentRow row) {
  const auto same = std::find_if(rows.begin(), rows.end(), [&](const ExperimentRow& other) {
    return other.point == row.point && other.way == row.way;
  });
  if (same == rows.end())
    rows.push_back(std::move(row));
  else
    *same = std::move(row);
}

void read_rows(ExperimentView& view) {
  const std::string path = view.results_file();
  const ReadRows read = read_results(path);
  view.is_cut = read.is_cut;
  for (const SweepRow& row : read.rows)
    if (row.experiment == view.name)
      keep_last(view.rows, shown_row(row));
    else
      ++view.others;
  require(!view.rows.empty(), ErrorCode::kBadInput,
          "{}: no row of {} in it: `sextant experiment {} --out {}` computes them", path, view.name,
          view.name, view.folder);
  view.results_hash = text_hash(read_text_file(path));
}

}  // namespace

std::optional<double> RowFields::number(const std::string& key) const {
  const auto found = numbers.find(key);
  return found == numbers.end() ? std::nullopt : std::optional(found->second);
}

ExperimentView experiment_view(const std::string& folder) {
  ExperimentView view;
  view.folder = folder;
  read_summary(view, folder + "/summary.json");
  read_rows(view);
  return view;
}

}  // namespace sextant
