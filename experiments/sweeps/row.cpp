// Rows as JSON; the reader is strict, so a file that another program wrote is refused by place.
#include "experiments/sweeps/row.h"

#include "core/base/check.h"
#include "core/base/hash.h"
#include "core/text/json_reader.h"
#include "core/text/json_text.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <system_error>

namespace sextant {

namespace {

constexpr const char* kRowSchema = "sextant.result/1";
constexpr std::array<ResultWay, 3> kWays = {ResultWay::kSimulated, ResultWay::kMeasured,
                                            ResultWay::kCounted};
constexpr double kExactIntegers = 9007199254740992.0;  // 2^53

bool is_exact_integer(double value) {
  return value == std::floor(value) && std::abs(value) < kExactIntegers;
}

nlohmann::ordered_json value_json(const FieldValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  const double number = std::get<double>(value);
  require(std::isfinite(number), ErrorCode::kInternal, "a result is not finite");
  if (is_exact_integer(number)) return static_cast<std::int64_t>(number);
  return number;
}

nlohmann::ordered_json fields_json(const Fields& fields) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const auto& [name, value] : fields) json[name] = value_json(value);
  return json;
}

Fields fields_from(const JsonCursor& json) {
  Fields fields;
  for (const std::string& name : json.keys()) {
    const JsonCursor value = json.at(name);
    if (value.is_text())
      fields.emplace_back(name, value.text());
    else
      fields.emplace_back(name, value.real());
  }
  return fields;
}

ResultWay way_from(const JsonCursor& json) {
  for (const ResultWay way : kWays)
    if (json.text() == to_string(way)) return way;
  json.refuse(fmt::format("'{}' is no way: simulated, measured or counted", json.text()));
}

// A number where every reader keeps it exactly, else digits as text.
nlohmann::ordered_json seed_json(std::uint64_t seed) {
  if (static_cast<double>(seed) < kExactIntegers) return seed;
  return fmt::format("{}", seed);
}

std::uint64_t seed_from(const JsonCursor& json) {
  if (!json.is_text())
    return static_cast<std::uint64_t>(
        json.integer_between(0, static_cast<std::int64_t>(kExactIntegers)));
  const std::string& text = json.text();
  std::uint64_t seed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (error != std::errc() || end != text.data() + text.size())
    json.refuse(fmt::format("'{}' is no seed", text));
  return seed;
}

}  // namespace

std::optional<double> number_of(const Fields& fields, std::string_view name) {
  for (const auto& [key, value] : fields)
    if (key == name)
      if (const auto* number = std::get_if<double>(&value)) return *number;
  return std::nullopt;
}

std::string word_of(const Fields& fields, std::string_view name) {
  for (const auto& [key, value] : fields)
    if (key == name) return to_text(value);
  return {};
}

std::string to_text(const FieldValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  const double number = std::get<double>(value);
  return is_exact_integer(number) ? fmt::format("{}", static_cast<std::int64_t>(number))
                                  : fmt::format("{:.4g}", number);
}

const char* to_string(ResultWay way) {
  switch (way) {
    case ResultWay::kSimulated:
      return "simulated";
    case ResultWay::kMeasured:
      return "measured";
    case ResultWay::kCounted:
      return "counted";
  }
  return "";
}

std::string key_of(const std::string& experiment, const SweepPoint& point,
                   const RowOrigin& origin) {
  Fnv1a hash;
  for (const std::string& part :
       {experiment, point.name, std::string(to_string(point.way)),
        json_text(fields_json(point.parameters)), origin.build, fmt::format("{}", origin.seed),
        point.way == ResultWay::kMeasured ? origin.machine : std::string()})
    hash.add(part).add(std::int64_t{-1});
  return fmt::format("{:016x}", hash.value());
}

std::string to_line(const SweepRow& row) {
  nlohmann::ordered_json json = {{"schema", kRowSchema},
                                 {"experiment", row.experiment},
                                 {"point", row.point.name},
                                 {"way", to_string(row.point.way)},
                                 {"key", row.key},
                                 {"parameters", fields_json(row.point.parameters)},
                                 {"values", fields_json(row.result.values)},
                                 {"reference", fields_json(row.point.reference)},
                                 {"error", nullptr},
                                 {"seconds", row.seconds},
                                 {"machine", row.origin.machine},
                                 {"build", row.origin.build},
                                 {"commit", row.origin.commit},
                                 {"seed", seed_json(row.origin.seed)},
                                 {"spread", nullptr}};
  if (row.error) json["error"] = {{"code", row.error->code}, {"text", row.error->text}};
  if (row.result.spread) json["spread"] = *row.result.spread;
  return lenient_json_text(json);
}

SweepRow row_from_line(std::string_view line, const std::string& origin) {
  const JsonDocument document(line, origin);
  const JsonCursor root = document.root();
  if (root.at("schema").text() != kRowSchema)
    root.at("schema").refuse(fmt::format("'{}' is not {}", root.at("schema").text(), kRowSchema));
  root.allow_only({"schema", "experiment", "point", "way", "key", "parameters", "values",
                   "reference", "error", "seconds", "machine", "build", "commit", "seed",
                   "spread"});
  SweepRow row;
  row.experiment = root.at("experiment").text();
  row.point = {.name = root.at("point").text(),
               .way = way_from(root.at("way")),
               .parameters = fields_from(root.at("parameters")),
               .reference = fields_from(root.at("reference"))};
  row.key = root.at("key").text();
  row.result.values = fields_from(root.at("values"));
  if (const auto spread = root.find_value("spread")) row.result.spread = spread->real();
  if (const auto error = root.find_value("error"))
    row.error = PointError{error->at("code").text(), error->at("text").text()};
  row.seconds = root.at("seconds").real();
  row.origin = {.machine = root.at("machine").text(),
                .build = root.at("build").text(),
                .commit = root.at("commit").text(),
                .seed = seed_from(root.at("seed"))};
  return row;
}

std::string to_lines(const std::vector<SweepRow>& rows) {
  std::string lines;
  for (const SweepRow& row : rows) lines += to_line(row) + "\n";
  return lines;
}

std::vector<SweepRow> rows_from_lines(std::string_view lines, const std::string& origin) {
  std::vector<SweepRow> rows;
  for (std::size_t begin = 0; begin < lines.size();) {
    const std::size_t end = std::min(lines.find('\n', begin), lines.size());
    rows.push_back(row_from_line(lines.substr(begin, end - begin),
                                 fmt::format("{}:{}", origin, rows.size() + 1)));
    begin = end + 1;
  }
  return rows;
}

}  // namespace sextant
