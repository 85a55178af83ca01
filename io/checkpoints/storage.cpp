// POSIX files: what `std::ofstream` has no words for is fsync.
#include "io/checkpoints/storage.h"

#include "core/base/check.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace sextant {
namespace {

[[noreturn]] void cannot_store(const std::string& path, const char* what, int error) {
  fail(ErrorCode::kBadInput, "{}: cannot be {}: {}", path, what,
       std::error_code(error, std::generic_category()).message());
}

class PosixFile final : public StoredFile {
 public:
  explicit PosixFile(std::string path)
      : path_(std::move(path)),
        file_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)) {
    if (file_ < 0) cannot_store(path_, "made", errno);
  }
  ~PosixFile() override {
    if (file_ >= 0) ::close(file_);
  }
  PosixFile(const PosixFile&) = delete;
  PosixFile& operator=(const PosixFile&) = delete;

  void write(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t written = ::write(file_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) cannot_store(path_, "written", errno);
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
  }

  void sync() override {
    if (::fsync(file_) != 0) cannot_store(path_, "written", errno);
    const int closed = ::close(file_);
    file_ = -1;
    if (closed != 0) cannot_store(path_, "written", errno);
  }

 private:
  std::string path_;
  int file_;
};

}  // namespace

void CheckpointStorage::make_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) cannot_store(path, "made", error.value());
}

std::unique_ptr<StoredFile> CheckpointStorage::create(const std::string& path) {
  return std::make_unique<PosixFile>(path);
}

void CheckpointStorage::sync_folder(const std::string& path) {
  const int folder = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) cannot_store(path, "opened", errno);
  const int error = ::fsync(folder) == 0 ? 0 : errno;
  ::close(folder);
  // Some file systems have nothing to do here and say so.
  if (error != 0 && error != EINVAL) cannot_store(path, "written", error);
}

void CheckpointStorage::rename(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) cannot_store(to, "made", errno);
}

void CheckpointStorage::remove(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (error) cannot_store(path, "deleted", error.value());
}

}  // namespace sextant
