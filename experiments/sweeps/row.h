// A point of a sweep and what it gave, as values and as a line of `results.jsonl` (README.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace sextant {

// Numbers and words by name, in the order in which tables show them; a number's unit is in its
// name. Numbers are finite.
using FieldValue = std::variant<double, std::string>;
using Fields = std::vector<std::pair<std::string, FieldValue>>;

// Nothing where there is no such field, or where it is a word.
std::optional<double> number_of(const Fields& fields, std::string_view name);
// Likewise of words; empty where there is none. A number is its text.
std::string word_of(const Fields& fields, std::string_view name);
// "0.5", "16", "dp=2 tp=4"; integers below 2^53 have no fraction.
std::string to_text(const FieldValue& value);

enum class ResultWay : std::uint8_t { kSimulated, kMeasured, kCounted };
const char* to_string(ResultWay way);

struct SweepPoint {
  std::string name;  // unique in its sweep
  ResultWay way = ResultWay::kSimulated;
  Fields parameters;
  Fields reference = {};  // what others published for it
};

// What a point's computation returns.
struct PointResult {
  Fields values;
  std::optional<double> spread = {};  // of repeated measurements: (largest - least) / median
};

struct PointError {
  std::string code;  // name of an ErrorCode
  std::string text;
  // What is asked cannot be, however often it is asked: of anything else the next try may do.
  bool is_answer() const { return code == "infeasible"; }
  bool operator==(const PointError&) const = default;
};

// Who computed a row, and with what.
struct RowOrigin {
  std::string machine;  // "host, 2 cores"
  std::string build;    // hash of the program
  std::string commit;   // it was built from; "unknown" outside of a repository
  std::uint64_t seed = 0;
  bool operator==(const RowOrigin&) const = default;
};

struct SweepRow {
  std::string experiment;
  SweepPoint point;
  std::string key;
  PointResult result;               // without values where there is an error
  std::optional<PointError> error;  // nothing: it is finished
  double seconds = 0;               // that it took
  RowOrigin origin;
};

// Identity of what a row depends on: rows of equal keys stand for each other. Of a measured one the
// machine is part of it.
std::string key_of(const std::string& experiment, const SweepPoint& point, const RowOrigin& origin);

// One line without its end.
std::string to_line(const SweepRow& row);
// Throws Error(kBadInput) with `origin` ("results.jsonl:7") and the place in the line.
SweepRow row_from_line(std::string_view line, const std::string& origin);

std::string to_lines(const std::vector<SweepRow>& rows);
// Of whole lines; `origin` gets their numbers.
std::vector<SweepRow> rows_from_lines(std::string_view lines, const std::string& origin);

}  // namespace sextant
