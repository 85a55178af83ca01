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

FolderLock::FolderLock(const std::string& path) {
  CheckpointStorage().make_folder(path);
  folder_ = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  require(folder_ >= 0, ErrorCode::kBadInput, "{}: cannot be opened: {}", path,
          std::error_code(errno, std::generic_category()).message());
  if (::flock(folder_, LOCK_EX | LOCK_NB) == 0) return;
  const int error = errno;
  ::close(folder_);
  // Some file systems have no locks; then whoever starts two runs must know.
  folder_ = -1;
  require(error != EWOULDBLOCK, ErrorCode::kUsage, "{}: another run writes here", path);
}

FolderLock::~FolderLock() {
  if (folder_ >= 0) ::close(folder_);
}

}  // namespace sextant
