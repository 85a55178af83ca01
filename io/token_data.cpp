// Bytes of a text become ids where they are read; samples start at counter-based random places.
#include "io/token_data.h"

#include "core/base/check.h"
#include "core/base/counter_rng.h"

#include <cstddef>
#include <utility>

namespace sextant {

TokenData::TokenData(std::vector<std::int32_t> ids, std::string name)
    : ids_(std::move(ids)), name_(std::move(name)) {}

TokenData::TokenData(TextFiles text, std::string name)
    : text_(std::move(text)), name_(std::move(name)) {}

TokenData TokenData::from_path(const std::string& path, Bytes limit) {
  TextFiles text(path, limit);
  text.keep_text(text.look(0, 1));
  return {std::move(text), path};
}

std::int64_t TokenData::size() const {
  return text_ ? text_->size() : static_cast<std::int64_t>(ids_.size());
}

std::vector<std::int32_t> TokenData::read(std::int64_t first, std::int64_t count) const {
  if (!text_) {
    const auto part =
        std::span(ids_).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
    return {part.begin(), part.end()};
  }
  std::vector<std::byte> bytes(static_cast<std::size_t>(count));
  text_->read(first, bytes);
  std::vector<std::int32_t> ids;
  ids.reserve(bytes.size());
  for (const std::byte byte : bytes) ids.push_back(std::to_integer<std::int32_t>(byte));
  return ids;
}

std::string TokenData::hash() const {
  require(text_.has_value(), ErrorCode::kInternal, "{}: no text to hash", name_);
  return text_->hash();
}

std::int64_t TokenData::sample_start(std::uint64_t seed, std::int64_t sample_index,
                                     std::int64_t sequence) const {
  const auto places = size() - sequence;
  require(places > 0, ErrorCode::kBadInput,
          "{}: {} tokens, but a sample of sequence length {} needs {}", name_, size(), sequence,
          sequence + 1);
  const CounterRng random(seed, "sample");
  return static_cast<std::int64_t>(random.bits(static_cast<std::uint64_t>(sample_index)) %
                                   static_cast<std::uint64_t>(places));
}

}  // namespace sextant
