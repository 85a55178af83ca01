// Mapped for reading; changes that others make to the file are seen.
#include "io/data/mapped_file.h"

#include "core/base/check.h"
#include "core/base/hash.h"
#include "io/data/little_endian.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

namespace sextant {
namespace {

// Closes what it holds.
struct Descriptor {
  int number;
  explicit Descriptor(int n) : number(n) {}
  ~Descriptor() {
    if (number >= 0) close(number);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
};

std::span<const std::byte> mapped(const std::string& path) {
  // A pipe would wait for a writer.
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  require(file.number >= 0, ErrorCode::kBadInput, "{}: cannot be read: {}", path,
          std::strerror(errno));
  struct stat about {};
  require(fstat(file.number, &about) == 0 && S_ISREG(about.st_mode), ErrorCode::kBadInput,
          "{}: not a file", path);
  const auto size = static_cast<std::size_t>(about.st_size);
  if (size == 0) return {};
  void* const begin = mmap(nullptr, size, PROT_READ, MAP_SHARED, file.number, 0);
  require(begin != MAP_FAILED, ErrorCode::kBadInput, "{}: cannot be mapped: {}", path,
          std::strerror(errno));
  return {static_cast<const std::byte*>(begin), size};
}

constexpr std::size_t kWholeBelow = std::size_t{64} << 20;  // bytes
constexpr std::size_t kPieces = 256, kPieceBytes = std::size_t{64} << 10;

void add_bytes(Fnv1a& hash, std::span<const std::byte> bytes) {
  const std::size_t whole = bytes.size() / sizeof(std::int64_t) * sizeof(std::int64_t);
  for (std::size_t at = 0; at < whole; at += sizeof(std::int64_t))
    hash.add(number_at<std::int64_t>(bytes, at));
  for (std::size_t at = whole; at < bytes.size(); ++at)
    hash.add(static_cast<std::int64_t>(bytes[at]));
}

}  // namespace

MappedFile::MappedFile(std::string path) : path_(std::move(path)), bytes_(mapped(path_)) {}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

std::string fingerprint_of(std::span<const std::byte> bytes) {
  Fnv1a hash;
  hash.add(static_cast<std::int64_t>(bytes.size()));
  if (bytes.size() <= kWholeBelow) {
    add_bytes(hash, bytes);
  } else {
    const std::size_t last = bytes.size() - kPieceBytes;
    for (std::size_t piece = 0; piece < kPieces; ++piece)
      add_bytes(hash, bytes.subspan(last / (kPieces - 1) * piece, kPieceBytes));
  }
  return fmt::format("{:016x}", hash.value());
}

}  // namespace sextant
