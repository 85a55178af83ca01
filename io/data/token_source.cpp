// Sources in memory and of several parts.
#include "io/data/token_source.h"

#include "core/base/hash.h"
#include "io/data/mapped_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace sextant {

TokenList::TokenList(std::vector<std::int32_t> ids, std::vector<bool> masked)
    : ids_(std::move(ids)), masked_(std::move(masked)) {}

void TokenList::read(std::int64_t first, std::span<std::int32_t> ids) const {
  std::copy_n(ids_.begin() + first, ids.size(), ids.begin());
}

bool TokenList::is_masked(std::int64_t token) const {
  return !masked_.empty() && masked_[static_cast<std::size_t>(token)];
}

std::string TokenList::fingerprint() const {
  Fnv1a hash;
  hash.add(fingerprint_of(std::as_bytes(std::span(ids_))));
  for (const bool masked : masked_) hash.add(static_cast<std::int64_t>(masked));
  return fmt::format("{:016x}", hash.value());
}

JoinedTokens::JoinedTokens(std::vector<std::unique_ptr<TokenSource>> parts)
    : parts_(std::move(parts)), begins_{0} {
  for (const auto& part : parts_) begins_.push_back(begins_.back() + part->size());
}

std::size_t JoinedTokens::part_of(std::int64_t token) const {
  const auto behind = std::upper_bound(begins_.begin(), begins_.end(), token);
  return static_cast<std::size_t>(behind - begins_.begin()) - 1;
}

void JoinedTokens::read(std::int64_t first, std::span<std::int32_t> ids) const {
  while (!ids.empty()) {
    const std::size_t part = part_of(first);
    const auto here = std::min(ids.size(), static_cast<std::size_t>(begins_[part + 1] - first));
    parts_[part]->read(first - begins_[part], ids.first(here));
    first += static_cast<std::int64_t>(here);
    ids = ids.subspan(here);
  }
}

bool JoinedTokens::is_masked(std::int64_t token) const {
  const std::size_t part = part_of(token);
  return parts_[part]->is_masked(token - begins_[part]);
}

std::string JoinedTokens::fingerprint() const {
  Fnv1a hash;
  for (const auto& part : parts_) hash.add(part->fingerprint());
  return fmt::format("{:016x}", hash.value());
}

}  // namespace sextant
