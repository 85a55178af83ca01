// Byte-level reading of texts.
#include "io/data/text_tokens.h"

#include "core/base/check.h"
#include "core/text/json_reader.h"
#include "io/data/mapped_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <span>
#include <utility>
#include <vector>

namespace sextant {
namespace {

namespace fs = std::filesystem;

// Of which a zero byte is looked for: what is no text has one near its begin, and whoever reads a
// share of a text should not have to read all of it first.
constexpr std::size_t kLookedAt = 8192;

bool is_text(std::span<const std::byte> bytes) {
  const auto head = bytes.first(std::min(bytes.size(), kLookedAt));
  return std::find(head.begin(), head.end(), std::byte{0}) == head.end();
}

// A file whose bytes are the ids, read where they are asked for.
class TextFile final : public TokenSource {
 public:
  explicit TextFile(MappedFile file) : file_(std::move(file)) {}
  std::int64_t size() const override { return static_cast<std::int64_t>(file_.bytes().size()); }
  void read(std::int64_t first, std::span<std::int32_t> ids) const override {
    const auto bytes = file_.bytes().subspan(static_cast<std::size_t>(first), ids.size());
    std::transform(bytes.begin(), bytes.end(), ids.begin(),
                   [](std::byte byte) { return std::to_integer<std::int32_t>(byte); });
  }
  std::string fingerprint() const override { return fingerprint_of(file_.bytes()); }

 private:
  MappedFile file_;
};

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
  std::vector<std::unique_ptr<TokenSource>> parts;
  std::int64_t size = 0;
  for (const fs::path& file : files) {
    MappedFile mapped(file.string());
    if (mapped.bytes().empty() || !is_text(mapped.bytes())) continue;
    size += static_cast<std::int64_t>(mapped.bytes().size());
    require(size <= limit.value, ErrorCode::kBadInput, "{}: more than {} of data", path,
            to_text(limit));
    parts.push_back(std::make_unique<TextFile>(std::move(mapped)));
  }
  require(!parts.empty(), ErrorCode::kBadInput, "{}: holds no text", path);
  if (parts.size() == 1) return std::move(parts.front());
  return std::make_unique<JoinedTokens>(std::move(parts));
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
