// Checksums as text.
#include "io/checkpoints/checksum.h"

#include <fmt/core.h>

namespace sextant {

std::string Checksum::text() const { return fmt::format("{:016x}", hash_.value()); }

std::string checksum_of(std::span<const std::byte> bytes) { return Checksum().add(bytes).text(); }

std::string checksum_of(std::string_view text) {
  return fmt::format("{:016x}", Fnv1a().add(text).value());
}

}  // namespace sextant
