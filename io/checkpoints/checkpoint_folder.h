// Names of checkpoints on disk, and which there are. Files are not opened.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sextant {

std::string checkpoint_folder_name(std::int64_t step);  // "step-000100"
// Where it is while it is written or deleted.
std::string unfinished_folder(const std::string& path);

struct FoundCheckpoint {
  std::int64_t step = 0;
  std::string path;
  bool operator==(const FoundCheckpoint&) const = default;
};

// Whole checkpoints of a folder, by step; none where there is no such folder.
std::vector<FoundCheckpoint> checkpoints_in(const std::string& directory);
// What writes left that were ended: paths, sorted.
std::vector<std::string> unfinished_in(const std::string& directory);

// The checkpoint that `path` is, or the last of those that it holds. Throws Error(kBadInput) where
// there is none.
FoundCheckpoint last_checkpoint(const std::string& path);
// All that `path` holds, or the one that it is; at least one.
std::vector<FoundCheckpoint> all_checkpoints(const std::string& path);

}  // namespace sextant
