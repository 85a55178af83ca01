// Formats by name; without one by magic and file name.
#include "io/open_data.h"

#include "core/base/check.h"
#include "core/base/nearest.h"
#include "io/data/mapped_file.h"
#include "io/data/text_tokens.h"
#include "io/data/token_files.h"
#include "io/images/image_data.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <utility>
#include <vector>

namespace sextant {
namespace {

namespace fs = std::filesystem;

enum class Format : std::uint8_t {
  kText,
  kJsonl,
  kUint16,
  kUint32,
  kLlmC,
  kMegatron,
  kImages,
  kTar,
};
constexpr std::pair<Format, std::string_view> kFormats[] = {
    {Format::kText, "text"},     {Format::kJsonl, "jsonl"}, {Format::kUint16, "uint16"},
    {Format::kUint32, "uint32"}, {Format::kLlmC, "llm.c"},  {Format::kMegatron, "megatron"},
    {Format::kImages, "images"}, {Format::kTar, "tar"}};

Format format_named(const std::string& text) {
  std::vector<std::string> names;
  for (const auto& [format, name] : kFormats) {
    if (name == text) return format;
    names.emplace_back(name);
  }
  fail(ErrorCode::kUsage, "--data-format {}: no such format{}", text, did_you_mean(text, names));
}

fs::path with_extension(fs::path path, const char* extension) {
  return path.replace_extension(extension);
}

// Files of a folder by name, without hidden ones; folders in it do not count.
std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.is_regular_file() && !entry.path().filename().string().starts_with("."))
      files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

bool is_token_file(const fs::path& path) {
  return path.extension() == ".bin" || path.extension() == ".idx";
}

bool is_jpeg(const fs::path& path) {
  return path.extension() == ".jpg" || path.extension() == ".jpeg" || path.extension() == ".JPEG" ||
         path.extension() == ".JPG";
}

Format format_of_file(const fs::path& path) {
  if (path.extension() == ".jsonl") return Format::kJsonl;
  if (path.extension() == ".tar") return Format::kTar;
  if (!is_token_file(path)) return Format::kText;
  if (fs::exists(with_extension(path, ".idx"))) return Format::kMegatron;
  return has_llm_c_magic(MappedFile(path.string()).bytes()) ? Format::kLlmC : Format::kUint16;
}

// A JPEG lies somewhere below; of a folder without files of its own.
bool has_jpeg_below(const fs::path& path) {
  for (auto entry =
           fs::recursive_directory_iterator(path, fs::directory_options::skip_permission_denied);
       entry != fs::recursive_directory_iterator(); ++entry)
    if (entry->is_regular_file() && is_jpeg(entry->path())) return true;
  return false;
}

bool is_shard(const fs::path& path) { return path.extension() == ".tar"; }
bool is_lines(const fs::path& path) { return path.extension() == ".jsonl"; }

// Of a folder: of the files that stand in it, if all are of one kind. A text among files that are
// none was not meant to be all of the data.
Format format_of_folder(const fs::path& path) {
  const std::vector<fs::path> files = files_in(path);
  for (const auto& [is_of_kind, format] :
       {std::pair{&is_token_file, Format::kUint16}, std::pair{&is_shard, Format::kTar},
        std::pair{&is_lines, Format::kJsonl}}) {
    const auto other = std::find_if_not(files.begin(), files.end(), is_of_kind);
    const bool has_some = std::any_of(files.begin(), files.end(), is_of_kind);
    require(
        !has_some || other == files.end(), ErrorCode::kBadInput,
        "{}: files of several kinds, {} among others: keep one kind in a folder, or name a file",
        path.string(), other == files.end() ? "" : other->filename().string());
    if (has_some) return format == Format::kUint16 ? format_of_file(files.front()) : format;
  }
  return files.empty() && has_jpeg_below(path) ? Format::kImages : Format::kText;
}

Format format_of(const DataOptions& options) {
  const fs::path path(options.path);
  require(fs::exists(path), ErrorCode::kBadInput, "{}: no such file or folder", options.path);
  if (!options.format.empty()) return format_named(options.format);
  if (fs::is_directory(path)) return format_of_folder(path);
  return fs::is_regular_file(path) ? format_of_file(path) : Format::kText;
}

std::unique_ptr<TokenSource> read_file(const fs::path& path, Format format) {
  const std::string name = path.string();
  switch (format) {
    case Format::kText:
      return text_tokens(name);
    case Format::kJsonl: {
      const MappedFile file(name);
      const auto bytes = file.bytes();
      return jsonl_tokens({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, name);
    }
    case Format::kUint16:
      return bare_tokens(MappedFile(name), IdType::kU16);
    case Format::kUint32:
      return bare_tokens(MappedFile(name), IdType::kU32);
    case Format::kLlmC:
      return llm_c_tokens(MappedFile(name));
    case Format::kMegatron:
      return megatron_tokens(MappedFile(with_extension(path, ".idx").string()),
                             MappedFile(with_extension(path, ".bin").string()));
    case Format::kImages:
    case Format::kTar:
      break;
  }
  fail(ErrorCode::kUsage, "{}: holds images, and tokens are wanted", name);
}

// The files that a path stands for: an index belongs to the file beside it.
std::vector<fs::path> parts_at(const fs::path& path) {
  if (!fs::is_directory(path)) return {path};
  std::vector<fs::path> parts = files_in(path);
  std::erase_if(parts, [](const fs::path& part) {
    return part.extension() == ".idx" && fs::exists(with_extension(part, ".bin"));
  });
  require(!parts.empty(), ErrorCode::kBadInput, "{}: the folder has no files", path.string());
  return parts;
}

std::shared_ptr<const TokenSource> open_source(const DataOptions& options, Format format) {
  if (format == Format::kText) return text_tokens(options.path);
  const bool is_by_name = options.format.empty();
  std::vector<std::unique_ptr<TokenSource>> parts;
  const bool are_token_files = format != Format::kJsonl;
  for (const fs::path& part : parts_at(options.path)) {
    require(!fs::is_directory(options.path) || !are_token_files || is_token_file(part),
            ErrorCode::kBadInput, "{}: {} is no file of tokens (.bin)", options.path,
            part.filename().string());
    parts.push_back(read_file(part, is_by_name ? format_of_file(part) : format));
  }
  if (parts.size() == 1) return std::move(parts.front());
  return std::make_shared<JoinedTokens>(std::move(parts));
}

OrderSettings order_of(const DataOptions& options, Format format) {
  if (!options.order.empty()) return parse_order(options.order);
  return {.kind = format == Format::kText ? OrderKind::kPlaces : OrderKind::kShuffled};
}

}  // namespace

namespace {

std::unique_ptr<TokenData> tokens_of(const DataOptions& options) {
  const Format format = format_of(options);
  require(format != Format::kImages && format != Format::kTar, ErrorCode::kUsage,
          "--data {}: holds images, and tokens are wanted", options.path);
  return std::make_unique<TokenData>(open_source(options, format), options.path,
                                     order_of(options, format));
}

std::unique_ptr<SampleData> data_of(const DataOptions& options) {
  const Format format = format_of(options);
  if (format != Format::kImages && format != Format::kTar) return tokens_of(options);
  return std::make_unique<ImageData>(
      format == Format::kTar ? image_shards(options.path) : image_folder(options.path),
      options.path, order_of(options, format));
}

// What the file system says of a path is the user's input: links in a ring, names that are too
// long.
template <typename Open>
auto opened(const Open& open, const DataOptions& options) {
  try {
    return open(options);
  } catch (const fs::filesystem_error& error) {
    fail(ErrorCode::kBadInput, "--data {}: {}", options.path, error.code().message());
  }
}

}  // namespace

std::unique_ptr<TokenData> open_tokens(const DataOptions& options) {
  return opened(tokens_of, options);
}

std::unique_ptr<SampleData> open_data(const DataOptions& options) {
  return opened(data_of, options);
}

}  // namespace sextant
