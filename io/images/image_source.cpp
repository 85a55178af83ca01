// Folders of JPEGs and tar shards as lists of images.
#include "io/images/image_source.h"

#include "core/base/check.h"
#include "core/base/hash.h"
#include "io/images/tar.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace sextant {
namespace {

namespace fs = std::filesystem;

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with("."); }

bool is_jpeg_name(const fs::path& path) {
  std::string extension = path.extension().string();
  for (char& letter : extension)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  return extension == ".jpg" || extension == ".jpeg";
}

// Entries of a folder without hidden ones, by name.
std::vector<fs::path> visible_entries(const fs::path& folder) {
  std::vector<fs::path> entries;
  for (const auto& entry : fs::directory_iterator(folder))
    if (!is_hidden(entry.path())) entries.push_back(entry.path());
  std::sort(entries.begin(), entries.end());
  return entries;
}

// JPEGs below a folder, by path.
std::vector<fs::path> jpegs_below(const fs::path& folder) {
  std::vector<fs::path> images;
  for (auto entry = fs::recursive_directory_iterator(folder);
       entry != fs::recursive_directory_iterator(); ++entry) {
    if (is_hidden(entry->path())) {
      if (entry->is_directory()) entry.disable_recursion_pending();
      continue;
    }
    if (entry->is_regular_file() && is_jpeg_name(entry->path())) images.push_back(entry->path());
  }
  std::sort(images.begin(), images.end());
  return images;
}

class FolderSource final : public ImageSource {
 public:
  explicit FolderSource(const fs::path& root) : root_(root) {
    for (const fs::path& entry : visible_entries(root)) {
      if (!fs::is_directory(entry)) continue;
      for (const fs::path& image : jpegs_below(entry))
        images_.push_back({image.lexically_relative(root).string(), classes_});
      ++classes_;
    }
    require(classes_ > 0, ErrorCode::kBadInput,
            "{}: no folder of images: a folder for every class is wanted", root.string());
    require(!images_.empty(), ErrorCode::kBadInput,
            "{}: no .jpg or .jpeg file in the folders of {} classes", root.string(), classes_);
  }

  std::int64_t size() const override { return static_cast<std::int64_t>(images_.size()); }
  std::int64_t classes() const override { return classes_; }
  std::int64_t label(std::int64_t image) const override { return at(image).label; }
  std::string name(std::int64_t image) const override { return (root_ / at(image).path).string(); }
  EncodedImage encoded(std::int64_t image) const override {
    auto file = std::make_shared<const MappedFile>(name(image));
    return {file->bytes(), file};
  }
  // Sizes are looked up: opening all files would take long.
  std::string fingerprint() const override {
    Fnv1a hash;
    for (const Image& image : images_) {
      std::error_code ignored;
      hash.add(image.path).add(image.label);
      hash.add(static_cast<std::int64_t>(fs::file_size(root_ / image.path, ignored)));
    }
    return fmt::format("{:016x}", hash.value());
  }

 private:
  struct Image {
    std::string path;  // below the root
    std::int64_t label;
  };
  const Image& at(std::int64_t image) const { return images_[static_cast<std::size_t>(image)]; }

  fs::path root_;
  std::vector<Image> images_;
  std::int64_t classes_ = 0;
};

// The name of an entry up to the first dot of its last part: what files of one sample share.
std::pair<std::string, std::string> key_and_extension(const std::string& name) {
  const std::size_t slash = name.rfind('/');
  const std::size_t dot = name.find('.', slash == std::string::npos ? 0 : slash + 1);
  if (dot == std::string::npos) return {name, ""};
  return {name.substr(0, dot), name.substr(dot)};
}

std::optional<std::int64_t> class_in(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' '))
    text.remove_suffix(1);
  std::int64_t label = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, label);
  const bool is_class = error == std::errc() && stop == end && label >= 0 && label < 1 << 30;
  return is_class ? std::optional(label) : std::nullopt;
}

