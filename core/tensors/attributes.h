// Named settings of an operator (axis, epsilon, heads ...): a small ordered map from name to value.
// An operator's settings go with it through all graphs unchanged, so copies share one list.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace sextant {

using AttributeValue =
    std::variant<bool, std::int64_t, double, std::string, std::vector<std::int64_t>>;

// In the order of AttributeValue.
enum class AttributeType : std::uint8_t { kBoolean, kInteger, kReal, kText, kIntegers };
AttributeType type_of(const AttributeValue& value);
std::string_view to_string(AttributeType type);  // "an integer"

// An attribute that operators of a kind read.
struct AttributeDef {
  std::string_view name;
  AttributeType type = AttributeType::kInteger;
  enum class Presence : std::uint8_t { kNeeded, kOptional } presence = Presence::kNeeded;
};

class Attributes {
 public:
  Attributes() = default;
  Attributes(std::initializer_list<std::pair<std::string, AttributeValue>> entries);

  // Replaces what had the name.
  void set(std::string_view name, AttributeValue value);
  bool contains(std::string_view name) const;
  // The typed getters throw Error(kInternal) naming the attribute when it is missing or of another
  // type; the `_or` forms return the fallback when it is missing.
  std::int64_t integer(std::string_view name) const;
  std::int64_t integer_or(std::string_view name, std::int64_t fallback) const;
  double real(std::string_view name) const;
  double real_or(std::string_view name, double fallback) const;
  bool boolean_or(std::string_view name, bool fallback) const;
  const std::string& text(std::string_view name) const;
  const std::vector<std::int64_t>& integers(std::string_view name) const;

  // Sorted by name.
  const std::vector<std::pair<std::string, AttributeValue>>& entries() const;
  bool operator==(const Attributes& other) const;

 private:
  using Entries = std::vector<std::pair<std::string, AttributeValue>>;
  std::shared_ptr<const Entries> entries_;  // null: none; never changed, others may have it
};

}  // namespace sextant
