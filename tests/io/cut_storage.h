// A file system on which a process, or its machine, ends after so many bytes and operations.
#pragma once

#include "io/checkpoints/checkpoint_writer.h"
#include "tests/io/small_checkpoint.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sextant::testing {

// The end of a process, in the middle of what it does: nothing of it happens afterwards.
struct Cut {};

// Ends after so many bytes and operations. With `loses_unsynced` it is the machine that ends: what
// was not synced is gone, names included.
class CutStorage final : public CheckpointStorage {
 public:
  CutStorage(std::int64_t budget, bool loses_unsynced)
      : budget_(budget), loses_unsynced_(loses_unsynced) {}

  void make_folder(const std::string& path) override {
    if (spend(1)) CheckpointStorage::make_folder(path);
  }
  std::unique_ptr<StoredFile> create(const std::string& path) override {
    if (!spend(1)) throw Cut();
    unsynced_.insert(path);
    unsynced_names_.insert(path);
    return std::make_unique<File>(*this, path, CheckpointStorage::create(path));
  }
  void sync_folder(const std::string& path) override {
    if (!spend(1)) return;
    std::erase_if(unsynced_names_, [&](const std::string& name) {
      return std::filesystem::path(name).parent_path() == path;
    });
    std::erase_if(unsynced_renames_, [&](const auto& rename) {
      return std::filesystem::path(rename.second).parent_path() == path;
    });
  }
  void rename(const std::string& from, const std::string& to) override {
    if (!spend(1)) return;
    CheckpointStorage::rename(from, to);
    unsynced_renames_.emplace_back(from, to);
  }
  // File by file, as a kill would find it.
  void remove(const std::string& path) override {
    if (is_over_ || !std::filesystem::exists(path)) return;
    for (const std::string& file : files_below(path)) {
      if (!spend(1)) return;
      std::filesystem::remove(file);
    }
    if (spend(1)) CheckpointStorage::remove(path);
  }

  std::int64_t spent() const { return spent_; }

 private:
  class File final : public StoredFile {
   public:
    File(CutStorage& storage, std::string path, std::unique_ptr<StoredFile> file)
        : storage_(storage), path_(std::move(path)), file_(std::move(file)) {}
    void write(std::span<const std::byte> bytes) override {
      const auto size = static_cast<std::int64_t>(bytes.size());
      const std::int64_t left = storage_.budget_ - storage_.spent_;
      if (left < size) file_->write(bytes.first(static_cast<std::size_t>(left)));
      if (storage_.spend(size)) file_->write(bytes);
    }
    // The kernel has the bytes: that is enough for whoever reads here.
    void sync() override {
      if (storage_.spend(1)) storage_.unsynced_.erase(path_);
    }

   private:
    CutStorage& storage_;
    std::string path_;
    std::unique_ptr<StoredFile> file_;
  };

  bool spend(std::int64_t cost) {
    if (is_over_) return false;
    if (cost > budget_ - spent_) end();
    spent_ += cost;
    return true;
  }
  [[noreturn]] void end() {
    is_over_ = true;
    if (loses_unsynced_) lose();
    throw Cut();
  }
  void lose() const {
    for (const auto& [from, to] : unsynced_renames_)
      if (!std::filesystem::exists(from) && std::filesystem::exists(to))
        std::filesystem::rename(to, from);
    for (const std::string& path : unsynced_)
      if (std::filesystem::exists(path)) std::filesystem::resize_file(path, 0);
    for (const std::string& path : unsynced_names_) std::filesystem::remove(path);
  }

  const std::int64_t budget_;
  const bool loses_unsynced_;
  std::int64_t spent_ = 0;
  bool is_over_ = false;
  std::set<std::string> unsynced_, unsynced_names_;
  std::vector<std::pair<std::string, std::string>> unsynced_renames_;
};

inline constexpr std::int64_t kNoCut = std::numeric_limits<std::int64_t>::max();

}  // namespace sextant::testing
