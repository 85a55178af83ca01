// A file as bytes in memory, read where it is touched.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace sextant {

class MappedFile {
 public:
  // Throws Error(kBadInput) naming the path: no such file, not a regular one, it cannot be read.
  explicit MappedFile(std::string path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  MappedFile& operator=(MappedFile&&) = delete;

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::string path_;
  std::span<const std::byte> bytes_;  // empty: nothing is mapped
};

// 16 hex digits: the size, and all bytes of a small file or pieces from all over a large one. Two
// files that differ have other digits, unless both are large and differ between the pieces.
std::string fingerprint_of(std::span<const std::byte> bytes);

}  // namespace sextant
