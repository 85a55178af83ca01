// Byte-level reading of files and folders; samples start at counter-based random places.
#include "io/token_data.h"

#include "core/base/check.h"
#include "core/base/counter_rng.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace sextant {
namespace {

namespace fs = std::filesystem;

std::string read_bytes(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  require(file.good(), ErrorCode::kBadInput, "{}: cannot be read", path.string());
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

bool is_text(const std::string& bytes) { return bytes.find('\0') == std::string::npos; }

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

}  // namespace

TokenData::TokenData(std::vector<std::int32_t> ids, std::string name)
    : ids_(std::move(ids)), name_(std::move(name)) {}

TokenData TokenData::from_path(const std::string& path, Bytes limit) {
  require(fs::exists(path), ErrorCode::kBadInput, "{}: no such file or folder", path);
  require(fs::is_directory(path) || fs::is_regular_file(path), ErrorCode::kBadInput,
          "{}: neither a file nor a folder", path);
  const std::vector<fs::path> files =
      fs::is_directory(path) ? files_below(path) : std::vector<fs::path>{path};
  std::vector<std::int32_t> ids;
  std::int64_t size = 0;
  for (const fs::path& file : files) {
    size += static_cast<std::int64_t>(fs::file_size(file));
    require(size <= limit.value, ErrorCode::kBadInput, "{}: more than {} of data", path,
            to_text(limit));
    const std::string bytes = read_bytes(file);
    if (!is_text(bytes)) {
      size -= static_cast<std::int64_t>(bytes.size());
      continue;
    }
    for (const char byte : bytes) ids.push_back(static_cast<unsigned char>(byte));
  }
  require(!ids.empty(), ErrorCode::kBadInput, "{}: holds no text", path);
  return TokenData(std::move(ids), path);
}

std::int64_t TokenData::sample_start(std::uint64_t seed, std::int64_t sample_index,
                                     std::int64_t sequence) const {
  const auto places = static_cast<std::int64_t>(ids_.size()) - sequence;
  require(places > 0, ErrorCode::kBadInput,
          "{}: {} tokens, but a sample of sequence length {} needs {}", name_, ids_.size(),
          sequence, sequence + 1);
  const CounterRng random(seed, "sample");
  return static_cast<std::int64_t>(random.bits(static_cast<std::uint64_t>(sample_index)) %
                                   static_cast<std::uint64_t>(places));
}

}  // namespace sextant
