// Single values of cluster files: numbers with their provenance, names, dtypes. Only .cpp files
// that already include nlohmann/json.hpp use the writers.
#pragma once

#include "core/costs/cluster.h"
#include "core/text/json_reader.h"
#include "simulator/clusters/cluster_fields.h"

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace sextant {

// A plain number, a text with a unit (both are assumptions of the file's author) or {value,
// provenance, source}. Refused where it is not in `range`.
Sourced read_number(const JsonCursor& cursor, ValueRange range, QuantityKind kind);
Provenance read_provenance(const JsonCursor& cursor);
std::string read_name(const JsonCursor& cursor);
DType read_dtype(const JsonCursor& cursor);

template <typename Owner, typename Fields>
void read_fields(const JsonCursor& cursor, Owner& owner, const Fields& fields) {
  for (const auto& field : fields) {
    if (!field.required && !cursor.contains(field.key)) continue;
    owner.*field.member = read_number(cursor.at(field.key), field.range, field.kind);
  }
}

nlohmann::ordered_json to_json(const Sourced& number);

}  // namespace sextant
