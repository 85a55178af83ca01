// Tables that only their own kind of key can index: ids (core/base/ids.h) or the values of an enum.
// Bytes and speed are those of the vector or the array inside.
#pragma once

#include "core/base/ids.h"

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <type_traits>
#include <utility>
#include <vector>

namespace sextant {

// An id, or an enum whose values count from 0.
template <typename Key>
concept TableKey = std::is_enum_v<Key> || requires(const Key& key) {
  { key.index() } -> std::same_as<std::size_t>;
};

// Where a table keeps what belongs to `key`.
template <TableKey Key>
constexpr std::size_t position_of(Key key) {
  if constexpr (std::is_enum_v<Key>) {
    return static_cast<std::size_t>(key);
  } else {
    return key.index();
  }
}

// The key of position `position`: the inverse of position_of.
template <TableKey Key>
constexpr Key key_at(std::size_t position) {
  return static_cast<Key>(position);
}

// Keys that follow each other: `first` and those behind it, without `end`.
template <TableKey Key>
class Range {
 public:
  class Iterator {
   public:
    using value_type = Key;
    using difference_type = std::ptrdiff_t;
    using iterator_category = std::forward_iterator_tag;

    constexpr Iterator() = default;
    constexpr explicit Iterator(std::size_t position) : position_(position) {}
    constexpr Key operator*() const { return key_at<Key>(position_); }
    constexpr Iterator& operator++() {
      ++position_;
      return *this;
    }
    constexpr Iterator operator++(int) { return Iterator(position_++); }
    constexpr bool operator==(const Iterator&) const = default;

   private:
    std::size_t position_ = 0;
  };

  constexpr Range() = default;
  constexpr Range(Key first, Key end) : first_(position_of(first)), end_(position_of(end)) {}
  // The first `count` keys.
  static constexpr Range first(std::size_t count) {
    Range range;
    range.end_ = count;
    return range;
  }

  constexpr Iterator begin() const { return Iterator(first_); }
  constexpr Iterator end() const { return Iterator(end_); }
  constexpr std::size_t size() const { return end_ - first_; }
  constexpr bool empty() const { return first_ == end_; }

 private:
  std::size_t first_ = 0, end_ = 0;
};

// One value for each key from 0 on, as many as were added: a vector that asks for its key.
template <TableKey Key, typename Value>
class Table {
  using Values = std::vector<Value>;

 public:
  using value_type = Value;
  using key_type = Key;
  using iterator = typename Values::iterator;
  using const_iterator = typename Values::const_iterator;
  using reference = typename Values::reference;
  using const_reference = typename Values::const_reference;

  Table() = default;
  Table(std::initializer_list<Value> values) : values_(values) {}
  explicit Table(std::vector<Value> values) : values_(std::move(values)) {}
  // `count` copies of `value`.
  explicit Table(std::size_t count) : values_(count) {}
  Table(std::size_t count, const Value& value) : values_(count, value) {}
  template <std::input_iterator Iterator>
  Table(Iterator first, Iterator end) : values_(first, end) {}

  reference operator[](Key key) { return values_[position_of(key)]; }
  const_reference operator[](Key key) const { return values_[position_of(key)]; }
  // Whether there is a value for the key.
  bool contains(Key key) const { return position_of(key) < values_.size(); }

  std::size_t size() const { return values_.size(); }
  bool empty() const { return values_.empty(); }
  // All keys that have a value, in order.
  Range<Key> keys() const { return Range<Key>::first(values_.size()); }
  // The key that the next value gets.
  Key next_key() const { return key_at<Key>(values_.size()); }

  // The key of the value that an iterator of this table points at.
  Key key_of(const_iterator value) const {
    return key_at<Key>(static_cast<std::size_t>(value - values_.begin()));
  }

  // Adds a value and says its key.
  Key add(Value value) {
    const Key key = next_key();
    values_.push_back(std::move(value));
    return key;
  }
  void push_back(const Value& value) { values_.push_back(value); }
  void push_back(Value&& value) { values_.push_back(std::move(value)); }
  template <typename... Arguments>
  reference emplace_back(Arguments&&... arguments) {
    return values_.emplace_back(std::forward<Arguments>(arguments)...);
  }
  void pop_back() { values_.pop_back(); }
  void assign(std::size_t count, const Value& value) { values_.assign(count, value); }
  void resize(std::size_t count) { values_.resize(count); }
  void resize(std::size_t count, const Value& value) { values_.resize(count, value); }
  void reserve(std::size_t count) { values_.reserve(count); }
  void clear() { values_.clear(); }

  iterator begin() { return values_.begin(); }
  iterator end() { return values_.end(); }
  const_iterator begin() const { return values_.begin(); }
  const_iterator end() const { return values_.end(); }
  reference front() { return values_.front(); }
  const_reference front() const { return values_.front(); }
  reference back() { return values_.back(); }
  const_reference back() const { return values_.back(); }

  // Without the keys: for whoever moves or replaces all of it.
  const std::vector<Value>& values() const { return values_; }
  std::vector<Value>& values() { return values_; }

  bool operator==(const Table&) const = default;

 private:
  Values values_;
};

// For values that whoever makes a table sets before they are read, and that cost time to set twice.
struct LeaveUnset {};
inline constexpr LeaveUnset kLeaveUnset{};

// One value for each of `kCount` keys: an array that asks for its key.
template <TableKey Key, typename Value, std::size_t kCount>
class FixedTable {
 public:
  using value_type = Value;
  using key_type = Key;

  // Every value is Value(), or a copy of `value`.
  constexpr FixedTable() : values_{} {}
  constexpr explicit FixedTable(const Value& value) { values_.fill(value); }
  // Numbers, enums and pointers have no value yet.
  constexpr explicit FixedTable(
      LeaveUnset) requires std::is_trivially_default_constructible_v<Value> {}

  constexpr Value& operator[](Key key) { return values_[position_of(key)]; }
  constexpr const Value& operator[](Key key) const { return values_[position_of(key)]; }
  static constexpr std::size_t size() { return kCount; }
  static constexpr Range<Key> keys() { return Range<Key>::first(kCount); }
  constexpr void fill(const Value& value) { values_.fill(value); }

  constexpr auto begin() { return values_.begin(); }
  constexpr auto end() { return values_.end(); }
  constexpr auto begin() const { return values_.begin(); }
  constexpr auto end() const { return values_.end(); }

  constexpr bool operator==(
      const FixedTable& other) const requires std::equality_comparable<Value> {
    return values_ == other.values_;
  }

 private:
  std::array<Value, kCount> values_;
};

}  // namespace sextant
