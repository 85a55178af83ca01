// Reads /proc/meminfo, then the limits of the control groups that the process is in.
#include "core/machine_memory.h"

#include "core/check.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string_view>

namespace sextant {
namespace {

namespace fs = std::filesystem;

// "MemAvailable:   23456 kB" and "inactive_file 4096": the number behind a key.
std::optional<std::int64_t> number_behind(const fs::path& file, std::string_view key) {
  std::ifstream stream(file);
  std::string word;
  while (stream >> word) {
    std::int64_t value = 0;
    if (word == key && stream >> value) return value;
  }
  return std::nullopt;
}

// A file with one number; "max" is none.
std::optional<std::int64_t> number_in(const fs::path& file) {
  std::ifstream stream(file);
  std::int64_t value = 0;
  if (stream >> value) return value;
  return std::nullopt;
}

// How one version of control groups names its files.
struct GroupFiles {
  fs::path mount;
  const char* limit;
  const char* usage;
  const char* reclaimable;  // a key of memory.stat
};

std::int64_t kibibytes(const fs::path& meminfo, std::string_view key) {
  const auto value = number_behind(meminfo, key);
  require(value.has_value() && *value >= 0, ErrorCode::kDevice, "{} does not say {}",
          meminfo.string(), key);
  return *value * 1024;
}

class Reader {
 public:
  explicit Reader(const fs::path& root) : root_(root) {
    memory_.total = Bytes(kibibytes(root / "proc/meminfo", "MemTotal:"));
    memory_.available =
        std::min(memory_.total, Bytes(kibibytes(root / "proc/meminfo", "MemAvailable:")));
  }

  MachineMemory read() {
    std::ifstream groups(root_ / "proc/self/cgroup");
    for (std::string line; std::getline(groups, line);) read_group(line);
    return memory_;
  }

 private:
  // "0::/user.slice/job" of version 2, "5:cpu,memory:/job" of version 1.
  void read_group(const std::string& line) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) return;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    if (controllers == ",,")
      read_levels({root_ / "sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"}, path);
    else if (controllers.find(",memory,") != std::string::npos)
      read_levels({root_ / "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                   "total_inactive_file"},
                  path);
  }

  // Inside a container the path may be one of the host, which is not mounted; its own group is then
  // at the root.
  void read_levels(const GroupFiles& files, const std::string& path) {
    fs::path level = fs::path(path).relative_path();
    while (true) {
      apply_limit(files, files.mount / level, "/" + level.generic_string());
      if (level.empty()) return;
      level = level.parent_path();
    }
  }

  void apply_limit(const GroupFiles& files, const fs::path& folder, const std::string& name) {
    const auto limit = number_in(folder / files.limit);
    if (!limit || *limit <= 0) return;
    if (Bytes(*limit) < memory_.total) {
      memory_.total = Bytes(*limit);
      memory_.limit = name;
    }
    // What was read from files and not for a while is given back when memory is asked for.
    const std::int64_t used = number_in(folder / files.usage).value_or(0) -
                              number_behind(folder / "memory.stat", files.reclaimable).value_or(0);
    memory_.available = std::clamp(Bytes(*limit - std::clamp<std::int64_t>(used, 0, *limit)),
                                   Bytes(0), memory_.available);
  }

  fs::path root_;
  MachineMemory memory_;
};

}  // namespace

MachineMemory machine_memory(const std::filesystem::path& root) { return Reader(root).read(); }

}  // namespace sextant