class ShardSource final : public ImageSource {
 public:
  explicit ShardSource(const std::vector<fs::path>& shards) {
    for (const fs::path& shard : shards) add_shard(shard.string());
  }

  std::int64_t size() const override { return static_cast<std::int64_t>(images_.size()); }
  std::int64_t classes() const override { return classes_; }
  std::int64_t label(std::int64_t image) const override { return at(image).label; }
  std::string name(std::int64_t image) const override {
    return files_[at(image).file]->path() + ": " + at(image).name;
  }
  EncodedImage encoded(std::int64_t image) const override {
    const Image& found = at(image);
    const auto& file = files_[found.file];
    return {file->bytes().subspan(static_cast<std::size_t>(found.begin),
                                  static_cast<std::size_t>(found.size)),
            file};
  }
  std::string fingerprint() const override {
    Fnv1a hash;
    for (const Image& image : images_) hash.add(image.name).add(image.size).add(image.label);
    return fmt::format("{:016x}", hash.value());
  }

 private:
  struct Image {
    std::string name;
    std::size_t file;
    std::int64_t begin, size, label;
  };
  const Image& at(std::int64_t image) const { return images_[static_cast<std::size_t>(image)]; }

  void add_shard(const std::string& path) {
    const auto file = std::make_shared<const MappedFile>(path);
    files_.push_back(file);
    std::vector<TarEntry> entries = tar_entries(file->bytes(), path);
    const std::map<std::string, std::int64_t> labels = labels_of(entries, *file);
    std::map<std::string, std::string> seen;  // image of each key
    for (TarEntry& entry : entries) {
      if (!is_jpeg_name(entry.name)) continue;
      const std::string key = key_and_extension(entry.name).first;
      const auto label = labels.find(key);
      require(label != labels.end(), ErrorCode::kBadInput,
              "{}: '{}' has no class: there is no entry '{}.cls'", path, entry.name, key);
      const auto [other, is_new] = seen.emplace(key, entry.name);
      require(is_new, ErrorCode::kBadInput, "{}: '{}' and '{}' are images of one sample", path,
              other->second, entry.name);
      classes_ = std::max(classes_, label->second + 1);
      images_.push_back(
          {std::move(entry.name), files_.size() - 1, entry.begin, entry.size, label->second});
    }
    require(!seen.empty(), ErrorCode::kBadInput, "{}: no .jpg or .jpeg entry", path);
  }

  static std::map<std::string, std::int64_t> labels_of(const std::vector<TarEntry>& entries,
                                                       const MappedFile& file) {
    std::map<std::string, std::int64_t> labels;
    for (const TarEntry& entry : entries) {
      const auto [key, extension] = key_and_extension(entry.name);
      if (extension != ".cls") continue;
      const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()) + entry.begin,
                                  static_cast<std::size_t>(entry.size));
      const std::optional<std::int64_t> label = class_in(text);
      require(label.has_value(), ErrorCode::kBadInput, "{}: '{}' is no number of a class",
              file.path(), entry.name);
      labels[key] = *label;
    }
    return labels;
  }

  std::vector<std::shared_ptr<const MappedFile>> files_;
  std::vector<Image> images_;
  std::int64_t classes_ = 0;
};

}  // namespace

std::unique_ptr<ImageSource> image_folder(const std::string& path) {
  require(fs::is_directory(path), ErrorCode::kBadInput, "{}: no folder", path);
  return std::make_unique<FolderSource>(path);
}

std::unique_ptr<ImageSource> image_shards(const std::string& path) {
  require(fs::exists(path), ErrorCode::kBadInput, "{}: no such file or folder", path);
  std::vector<fs::path> shards{path};
  if (fs::is_directory(path)) {
    shards = visible_entries(path);
    std::erase_if(shards, [](const fs::path& shard) { return shard.extension() != ".tar"; });
    require(!shards.empty(), ErrorCode::kBadInput, "{}: no .tar file", path);
  }
  return std::make_unique<ShardSource>(shards);
}

}  // namespace sextant
