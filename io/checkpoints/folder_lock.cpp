// The kernel's lock of an open folder: a killed process leaves none.
#include "io/checkpoints/folder_lock.h"

#include "core/base/check.h"
#include "io/checkpoints/storage.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace sextant {

FolderLock::FolderLock(const std::string& path) : path_(path) {
  CheckpointStorage().make_folder(path);
  open();
  hold(true);
}

FolderLock FolderLock::beside(const std::string& path) {
  FolderLock lock;
  lock.path_ = path;
  lock.open();
  lock.hold(false);
  return lock;
}

void FolderLock::share() {
  if (folder_ >= 0) hold(false);
}

void FolderLock::open() {
  folder_ = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  require(folder_ >= 0, ErrorCode::kBadInput, "{}: cannot be opened: {}", path_,
          std::error_code(errno, std::generic_category()).message());
}

void FolderLock::hold(bool alone) {
  if (::flock(folder_, (alone ? LOCK_EX : LOCK_SH) | LOCK_NB) == 0) return;
  const int error = errno;
  ::close(folder_);
  // Some file systems have no locks; then whoever starts two runs must know.
  folder_ = -1;
  require(error != EWOULDBLOCK, ErrorCode::kUsage, "{}: another run writes here", path_);
}

FolderLock::~FolderLock() {
  if (folder_ >= 0) ::close(folder_);
}

}  // namespace sextant
