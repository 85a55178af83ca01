// One value of a cluster file at a time.
#include "simulator/cluster_files/sourced_json.h"

#include "core/base/error.h"
#include "core/base/nearest.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <vector>

namespace sextant {

namespace {

double read_plain_number(const JsonCursor& cursor, QuantityKind kind) {
  if (!cursor.is_text()) return cursor.real();
  try {
    return parse_quantity(cursor.text(), kind);
  } catch (const Error& error) {
    cursor.refuse(error.what());
  }
}

}  // namespace

Provenance read_provenance(const JsonCursor& cursor) {
  std::vector<std::string> names;
  for (const Provenance known : {Provenance::kAssumed, Provenance::kPublished,
                                 Provenance::kCalibrated, Provenance::kMeasured}) {
    if (cursor.text() == to_string(known)) return known;
    names.emplace_back(to_string(known));
  }
  cursor.refuse(fmt::format("unknown provenance '{}'{}; valid: {}", cursor.text(),
                            did_you_mean(cursor.text(), names), comma_list(names)));
}

Sourced read_number(const JsonCursor& cursor, ValueRange range, QuantityKind kind) {
  Sourced number;
  const JsonCursor value = cursor.is_object() ? cursor.at("value") : cursor;
  number.value = read_plain_number(value, kind);
  if (cursor.is_object()) {
    cursor.allow_only({"value", "provenance", "source"});
    number.provenance = read_provenance(cursor.at("provenance"));
    if (const auto source = cursor.find("source")) number.source = source->text();
  }
  const std::string fault = fault_of(number.value, range, kind);
  if (!fault.empty()) cursor.refuse(fmt::format("{} {} is {}", number.value, unit_of(kind), fault));
  return number;
}

std::string read_name(const JsonCursor& cursor) {
  if (cursor.text().empty()) cursor.refuse("the name is empty");
  return cursor.text();
}

DType read_dtype(const JsonCursor& cursor) {
  try {
    return parse_dtype(cursor.text());
  } catch (const Error& error) {
    cursor.refuse(error.what());
  }
}

nlohmann::ordered_json to_json(const Sourced& number) {
  nlohmann::ordered_json json = {{"value", number.value},
                                 {"provenance", to_string(number.provenance)}};
  if (!number.source.empty()) json["source"] = number.source;
  return json;
}

}  // namespace sextant
