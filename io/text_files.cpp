// Files are opened for each read: a folder may have more of them than a process may have open.
#include "io/text_files.h"

#include "core/base/check.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

namespace sextant {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kBlock = std::int64_t{1} << 20;

std::int64_t blocks_of(std::int64_t size) { return (size + kBlock - 1) / kBlock; }

bool is_left_out(const fs::path& folder) {
  const std::string name = folder.filename().string();
  return name.starts_with(".") || name == "build" || name.starts_with("build-");
}

std::vector<fs::path> files_below(const fs::path& root) {
  std::vector<fs::path> files;
  for (auto entry =
           fs::recursive_directory_iterator(root, fs::directory_options::skip_permission_denied);
       entry != fs::recursive_directory_iterator(); ++entry) {
    if (entry->is_directory() && is_left_out(entry->path())) entry.disable_recursion_pending();
    if (entry->is_regular_file() && !is_left_out(entry->path())) files.push_back(entry->path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string version_of(const struct stat& status) {
  return fmt::format("{}:{}:{}:{}.{}", status.st_dev, status.st_ino, status.st_size,
                     status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
}

// An open file, closed at the end.
class OpenFile {
 public:
  explicit OpenFile(const fs::path& path) : number_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    require(number_ >= 0, ErrorCode::kBadInput, "{}: cannot be read: {}", path.string(),
            std::strerror(errno));
  }
  ~OpenFile() { ::close(number_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

// Eight bytes at a time, each round a multiplication and a shift.
std::uint64_t hash_of(std::span<const std::byte> bytes) {
  std::uint64_t hash = bytes.size();
  const auto mix_in = [&](std::uint64_t word) {
    hash = (hash ^ word) * 0x9E37'79B9'7F4A'7C15U;
    hash ^= hash >> 29U;
  };
  while (!bytes.empty()) {
    std::uint64_t word = 0;
    const std::size_t taken = std::min(sizeof(word), bytes.size());
    std::memcpy(&word, bytes.data(), taken);
    mix_in(word);
    bytes = bytes.subspan(taken);
  }
  return hash;
}

}  // namespace

TextFiles::TextFiles(const std::string& path, Bytes limit) : path_(path), limit_(limit) {
  require(fs::exists(path), ErrorCode::kBadInput, "{}: no such file or folder", path);
  require(fs::is_directory(path) || fs::is_regular_file(path), ErrorCode::kBadInput,
          "{}: neither a file nor a folder", path);
  for (const fs::path& file :
       fs::is_directory(path) ? files_below(path) : std::vector<fs::path>{path}) {
    const OpenFile open(file);
    struct stat status {};
    require(::fstat(open.number(), &status) == 0, ErrorCode::kBadInput, "{}: cannot be read: {}",
            file.string(), std::strerror(errno));
    files_.push_back({file, static_cast<std::int64_t>(status.st_size), version_of(status), 0});
  }
  if (!fs::is_directory(path)) require_within_limit(files_.front().size);
}

void TextFiles::require_within_limit(std::int64_t size) const {
  require(size <= limit_.value, ErrorCode::kBadInput, "{}: more than {} of data", path_,
          to_text(limit_));
}

std::string TextFiles::identity() const {
  std::string versions;
  for (const File& file : files_) versions += file.version + "\n";
  return fmt::format("{:016x}", hash_of(std::as_bytes(std::span(versions))));
}

void TextFiles::read_of(const File& file, std::int64_t first, std::span<std::byte> to) const {
  const OpenFile open(file.path);
  struct stat status {};
  require(::fstat(open.number(), &status) == 0 && version_of(status) == file.version,
          ErrorCode::kBadInput, "{}: was changed while it was read", file.path.string());
  for (std::size_t done = 0; done < to.size();) {
    const ssize_t got = ::pread(open.number(), to.data() + done, to.size() - done,
                                first + static_cast<std::int64_t>(done));
    if (got < 0 && errno == EINTR) continue;
    require(got > 0, ErrorCode::kBadInput, "{}: cannot be read: {}", file.path.string(),
            got == 0 ? "it ends too early" : std::strerror(errno));
    done += static_cast<std::size_t>(got);
    *bytes_read_ += got;
  }
}

std::vector<TextBlock> TextFiles::look(std::size_t part, std::size_t parts) const {
  std::vector<TextBlock> blocks;
  std::vector<std::byte> bytes;
  std::int64_t number = 0;
  for (const File& file : files_)
    for (std::int64_t first = 0; first < file.size; first += kBlock, ++number) {
      if (static_cast<std::size_t>(number) % parts != part) continue;
      bytes.resize(static_cast<std::size_t>(std::min(kBlock, file.size - first)));
      read_of(file, first, bytes);
      const bool has_zero = std::find(bytes.begin(), bytes.end(), std::byte{0}) != bytes.end();
      blocks.push_back({number, hash_of(bytes), has_zero});
    }
  return blocks;
}

void TextFiles::keep_text(std::vector<TextBlock> blocks) {
  std::sort(blocks.begin(), blocks.end(),
            [](const TextBlock& a, const TextBlock& b) { return a.number < b.number; });
  std::vector<File> kept;
  std::vector<std::uint64_t> hashes;
  auto block = blocks.begin();
  for (File& file : files_) {
    const std::int64_t count = blocks_of(file.size);
    require(blocks.end() - block >= count, ErrorCode::kInternal, "{}: not all blocks were seen",
            path_);
    const auto end = block + count;
    if (std::none_of(block, end, [](const TextBlock& seen) { return seen.has_zero; })) {
      file.first = size_;
      size_ += file.size;
      std::transform(block, end, std::back_inserter(hashes),
                     [](const TextBlock& seen) { return seen.hash; });
      kept.push_back(std::move(file));
    }
    block = end;
  }
  files_ = std::move(kept);
  require_within_limit(size_);
  require(size_ > 0, ErrorCode::kBadInput, "{}: holds no text", path_);
  hash_ = fmt::format("{:016x}", hash_of(std::as_bytes(std::span(hashes))));
}

void TextFiles::read(std::int64_t first, std::span<std::byte> to) const {
  require(first >= 0 && first + static_cast<std::int64_t>(to.size()) <= size_, ErrorCode::kInternal,
          "{}: bytes {} to {} of {}", path_, first, first + static_cast<std::int64_t>(to.size()),
          size_);
  auto file = std::upper_bound(files_.begin(), files_.end(), first,
                               [](std::int64_t at, const File& next) { return at < next.first; });
  for (--file; !to.empty(); ++file) {
    const std::int64_t here =
        std::min(static_cast<std::int64_t>(to.size()), file->first + file->size - first);
    if (here > 0) read_of(*file, first - file->first, to.first(static_cast<std::size_t>(here)));
    to = to.subspan(static_cast<std::size_t>(here));
    first += here;
  }
}

}  // namespace sextant
