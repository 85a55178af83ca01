// The strict JSON reader: nlohmann's parser feeds our own small value tree, which keeps the order
// of keys and finds repeated ones.
#include "core/text/json_reader.h"

#include "core/base/check.h"
#include "core/base/nearest.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <utility>
#include <variant>

namespace sextant {

struct JsonValue {
  using List = std::vector<JsonValue>;
  using Members = std::vector<std::pair<std::string, JsonValue>>;
  std::variant<std::monostate, bool, std::int64_t, double, std::string, List, Members> value;
};

namespace {

// Counted from one; a column is a byte of the line.
struct TextPlace {
  std::size_t line = 1, column = 1;
};

TextPlace place_of(std::string_view text, std::size_t offset) {
  TextPlace place;
  for (std::size_t i = 0; i < std::min(offset, text.size()); ++i) {
    ++place.column;
    if (text[i] == '\n') place = {.line = place.line + 1, .column = 1};
  }
  return place;
}

[[noreturn]] void refuse_text(const std::string& origin, std::string_view text, std::size_t offset,
                              std::string_view what, std::vector<std::string> hints = {}) {
  const TextPlace place = place_of(text, offset);
  throw Error(ErrorCode::kBadInput,
              Place{fmt::format("{}: line {}, column {}", origin, place.line, place.column)},
              std::string(what), std::move(hints));
}

// Before parsing, so that neither the parser nor the destructor of the tree can run out of stack.
void require_shallow(std::string_view text, const std::string& origin) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxJsonDepth)
        refuse_text(origin, text, i,
                    fmt::format("nested deeper than {} lists and objects", kMaxJsonDepth));
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
}

// Offset of the key number `count` of the text, from 1: a string followed by a colon. The parser
// does not say where it is, and only the error of a repeated key needs to know.
std::size_t offset_of_key(std::string_view text, std::size_t count) {
  std::size_t start = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (in_string && text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      in_string = !in_string;
      if (in_string) start = i;
    } else if (text[i] == ':' && !in_string && --count == 0) {
      return start;
    }
  }
  return text.size();
}

// What people often write and JSON does not have, recognised where the parser stopped.
std::vector<std::string> hints_at(std::string_view text, std::size_t offset) {
  const std::size_t from = std::min(offset, text.size());
  const std::string_view rest = text.substr(from);
  const auto begins = [&](std::string_view token) { return rest.substr(0, token.size()) == token; };
  const auto before = text.substr(0, from).find_last_not_of(" \t\r\n");
  const bool after_comma = before != std::string_view::npos && text[before] == ',';
  if (after_comma && (begins("}") || begins("]"))) return {"remove the comma before this"};
  if (begins("/") || begins("#")) return {"JSON has no comments: remove them"};
  if (begins("N") || begins("I") || begins("-I") || begins("-N"))
    return {"JSON has no NaN and no Infinity: write a number or null"};
  if (begins("'")) return {"JSON texts stand in double quotes"};
  if (begins("T") || begins("F")) return {"truth values are true and false in JSON"};
  return {};
}

class TreeBuilder {
 public:
  TreeBuilder(std::string_view text, const std::string& origin) : text_(text), origin_(origin) {}

  JsonValue take_root() { return std::move(root_); }

  // nlohmann's SAX interface; returning false stops the parser.
  bool null() { return put({}); }
  bool boolean(bool value) { return put({value}); }
  bool number_integer(std::int64_t value) { return put({value}); }
  bool number_unsigned(std::uint64_t value) {
    // Beyond int64: kept as a real, so that integer() refuses it.
    if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      return put({static_cast<double>(value)});
    return put({static_cast<std::int64_t>(value)});
  }
  bool number_float(double value, const std::string&) { return put({value}); }
  bool string(std::string& value) { return put({std::move(value)}); }
  bool binary(nlohmann::json::binary_t&) { return false; }  // never made from text
  bool start_object(std::size_t) { return open({JsonValue::Members()}); }
  bool start_array(std::size_t) { return open({JsonValue::List()}); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& name) {
    ++num_keys_;
    if (!open_.back().keys.insert(name).second)
      refuse_text(origin_, text_, offset_of_key(text_, num_keys_),
                  fmt::format("the key '{}' appears twice in one object", name));
    open_.back().key = std::move(name);
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const std::exception& error) {
    // The position is that of the last character read; a token that runs on to the end of the text
    // is reported one past it.
    const std::size_t offset = start_of_token(position == 0 ? 0 : position - 1);
    refuse_text(origin_, text_, offset, reason(error.what()), hints_at(text_, offset));
  }

 private:
  struct Open {
    JsonValue value;
    std::set<std::string> keys;
    std::string key;
  };

