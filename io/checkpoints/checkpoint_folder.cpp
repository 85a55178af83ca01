// A checkpoint folder is told by its name alone.
#include "io/checkpoints/checkpoint_folder.h"

#include "core/base/check.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>

namespace sextant {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-", kUnfinished = ".unfinished";

// Only the name that a checkpoint of this step gets.
std::optional<std::int64_t> step_of(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const std::string_view digits = name.substr(kPrefix.size());
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  if (error != std::errc() || end != digits.data() + digits.size() || step < 0) return std::nullopt;
  return checkpoint_folder_name(step) == name ? std::optional(step) : std::nullopt;
}

std::vector<std::string> folder_names(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error))
    if (entry->is_directory(error)) names.push_back(entry->path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

std::string checkpoint_folder_name(std::int64_t step) { return fmt::format("step-{:06}", step); }

std::string unfinished_folder(const std::string& path) { return path + std::string(kUnfinished); }

std::vector<FoundCheckpoint> checkpoints_in(const std::string& directory) {
  std::vector<FoundCheckpoint> found;
  for (const std::string& name : folder_names(directory))
    if (const auto step = step_of(name)) found.push_back({*step, directory + "/" + name});
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.step < b.step; });
  return found;
}

std::vector<std::string> unfinished_in(const std::string& directory) {
  std::vector<std::string> found;
  for (const std::string& name : folder_names(directory)) {
    const std::string_view text = name;
    if (text.ends_with(kUnfinished) && step_of(text.substr(0, text.size() - kUnfinished.size())))
      found.push_back(directory + "/" + name);
  }
  return found;
}

std::vector<FoundCheckpoint> all_checkpoints(const std::string& path) {
  require(fs::exists(path), ErrorCode::kBadInput, "{}: there is no such folder", path);
  require(fs::is_directory(path), ErrorCode::kBadInput,
          "{}: is no folder; a checkpoint is one, or a folder that holds some", path);
  const fs::path normal = fs::absolute(path).lexically_normal();
  const std::string name =
      (normal.has_filename() ? normal.filename() : normal.parent_path().filename()).string();
  if (const auto step = step_of(name)) return {{*step, path}};
  std::vector<FoundCheckpoint> found = checkpoints_in(path);
  require(!found.empty(), ErrorCode::kBadInput, "{}: holds no checkpoint (step-N){}", path,
          unfinished_in(path).empty() ? "" : ", only one that was never finished");
  return found;
}

FoundCheckpoint last_checkpoint(const std::string& path) { return all_checkpoints(path).back(); }

}  // namespace sextant
