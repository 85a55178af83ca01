// Entries of a tar file: POSIX ustar and pax, GNU's long names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sextant {

inline constexpr std::int64_t kMostEntryBytes = std::int64_t{64} << 20;

struct TarEntry {
  std::string name;
  std::int64_t begin = 0, size = 0;  // bytes of the file
};

// The regular files of an archive, in its order; folders are passed over. Throws Error(kBadInput)
// naming `name` and the entry: a link, a device, a pipe, a name that leads outside or is absolute,
// an entry that is too large or cut off, a damaged header.
std::vector<TarEntry> tar_entries(std::span<const std::byte> bytes, const std::string& name);

}  // namespace sextant
