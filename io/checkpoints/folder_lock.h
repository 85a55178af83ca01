// One process at a time writes in a folder.
#pragma once

#include <string>

namespace sextant {

// Makes the folder where it is not there, and holds it until the end of this object or of the
// process, however that ends. Throws Error(kUsage) where another one holds it, Error(kBadInput)
// where it cannot be made.
class FolderLock {
 public:
  explicit FolderLock(const std::string& path);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int folder_ = -1;
};

}  // namespace sextant
