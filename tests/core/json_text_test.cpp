// Where readable JSON breaks, against the rule read off the tree.
#include "core/text/json_text.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <random>
#include <string>

namespace sextant::json_text_test {
namespace {

using Json = nlohmann::ordered_json;

class Values {
 public:
  explicit Values(std::uint32_t seed) : engine_(seed) {}

  Json value(int depth) {
    switch (below(depth > 0 ? 6 : 4)) {
      case 0:
        return below(1'000'000);
      case 1:
        return static_cast<double>(below(1000)) / 7;
      case 2:
        return below(2) == 0 ? Json(nullptr) : Json(true);
      case 3:
        return word();
      case 4: {
        Json list = Json::array();
        for (std::uint32_t size = below(7); size > 0; --size) list.push_back(value(depth - 1));
        return list;
      }
      default: {
        Json object = Json::object();
        for (std::uint32_t size = below(7); size > 0; --size) object[word()] = value(depth - 1);
        return object;
      }
    }
  }

 private:
  std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(engine_() % bound); }

  std::string word() {
    static const std::string kLetters = "ab \"\\,:[]{}\n/";
    std::string text;
    for (std::uint32_t size = below(9); size > 0; --size)
      text += kLetters[below(static_cast<std::uint32_t>(kLetters.size()))];
    return text;
  }

  std::mt19937 engine_;
};

// The rule itself, one level after the other.
std::string one_line(const Json& value) {
  if (!value.is_structured()) return value.dump();
  std::string text;
  for (const auto& [key, element] : value.items()) {
    if (!text.empty()) text += ", ";
    if (value.is_object()) text += Json(key).dump() + ": ";
    text += one_line(element);
  }
  return value.is_object() ? '{' + text + '}' : '[' + text + ']';
}

std::string laid_out(const Json& value, std::size_t width, std::size_t indent) {
  const std::string line = one_line(value);
  if (!value.is_structured() || line.size() + indent <= width) return line;
  std::string text;
  for (const auto& [key, element] : value.items()) {
    text += (text.empty() ? "\n" : ",\n") + std::string(indent + 1, ' ');
    if (value.is_object()) text += Json(key).dump() + ": ";
    text += laid_out(element, width, indent + 1);
  }
  text += '\n' + std::string(indent, ' ');
  return value.is_object() ? '{' + text + '}' : '[' + text + ']';
}

TEST_CASE("text breaks where a line would be too long, and nowhere else") {
  Values values(11);
  for (int i = 0; i < 300; ++i) {
    const Json value = values.value(5);
    CAPTURE(value.dump());
    for (const std::size_t width : {10, 30, 100})
      CHECK(to_readable_text(value, width) == laid_out(value, width, 0) + '\n');
  }
}

}  // namespace
}  // namespace sextant::json_text_test
