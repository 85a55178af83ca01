// The few operations on files that writing a checkpoint takes, so that a test can end them anywhere
// as a kill would.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace sextant {

// A file that is being written.
class StoredFile {
 public:
  virtual ~StoredFile() = default;
  virtual void write(std::span<const std::byte> bytes) = 0;
  // All bytes have reached the disk; closes the file.
  virtual void sync() = 0;
};

// The file system. Every failure is an Error(kBadInput) that names the path and says why.
class CheckpointStorage {
 public:
  virtual ~CheckpointStorage() = default;
  // With the folders above it; it may be there.
  virtual void make_folder(const std::string& path);
  virtual std::unique_ptr<StoredFile> create(const std::string& path);
  // The names in a folder have reached the disk.
  virtual void sync_folder(const std::string& path);
  // In one instant; a folder that has anything in it is not replaced.
  virtual void rename(const std::string& from, const std::string& to);
  // With all that is below; it need not be there. Links are removed, not followed.
  virtual void remove(const std::string& path);
};

}  // namespace sextant
