// Each choice is its key, ended by a zero, and the bytes of its value; products come first.
#include "backends/cuda/measured_choices.h"

#include "core/base/check.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace sextant {
namespace {

template <typename Value>
void append_choices(HostBytes& bytes, const std::map<std::string, Value>& choices) {
  static_assert(std::is_trivially_copyable_v<Value>);
  const std::uint64_t count = choices.size();
  const auto head = std::as_bytes(std::span(&count, 1));
  bytes.insert(bytes.end(), head.begin(), head.end());
  for (const auto& [key, choice] : choices) {
    const auto name = std::as_bytes(std::span(key.c_str(), key.size() + 1));
    bytes.insert(bytes.end(), name.begin(), name.end());
    const auto value = std::as_bytes(std::span(&choice, 1));
    bytes.insert(bytes.end(), value.begin(), value.end());
  }
}

std::span<const std::byte> taken(std::span<const std::byte>& bytes, std::size_t count) {
  require(count <= bytes.size(), ErrorCode::kInternal, "measured choices are cut");
  const auto first = bytes.first(count);
  bytes = bytes.subspan(count);
  return first;
}

template <typename Value>
Value taken_value(std::span<const std::byte>& bytes) {
  Value value;
  std::memcpy(&value, taken(bytes, sizeof(value)).data(), sizeof(value));
  return value;
}

template <typename Value>
void take_choices(std::span<const std::byte>& bytes, std::map<std::string, Value>& choices) {
  for (auto left = taken_value<std::uint64_t>(bytes); left > 0; --left) {
    const auto end = std::find(bytes.begin(), bytes.end(), std::byte{0});
    const auto name = taken(bytes, static_cast<std::size_t>(end - bytes.begin()));
    taken(bytes, 1);
    std::string key(reinterpret_cast<const char*>(name.data()), name.size());
    choices.emplace(std::move(key), taken_value<Value>(bytes));
  }
}

}  // namespace

void MeasuredChoices::complete() {
  const std::lock_guard lock(mutex);
  is_complete = true;
}

HostBytes MeasuredChoices::to_bytes() {
  const std::lock_guard lock(mutex);
  HostBytes bytes;
  append_choices(bytes, products);
  append_choices(bytes, plans);
  return bytes;
}

void MeasuredChoices::add(std::span<const std::byte> bytes) {
  const std::lock_guard lock(mutex);
  take_choices(bytes, products);
  take_choices(bytes, plans);
}

}  // namespace sextant