  bool open(JsonValue value) {
    open_.push_back({.value = std::move(value), .keys = {}, .key = {}});
    return true;
  }
  bool close() {
    JsonValue value = std::move(open_.back().value);
    open_.pop_back();
    return put(std::move(value));
  }
  bool put(JsonValue value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (auto* const list = std::get_if<JsonValue::List>(&open_.back().value.value)) {
      list->push_back(std::move(value));
    } else {
      std::get<JsonValue::Members>(open_.back().value.value)
          .emplace_back(std::move(open_.back().key), std::move(value));
    }
    return true;
  }

  // The parser stops inside a word such as NaN or True; people look for its first letter.
  std::size_t start_of_token(std::size_t offset) const {
    offset = std::min(offset, text_.size());
    const auto is_word = [&](std::size_t at) {
      return std::isalpha(static_cast<unsigned char>(text_[at])) != 0 || text_[at] == '-';
    };
    while (offset > 0 && offset <= text_.size() && is_word(offset - 1) &&
           (offset == text_.size() || is_word(offset)))
      --offset;
    return offset;
  }

  // "[json.exception.parse_error.101] parse error at line 3, column 4: syntax error ..." -> the
  // part after the place, which we say ourselves.
  static std::string reason(std::string_view message) {
    const std::size_t place = message.find("column ");
    const std::size_t colon =
        place == std::string_view::npos ? message.find(':') : message.find(": ", place);
    const std::size_t bracket = message.find("] ");
    if (colon != std::string_view::npos) return std::string(message.substr(colon + 2));
    return std::string(bracket == std::string_view::npos ? message : message.substr(bracket + 2));
  }

  std::string_view text_;
  const std::string& origin_;
  JsonValue root_;
  std::vector<Open> open_;
  std::size_t num_keys_ = 0;
};

std::string_view type_name(const JsonValue& value) {
  static constexpr std::string_view kNames[] = {"null",   "a truth value", "an integer", "a real",
                                                "a text", "a list",        "an object"};
  return kNames[value.value.index()];
}

// Short values are shown, long ones only named by type.
std::string shown(const JsonValue& value) {
  if (const auto* const flag = std::get_if<bool>(&value.value)) return *flag ? "true" : "false";
  if (const auto* const number = std::get_if<std::int64_t>(&value.value))
    return std::to_string(*number);
  if (const auto* const number = std::get_if<double>(&value.value))
    return fmt::format("{}", *number);
  if (const auto* const text = std::get_if<std::string>(&value.value))
    return text->size() <= 60 ? "\"" + *text + "\"" : "a long text";
  return std::string(type_name(value));
}

template <typename Value>
const Value& as(const JsonCursor& cursor, const JsonValue& value, std::string_view wanted) {
  const auto* const typed = std::get_if<Value>(&value.value);
  if (typed == nullptr) cursor.refuse(fmt::format("found {}, wanted {}", shown(value), wanted));
  return *typed;
}

const JsonValue* member(const JsonValue::Members& members, std::string_view key) {
  for (const auto& [name, value] : members)
    if (name == key) return &value;
  return nullptr;
}

}  // namespace

JsonCursor::JsonCursor(const JsonValue& value, const std::string& origin, std::string path)
    : value_(&value), origin_(&origin), path_(std::move(path)) {}

std::string JsonCursor::place() const { return path_.empty() ? *origin_ : *origin_ + ": " + path_; }

bool JsonCursor::is_null() const { return std::holds_alternative<std::monostate>(value_->value); }
bool JsonCursor::is_boolean() const { return std::holds_alternative<bool>(value_->value); }
bool JsonCursor::is_text() const { return std::holds_alternative<std::string>(value_->value); }
bool JsonCursor::is_integer() const { return std::holds_alternative<std::int64_t>(value_->value); }
bool JsonCursor::is_number() const {
  return is_integer() || std::holds_alternative<double>(value_->value);
}
bool JsonCursor::is_list() const { return std::holds_alternative<JsonValue::List>(value_->value); }
bool JsonCursor::is_object() const {
  return std::holds_alternative<JsonValue::Members>(value_->value);
}

bool JsonCursor::boolean() const { return as<bool>(*this, *value_, "true or false"); }

std::int64_t JsonCursor::integer() const {
  if (const auto* const real = std::get_if<double>(&value_->value)) {
    constexpr double kExact = 9007199254740992.0;  // 2^53: beyond it a real skips integers
    if (std::floor(*real) == *real && std::abs(*real) <= kExact)
      return static_cast<std::int64_t>(*real);
  }
  return as<std::int64_t>(*this, *value_, "an integer");
}

std::int64_t JsonCursor::integer_between(std::int64_t least, std::int64_t most) const {
  const std::int64_t value = integer();
  if (value < least || value > most)
    refuse(fmt::format("found {}, wanted {} to {}", value, least, most));
  return value;
}

