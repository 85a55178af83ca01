// Strict reading of JSON files written by people and programs: the one reader of the project.
//
// Refused, with file, line and column: texts over the size limit, nesting deeper than 64 (checked
// before anything is parsed), NaN and Infinity, trailing commas, comments, repeated keys, broken
// UTF-8. Accepted and skipped: a UTF-8 byte order mark, which editors on Windows write.
#pragma once

#include "core/base/units.h"

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

inline constexpr int kMaxJsonDepth = 64;
inline constexpr Bytes kMaxJsonSize{std::int64_t{256} << 20};

struct JsonValue;

// A value in a document and the way to it: "cluster.json: device.peaks[2].dtype". Every refusal is
// an Error(kBadInput) that starts with this place. The JsonDocument must outlive it.
class JsonCursor {
 public:
  JsonCursor(const JsonValue& value, const std::string& origin, std::string path);
  std::string place() const;  // origin and path

  // What the value is; every value is one of these, an integer a number too.
  bool is_null() const;
  bool is_object() const;
  bool is_list() const;
  bool is_text() const;
  bool is_number() const;
  bool is_integer() const;  // written without fraction and exponent
  bool is_boolean() const;

  // Typed values; refused when the value is of another type. An integer may be written 5 or 5.0,
  // as some programs do, but never 5.5.
  bool boolean() const;
  std::int64_t integer() const;
  std::int64_t integer_between(std::int64_t least, std::int64_t most) const;
  double real() const;
  const std::string& text() const;

  // Lists.
  std::vector<JsonCursor> elements() const;

  // Objects; the order is that of the text.
  std::vector<std::string> keys() const;
  bool contains(std::string_view key) const;
  JsonCursor at(std::string_view key) const;  // refused when missing
  std::optional<JsonCursor> find(std::string_view key) const;
  // As find, but a key whose value is null counts as left out.
  std::optional<JsonCursor> find_value(std::string_view key) const;
  // Refuses the first key that is not one of `known`, naming the nearest valid one.
  void allow_only(std::span<const std::string_view> known) const;
  void allow_only(std::initializer_list<std::string_view> known) const;

  // Throws Error(kBadInput): "<place>: <what>".
  [[noreturn]] void refuse(const std::string& what) const;

 private:
  const JsonValue* value_;
  const std::string* origin_;
  std::string path_;  // empty at the root
};

// A parsed text.
class JsonDocument {
 public:
  // `origin` names the text in errors: a path, or "plan".
  JsonDocument(std::string_view text, std::string origin, Bytes limit = kMaxJsonSize);
  JsonDocument(JsonDocument&&) noexcept;
  JsonDocument& operator=(JsonDocument&&) noexcept;
  ~JsonDocument();

  // The value of the whole text.
  JsonCursor root() const;

 private:
  std::unique_ptr<JsonValue> root_;
  std::unique_ptr<const std::string> origin_;  // cursors point to it, so it stays where it is
};

// Throws Error(kBadInput) naming the path when the file is missing, unreadable, a folder or too
// large.
std::string read_text_file(const std::string& path, Bytes limit = kMaxJsonSize);
JsonDocument read_json_file(const std::string& path, Bytes limit = kMaxJsonSize);

}  // namespace sextant
