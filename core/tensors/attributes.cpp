// Attributes: a sorted vector, because an operator has few of them and they are compared a lot.
#include "core/tensors/attributes.h"

#include "core/base/check.h"

#include <algorithm>

namespace sextant {
namespace {

using Entry = std::pair<std::string, AttributeValue>;

auto position(const std::vector<Entry>& entries, std::string_view name) {
  return std::lower_bound(
      entries.begin(), entries.end(), name,
      [](const Entry& entry, std::string_view wanted) { return entry.first < wanted; });
}

const AttributeValue* find(const std::vector<Entry>& entries, std::string_view name) {
  const auto at = position(entries, name);
  return at != entries.end() && at->first == name ? &at->second : nullptr;
}

void put(std::vector<Entry>& entries, std::string_view name, AttributeValue value) {
  const auto at = position(entries, name);
  if (at != entries.end() && at->first == name) {
    entries[static_cast<std::size_t>(at - entries.begin())].second = std::move(value);
  } else {
    entries.emplace(at, std::string(name), std::move(value));
  }
}

template <typename Value>
const Value& typed(const AttributeValue& value, std::string_view name, std::string_view wanted) {
  const Value* const typed_value = std::get_if<Value>(&value);
  require(typed_value != nullptr, ErrorCode::kInternal, "the attribute '{}' is not {}", name,
          wanted);
  return *typed_value;
}

template <typename Value>
const Value& existing(const std::vector<Entry>& entries, std::string_view name,
                      std::string_view wanted) {
  const AttributeValue* const value = find(entries, name);
  require(value != nullptr, ErrorCode::kInternal, "the attribute '{}' is missing", name);
  return typed<Value>(*value, name, wanted);
}

template <typename Value>
Value existing_or(const std::vector<Entry>& entries, std::string_view name, std::string_view wanted,
                  Value fallback) {
  const AttributeValue* const value = find(entries, name);
  return value == nullptr ? fallback : typed<Value>(*value, name, wanted);
}

}  // namespace

AttributeType type_of(const AttributeValue& value) {
  return static_cast<AttributeType>(value.index());
}

std::string_view to_string(AttributeType type) {
  switch (type) {
    case AttributeType::kBoolean:
      return "a truth value";
    case AttributeType::kInteger:
      return "an integer";
    case AttributeType::kReal:
      return "a real number";
    case AttributeType::kText:
      return "a text";
    case AttributeType::kIntegers:
      return "a list of integers";
  }
  return "?";
}

Attributes::Attributes(std::initializer_list<std::pair<std::string, AttributeValue>> entries) {
  if (entries.size() == 0) return;
  Entries sorted;
  sorted.reserve(entries.size());
  for (const Entry& entry : entries) put(sorted, entry.first, entry.second);
  entries_ = std::make_shared<const Entries>(std::move(sorted));
}

void Attributes::set(std::string_view name, AttributeValue value) {
  Entries changed;
  changed.reserve(entries().size() + 1);
  changed.assign(entries().begin(), entries().end());
  put(changed, name, std::move(value));
  entries_ = std::make_shared<const Entries>(std::move(changed));
}

const std::vector<std::pair<std::string, AttributeValue>>& Attributes::entries() const {
  static const Entries none;
  return entries_ ? *entries_ : none;
}

bool Attributes::operator==(const Attributes& other) const {
  return entries_ == other.entries_ || entries() == other.entries();
}

bool Attributes::contains(std::string_view name) const { return find(entries(), name) != nullptr; }

std::int64_t Attributes::integer(std::string_view name) const {
  return existing<std::int64_t>(entries(), name, to_string(AttributeType::kInteger));
}

std::int64_t Attributes::integer_or(std::string_view name, std::int64_t fallback) const {
  return existing_or<std::int64_t>(entries(), name, to_string(AttributeType::kInteger), fallback);
}

double Attributes::real(std::string_view name) const {
  return existing<double>(entries(), name, to_string(AttributeType::kReal));
}

double Attributes::real_or(std::string_view name, double fallback) const {
  return existing_or<double>(entries(), name, to_string(AttributeType::kReal), fallback);
}

bool Attributes::boolean_or(std::string_view name, bool fallback) const {
  return existing_or<bool>(entries(), name, to_string(AttributeType::kBoolean), fallback);
}

const std::string& Attributes::text(std::string_view name) const {
  return existing<std::string>(entries(), name, to_string(AttributeType::kText));
}

const std::vector<std::int64_t>& Attributes::integers(std::string_view name) const {
  return existing<std::vector<std::int64_t>>(entries(), name, to_string(AttributeType::kIntegers));
}

}  // namespace sextant
