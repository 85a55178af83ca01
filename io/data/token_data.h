// Token ids of a text and the samples cut from it.
#pragma once

#include "core/base/units.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sextant {

class TokenData {
 public:
  explicit TokenData(std::vector<std::int32_t> ids, std::string name = "tokens");

  // Bytes of a text file, or of all text files below a folder (README, invariant 4). Throws
  // Error(kBadInput) naming the path when it does not exist, holds no text or is over `limit`.
  static TokenData from_path(const std::string& path, Bytes limit = Bytes{std::int64_t{256} << 20});

  std::span<const std::int32_t> ids() const { return ids_; }
  const std::string& name() const { return name_; }

  // First token of a sample; needs at least sequence + 1 tokens (Error(kBadInput) otherwise).
  std::int64_t sample_start(std::uint64_t seed, std::int64_t sample_index,
                            std::int64_t sequence) const;

 private:
  std::vector<std::int32_t> ids_;
  std::string name_;
};

}  // namespace sextant