double JsonCursor::real() const {
  if (const auto* const integer = std::get_if<std::int64_t>(&value_->value))
    return static_cast<double>(*integer);
  return as<double>(*this, *value_, "a number");
}

const std::string& JsonCursor::text() const { return as<std::string>(*this, *value_, "a text"); }

std::vector<JsonCursor> JsonCursor::elements() const {
  const auto& list = as<JsonValue::List>(*this, *value_, "a list");
  std::vector<JsonCursor> cursors;
  cursors.reserve(list.size());
  for (std::size_t i = 0; i < list.size(); ++i)
    cursors.emplace_back(list[i], *origin_, path_ + "[" + std::to_string(i) + "]");
  return cursors;
}

std::vector<std::string> JsonCursor::keys() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : as<JsonValue::Members>(*this, *value_, "an object"))
    names.push_back(name);
  return names;
}

bool JsonCursor::contains(std::string_view key) const { return find(key).has_value(); }

JsonCursor JsonCursor::at(std::string_view key) const {
  const std::optional<JsonCursor> found = find(key);
  if (!found) refuse(fmt::format("the key '{}' is missing", key));
  return *found;
}

std::optional<JsonCursor> JsonCursor::find(std::string_view key) const {
  const JsonValue* const found = member(as<JsonValue::Members>(*this, *value_, "an object"), key);
  if (found == nullptr) return std::nullopt;
  std::string path = path_;
  if (!path.empty()) path += '.';
  path += key;
  return JsonCursor(*found, *origin_, std::move(path));
}

std::optional<JsonCursor> JsonCursor::find_value(std::string_view key) const {
  const std::optional<JsonCursor> found = find(key);
  return found && !found->is_null() ? found : std::nullopt;
}

void JsonCursor::allow_only(std::span<const std::string_view> known) const {
  const std::vector<std::string> names(known.begin(), known.end());
  for (const std::string& key : keys()) {
    if (std::find(names.begin(), names.end(), key) != names.end()) continue;
    throw Error(ErrorCode::kBadInput, Place{place()},
                fmt::format("unknown key '{}'{}", key, did_you_mean(key, names)),
                {"known keys: " + comma_list(names)});
  }
}

void JsonCursor::allow_only(std::initializer_list<std::string_view> known) const {
  allow_only(std::span(known.begin(), known.size()));
}

void JsonCursor::refuse(const std::string& what) const {
  throw Error(ErrorCode::kBadInput, Place{place()}, what);
}

JsonDocument::JsonDocument(std::string_view text, std::string origin, Bytes limit)
    : origin_(std::make_unique<const std::string>(std::move(origin))) {
  require(static_cast<std::int64_t>(text.size()) <= limit.value, ErrorCode::kBadInput,
          "{}: {} of JSON, more than the limit of {}", *origin_,
          to_text(Bytes(static_cast<std::int64_t>(text.size()))), to_text(limit));
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.substr(0, 3) == kByteOrderMark) text.remove_prefix(3);
  require_shallow(text, *origin_);
  TreeBuilder builder(text, *origin_);
  nlohmann::json::sax_parse(text, &builder);
  root_ = std::make_unique<JsonValue>(builder.take_root());
}

JsonDocument::JsonDocument(JsonDocument&&) noexcept = default;
JsonDocument& JsonDocument::operator=(JsonDocument&&) noexcept = default;
JsonDocument::~JsonDocument() = default;

JsonCursor JsonDocument::root() const { return {*root_, *origin_, ""}; }

std::string read_text_file(const std::string& path, Bytes limit) {
  std::error_code failure;
  const std::filesystem::file_status status = std::filesystem::status(path, failure);
  require(std::filesystem::exists(status), ErrorCode::kBadInput, "{}: no such file", path);
  require(!std::filesystem::is_directory(status), ErrorCode::kBadInput,
          "{}: is a folder, wanted a file", path);
  std::ifstream file(path, std::ios::binary);
  require(file.good(), ErrorCode::kBadInput, "{}: cannot be read: {}", path, std::strerror(errno));
  std::string text;
  std::vector<char> part(std::size_t{1} << 16);
  while (file.read(part.data(), static_cast<std::streamsize>(part.size())) || file.gcount() > 0) {
    text.append(part.data(), static_cast<std::size_t>(file.gcount()));
    require(static_cast<std::int64_t>(text.size()) <= limit.value, ErrorCode::kBadInput,
            "{}: larger than the limit of {}", path, to_text(limit));
  }
  require(!file.bad(), ErrorCode::kBadInput, "{}: cannot be read to its end", path);
  return text;
}

JsonDocument read_json_file(const std::string& path, Bytes limit) {
  return JsonDocument(read_text_file(path, limit), path, limit);
}

}  // namespace sextant
