// Rows of one way never stand among rows of another.
#include "cli/pages/experiment_part.h"

#include "cli/verbs.h"
#include "core/text/counted_text.h"
#include "core/text/json_reader.h"
#include "io/pages/html_table.h"
#include "io/pages/page.h"
#include "io/pages/plot.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

namespace sextant {
namespace {

constexpr std::size_t kRowsOfTable = 200;
constexpr Bytes kMostOfPicture{std::int64_t{1} << 20};
// From which ratio of largest to least on an axis is logarithmic.
constexpr double kWideRange = 30;

// Values that are of seconds or bytes in the units that people read.
std::string value_text(double value, const std::string& unit) {
  constexpr double kMostSeconds = 1e6;
  if (unit == "s" && value >= 0 && value < kMostSeconds) return time_text(value);
  if (unit == "B" && std::abs(value) < static_cast<double>(std::numeric_limits<int>::max()) * 1e6)
    return to_text(Bytes(std::llround(value)));
  const bool is_whole = value == std::floor(value) && std::abs(value) < 1e9;
  return is_whole ? fmt::format("{:.0f}", value) : fmt::format("{:.4g}", value);
}

std::string title_of(const ExperimentColumn& column) {
  const bool has_own_unit = column.unit.empty() || column.unit == "s" || column.unit == "B";
  return has_own_unit ? column.title : fmt::format("{} ({})", column.title, column.unit);
}

Markup cell_of(const ExperimentRow& row, const ExperimentColumn& column) {
  for (const RowFields* fields : {&row.values, &row.parameters}) {
    if (const auto number = fields->number(column.key))
      return Markup(value_text(*number, column.unit));
    if (const auto word = fields->words.find(column.key); word != fields->words.end())
      return Markup(word->second);
  }
  return row.is_failed() ? text_element("span", "bad", row.error_code) : Markup();
}

bool is_number_column(const std::vector<const ExperimentRow*>& rows,
                      const ExperimentColumn& column) {
  return std::none_of(rows.begin(), rows.end(), [&](const ExperimentRow* row) {
    return row->values.words.count(column.key) > 0 || row->parameters.words.count(column.key) > 0;
  });
}

std::optional<double> published(const ExperimentRow& row, const ExperimentColumn& column) {
  return column.reference.empty() ? std::nullopt : row.reference.number(column.reference);
}

// Empty where what was published is a number, or nothing.
std::string word_in(const RowFields& fields, const std::string& key) {
  const auto word = fields.words.find(key);
  return word == fields.words.end() ? "" : word->second;
}

bool has_published(const std::vector<const ExperimentRow*>& rows, const ExperimentColumn& column) {
  return std::any_of(rows.begin(), rows.end(), [&](const ExperimentRow* row) {
    return published(*row, column).has_value() ||
           !word_in(row->reference, column.reference).empty();
  });
}

// Numbers with their ratio, words with whether they are the same.
void add_published(std::vector<Markup>& cells, const ExperimentRow& row,
                   const ExperimentColumn& column) {
  const std::string word = word_in(row.reference, column.reference);
  if (!word.empty()) {
    const std::string own = word_in(row.values, column.key);
    cells.emplace_back(word);
    cells.emplace_back(own.empty() ? "" : own == word ? "equal" : "differs");
    return;
  }
  const auto value = row.values.number(column.key), reference = published(row, column);
  cells.push_back(reference ? Markup(value_text(*reference, column.unit)) : Markup());
  cells.push_back(value && reference && *reference != 0
                      ? Markup(fmt::format("{:.2f}", *value / *reference))
                      : Markup());
}

Markup rows_of_way(const ExperimentView& experiment,
                   const std::vector<const ExperimentRow*>& rows) {
  const bool has_spread = std::any_of(
      rows.begin(), rows.end(), [](const ExperimentRow* row) { return row->spread.has_value(); });
  std::vector<HtmlColumn> columns = {{"point", false}};
  for (const ExperimentColumn& column : experiment.columns) {
    columns.push_back({title_of(column), is_number_column(rows, column)});
    if (!has_published(rows, column)) continue;
    columns.push_back({"published", true});
    columns.push_back({"ratio", true});
  }
  if (has_spread) columns.push_back({"spread", true});
  HtmlTable table(columns);
  const std::size_t shown = std::min(rows.size(), kRowsOfTable);
  for (std::size_t i = 0; i < shown; ++i) {
    const ExperimentRow& row = *rows[i];
    std::vector<Markup> cells = {code_of(row.point)};
    for (const ExperimentColumn& column : experiment.columns) {
      cells.push_back(cell_of(row, column));
      if (has_published(rows, column)) add_published(cells, row, column);
    }
    if (has_spread) cells.push_back(Markup(row.spread ? percent(*row.spread) : std::string()));
    table.add(cells);
  }
  return table.markup() + left_out(rows.size(), shown, "row");
}

bool spans_widely(const std::vector<PlotPoint>& points) {
  double least = std::numeric_limits<double>::infinity(), most = 0;
  for (const PlotPoint& point : points)
    for (const double value : {point.x, point.y}) {
      least = std::min(least, value);
      most = std::max(most, value);
    }
  return least > 0 && most / least > kWideRange;
}

// Ours against what others published, where two points or more have both.
Markup published_figure(const std::vector<const ExperimentRow*>& rows,
                        const ExperimentColumn& column, const std::vector<Origin>& origins) {
  PlotSeries dots{column.title, {}, PlotMark::kDots, 0};
  for (const ExperimentRow* row : rows) {
    const auto value = row->values.number(column.key), reference = published(*row, column);
    if (value && reference && std::isfinite(*value) && std::isfinite(*reference))
      dots.points.push_back(
          {*reference, *value,
           fmt::format("{}: {}, published {}", row->point, value_text(*value, column.unit),
                       value_text(*reference, column.unit))});
  }
  if (dots.points.size() < 2) return {};
  Plot plot;
  const std::string name =
      column.unit.empty() ? column.title : fmt::format("{} ({})", column.title, column.unit);
  const bool is_wide = spans_widely(dots.points);
  plot.description = fmt::format("{}, against what was published", column.title);
  plot.x = {"published " + name, is_wide, !is_wide};
  plot.y = {std::string(to_string(origins.front().kind)) + " " + name, is_wide, !is_wide};
  plot.diagonal = true;
  plot.series.push_back(std::move(dots));
  return figure_of(plot_picture(plot), origins);
}

Origin origin_of(const ExperimentView& experiment, const std::vector<const ExperimentRow*>& rows) {
  std::map<std::string, std::int64_t> machines;
  for (const ExperimentRow* row : rows) ++machines[row->machine];
  std::string names;
  for (const auto& [machine, count] : machines) names += (names.empty() ? " on " : "; ") + machine;
  return {rows.front()->way,
          fmt::format("{}, hash {}: {}{}", experiment.results_file(), experiment.results_hash,
                      counted(rows.size(), "row"), names)};
}

PagePart way_part(const ExperimentView& experiment, OriginKind way,
                  const std::vector<const ExperimentRow*>& rows) {
  const Origin own = origin_of(experiment, rows);
  std::vector<Origin> with_published = {own};
  const bool any =
      std::any_of(experiment.columns.begin(), experiment.columns.end(),
                  [&](const ExperimentColumn& column) { return has_published(rows, column); });
  if (any)
    with_published.push_back(
        {OriginKind::kPublished, "by others, as the rows state it; never mixed into values"});
  Markup body;
  for (const ExperimentColumn& column : experiment.columns)
    if (has_published(rows, column)) body += published_figure(rows, column, with_published);
  body += figure_of(rows_of_way(experiment, rows), with_published);
  return {"Rows, " + std::string(to_string(way)), body};
}

PagePart failed_part(const ExperimentView& experiment) {
  HtmlTable table({{"point", false}, {"code", false}, {"error", false}});
  for (const ExperimentRow& row : experiment.rows)
    if (row.is_failed())
      table.add({code_of(row.point), code_of(row.error_code), Markup(row.error_text)});
  if (table.is_empty()) return {};
  return {"Points that failed",
          figure_of(table.markup(), {{OriginKind::kCounted, experiment.results_file()}})};
}

PagePart pictures_part(const ExperimentView& experiment) {
  Markup body;
  for (const std::string& name : experiment.figures) {
    const std::string path = experiment.folder + "/" + name;
    const std::string svg = read_text_file(path, kMostOfPicture);
    body += figure_of(embedded_image("image/svg+xml", svg, name),
                      {{OriginKind::kStated, path + ": drawn by the experiment of its rows"}});
  }
  return {body.is_empty() ? "" : "Pictures", body};
}

PagePart rows_origin_part(const ExperimentView& experiment) {
  using Source = std::tuple<OriginKind, std::string, std::string, std::string, std::string>;
  std::map<Source, std::int64_t> sources;
  for (const ExperimentRow& row : experiment.rows)
    ++sources[{row.way, row.machine, row.commit, row.build, row.seed}];
  HtmlTable table({{"way", false},
                   {"machine", false},
                   {"commit", false},
                   {"build", false},
                   {"seed", true},
                   {"rows", true}});
  for (const auto& [source, count] : sources) {
    const auto& [way, machine, commit, build, seed] = source;
    table.add({origin_badge(way), Markup(machine), code_of(commit), code_of(build), Markup(seed),
               Markup(fmt::format("{}", count))});
  }
  return {"Where the rows come from",
          figure_of(table.markup(),
                    {{OriginKind::kCounted, fmt::format("{}, hash {}", experiment.results_file(),
                                                        experiment.results_hash)}})};
}

Markup shape_line(const ExperimentShape& shape) {
  const char* verdict = !shape.holds ? "cannot be said" : *shape.holds ? "holds" : "does not hold";
  const char* css = !shape.holds ? "open" : *shape.holds ? "good" : "bad";
  return element("tr", "",
                 element("td", "", text_element("strong", css, verdict)) +
                     text_element("td", "", shape.statement) +
                     text_element("td", "note", shape.detail));
}

Markup shapes_figure(const ExperimentView& experiment) {
  if (experiment.shapes.empty()) return {};
  Markup lines;
  for (const ExperimentShape& shape : experiment.shapes) lines += shape_line(shape);
  return figure_of(
      element("div", {{"class", "scroll"}, {"tabindex", "0"}},
              element("table", "", element("tbody", "", lines))),
      {{OriginKind::kStated, experiment.folder + "/summary.json: statements about its rows"}});
}

}  // namespace

Markup experiment_head(const ExperimentView& experiment) {
  const auto failed = std::count_if(experiment.rows.begin(), experiment.rows.end(),
                                    [](const ExperimentRow& row) { return row.is_failed(); });
  const auto rows = static_cast<std::int64_t>(experiment.rows.size());
  Markup head = paragraph(experiment.question);
  if (!experiment.expectation.empty()) head += paragraph("Expected: " + experiment.expectation);
  if (!experiment.baseline.empty())
    head += paragraph("Simplest thing that could win: " + experiment.baseline);
  head += figure_of(tiles_of({{fmt::format("{}", experiment.points), "points"},
                              {fmt::format("{}", rows - failed), "finished"},
                              {fmt::format("{}", failed), "failed"}}),
                    {{OriginKind::kCounted, experiment.results_file()}});
  if (rows < experiment.points)
    head += warning_of(fmt::format("{} of {} have no row yet: the sweep ended before them.",
                                   experiment.points - rows, counted(experiment.points, "point")));
  if (experiment.is_cut)
    head +=
        warning_of(fmt::format("The last line of {} has no end and is left out: the sweep died "
                               "while it was written.",
                               experiment.results_file()));
  if (experiment.others > 0)
    head += note_of(fmt::format("{} of other experiments in the same file: left out.",
                                counted(experiment.others, "row")));
  return head + shapes_figure(experiment);
}

std::vector<PagePart> experiment_parts(const ExperimentView& experiment) {
  std::map<OriginKind, std::vector<const ExperimentRow*>> by_way;
  for (const ExperimentRow& row : experiment.rows) by_way[row.way].push_back(&row);
  std::vector<PagePart> parts = {pictures_part(experiment)};
  for (const auto& [way, rows] : by_way) parts.push_back(way_part(experiment, way, rows));
  parts.push_back(failed_part(experiment));
  parts.push_back(rows_origin_part(experiment));
  std::erase_if(parts, [](const PagePart& part) { return part.body.is_empty(); });
  return parts;
}

}  // namespace sextant
