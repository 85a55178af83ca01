// Keys of tables that are only looked up: values as lists of numbers. Internal to sbp/.
#pragma once

#include "core/tensors/attributes.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

namespace sextant {

using Key = std::vector<std::uint64_t>;

struct KeyHash {
  std::size_t operator()(const Key& key) const {
    std::uint64_t hash = 14695981039346656037U;
    for (const std::uint64_t word : key) hash = (hash ^ word) * 1099511628211U;
    return static_cast<std::size_t>(hash ^ (hash >> 32U));
  }
};

// Small numbers for equal values. Only looked up, never walked, so the order of hashing is unseen.
class Interner {
 public:
  std::uint64_t of(const Key& key) {
    const auto known = numbers_.find(key);
    return known != numbers_.end() ? known->second
                                   : numbers_.emplace(key, numbers_.size()).first->second;
  }

 private:
  std::unordered_map<Key, std::uint64_t, KeyHash> numbers_;
};

inline void append_text(Key& key, std::string_view text) {
  key.push_back(text.size());
  // Eight characters are a number; which one, depends on the machine, and nobody sees it.
  for (; !text.empty(); text.remove_prefix(std::min(sizeof(std::uint64_t), text.size()))) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data(), std::min(sizeof(word), text.size()));
    key.push_back(word);
  }
}

inline void append_value(Key& key, const AttributeValue& value) {
  key.push_back(value.index());
  if (const auto* flag = std::get_if<bool>(&value)) key.push_back(*flag ? 1 : 0);
  if (const auto* integer = std::get_if<std::int64_t>(&value))
    key.push_back(static_cast<std::uint64_t>(*integer));
  if (const auto* real = std::get_if<double>(&value))
    key.push_back(std::bit_cast<std::uint64_t>(*real));
  if (const auto* text = std::get_if<std::string>(&value)) append_text(key, *text);
  if (const auto* list = std::get_if<std::vector<std::int64_t>>(&value)) {
    key.push_back(list->size());
    for (const std::int64_t element : *list) key.push_back(static_cast<std::uint64_t>(element));
  }
}

}  // namespace sextant
