// One run at a time writes in a folder: a process, or several that share its lock.
#pragma once

#include <string>
#include <utility>

namespace sextant {

// Makes the folder where it is not there, and holds it until the end of this object or of the
// process, however that ends. Throws Error(kUsage) where another one holds it, Error(kBadInput)
// where it cannot be made.
class FolderLock {
 public:
  explicit FolderLock(const std::string& path);
  // Beside the process that made the folder and let it be shared. Throws Error(kBadInput) where the
  // folder is not there: it is not the one that the other has.
  static FolderLock beside(const std::string& path);
  ~FolderLock();
  // From here on whoever asks to be beside holds the folder too, and nobody holds it alone.
  void share();
  FolderLock(FolderLock&& other) noexcept : path_(std::move(other.path_)), folder_(other.folder_) {
    other.folder_ = -1;
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  FolderLock() = default;
  void open();
  void hold(bool alone);

  std::string path_;
  int folder_ = -1;
};

}  // namespace sextant
