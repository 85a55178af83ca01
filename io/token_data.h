// Token ids of a text and the samples cut from it.
#pragma once

#include "core/base/units.h"
#include "io/text_files.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sextant {

class TokenData {
 public:
  static constexpr Bytes kMostText{std::int64_t{256} << 20};

  explicit TokenData(std::vector<std::int32_t> ids, std::string name = "tokens");
  // Bytes of a text, which is read where samples are (README, invariant 4).
  TokenData(TextFiles text, std::string name);

  // The text at `path`, looked through once. Throws what TextFiles throws.
  static TokenData from_path(const std::string& path, Bytes limit = kMostText);

  std::int64_t size() const;
  // Ids `first`, `first` + 1, ... Throws Error(kBadInput) where a file is not as it was.
  std::vector<std::int32_t> read(std::int64_t first, std::int64_t count) const;
  // Of a text: equal for equal texts.
  std::string hash() const;
  // Of files, so far.
  std::int64_t bytes_read() const { return text_ ? text_->bytes_read() : 0; }
  const std::string& name() const { return name_; }

  // First token of a sample; needs at least sequence + 1 tokens (Error(kBadInput) otherwise).
  std::int64_t sample_start(std::uint64_t seed, std::int64_t sample_index,
                            std::int64_t sequence) const;

 private:
  std::vector<std::int32_t> ids_;  // without a text
  std::optional<TextFiles> text_;
  std::string name_;
};

}  // namespace sextant
