// Text files as one row of bytes, of which only what is asked for is read.
#pragma once

#include "core/base/units.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace sextant {

// What was seen in a block of a file.
struct TextBlock {
  std::int64_t number = 0;  // over all files
  std::uint64_t hash = 0;
  bool has_zero = false;  // a byte that no text has
};

class TextFiles {
 public:
  // A file, or all below a folder in the order of their paths, hidden and build folders left out.
  // Reads nothing of them. Throws Error(kBadInput) naming the path where there is none, or a file
  // of more than `limit`.
  TextFiles(const std::string& path, Bytes limit);

  // Equal for two processes of one machine that have the same files, as they are now.
  std::string identity() const;
  // Reads every `parts`-th block, from `part` on. Throws Error(kBadInput) where one cannot be read.
  std::vector<TextBlock> look(std::size_t part, std::size_t parts) const;
  // `blocks`: all of them, in any order. Files with a zero byte are left out. Throws
  // Error(kBadInput) where nothing is left, or more than the limit.
  void keep_text(std::vector<TextBlock> blocks);

  // Of what was kept.
  std::int64_t size() const { return size_; }
  const std::string& hash() const { return hash_; }
  // Bytes `first`, `first` + 1, ... Throws Error(kBadInput) where a file is not as it was.
  void read(std::int64_t first, std::span<std::byte> to) const;
  // That this object has read, looks included.
  std::int64_t bytes_read() const { return bytes_read_->load(); }

 private:
  struct File {
    std::filesystem::path path;
    std::int64_t size = 0;
    std::string version;     // changes when the file does
    std::int64_t first = 0;  // its place among those that were kept
  };
  void read_of(const File& file, std::int64_t first, std::span<std::byte> to) const;

  void require_within_limit(std::int64_t size) const;

  std::string path_;
  Bytes limit_;
  std::vector<File> files_;
  std::int64_t size_ = 0;
  std::string hash_;
  std::unique_ptr<std::atomic<std::int64_t>> bytes_read_ =
      std::make_unique<std::atomic<std::int64_t>>(0);
};

}  // namespace sextant
