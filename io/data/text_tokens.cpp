// Byte-level reading of texts.
#include "io/data/text_tokens.h"

#include "core/base/check.h"
#include "core/text/json_reader.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>
#include <vector>

namespace sextant {
namespace {

namespace fs = std::filesystem;

std::string bytes_of_file(const fs::path& path) {
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

// The ids of documents and which of them are given.
class Documents {
 public:
  void add(const std::string& text, bool is_masked, const JsonCursor& line) {
    if (text.find('\0') != std::string::npos)
      line.refuse("a text with the character U+0000, whose id ends documents");
    for (const char byte : text) ids_.push_back(static_cast<unsigned char>(byte));
    masked_.resize(ids_.size(), is_masked);
  }
  void end() {
    ids_.push_back(kEndOfDocument);
    masked_.push_back(false);
  }
  bool is_empty() const { return ids_.empty(); }
  std::unique_ptr<TokenSource> take() {
    return std::make_unique<TokenList>(std::move(ids_), std::move(masked_));
  }

 private:
  std::vector<std::int32_t> ids_;
  std::vector<bool> masked_;
};

void add_line(std::string_view text, const std::string& place, Documents& documents) {
  const JsonDocument document(text, place);
  const JsonCursor line = document.root();
  if (!line.is_object()) line.refuse("not a JSON object");
  if (const auto whole = line.find("text")) {
    documents.add(whole->text(), false, line);
  } else {
    if (!line.contains("prompt") || !line.contains("completion"))
      line.refuse("has neither 'text' nor 'prompt' and 'completion'");
    documents.add(line.at("prompt").text(), true, line);
    documents.add(line.at("completion").text(), false, line);
  }
  documents.end();
}

}  // namespace

std::unique_ptr<TokenSource> text_tokens(const std::string& path, Bytes limit) {
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
    const std::string bytes = bytes_of_file(file);
    if (!is_text(bytes)) {
      size -= static_cast<std::int64_t>(bytes.size());
      continue;
    }
    for (const char byte : bytes) ids.push_back(static_cast<unsigned char>(byte));
  }
  require(!ids.empty(), ErrorCode::kBadInput, "{}: holds no text", path);
  return std::make_unique<TokenList>(std::move(ids));
}

std::unique_ptr<TokenSource> jsonl_tokens(std::string_view lines, const std::string& name) {
  require(static_cast<std::int64_t>(lines.size()) <= kMostText.value, ErrorCode::kBadInput,
          "{}: more than {} of data", name, to_text(kMostText));
  Documents documents;
  std::int64_t number = 0;
  while (!lines.empty()) {
    ++number;
    const std::size_t end = std::min(lines.find('\n'), lines.size());
    const std::string_view line = lines.substr(0, end);
    lines.remove_prefix(std::min(end + 1, lines.size()));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    add_line(line, fmt::format("{}, line {}", name, number), documents);
  }
  require(!documents.is_empty(), ErrorCode::kBadInput, "{}: holds no text", name);
  return documents.take();
}

}  // namespace sextant
