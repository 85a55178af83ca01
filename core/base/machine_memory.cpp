// Reads /proc/meminfo, then the limits of the control groups that the process is in.
#include "core/base/machine_memory.h"

#include "core/base/check.h"
#include "core/base/control_groups.h"

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

// How a version of control groups names its files.
struct GroupFiles {
  const char* limit;
  const char* usage;
  const char* reclaimable;  // a key of memory.stat
};

GroupFiles files_of(ControlGroup::Version version) {
  switch (version) {
    case ControlGroup::Version::k1:
      return {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};
    case ControlGroup::Version::k2:
      break;
  }
  return {"memory.max", "memory.current", "inactive_file"};
}

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
    for (const ControlGroup& group : control_groups(root_, "memory")) apply_limit(group);
    return memory_;
  }

 private:
  void apply_limit(const ControlGroup& group) {
    const GroupFiles files = files_of(group.version);
    const auto limit = number_in(group.folder / files.limit);
    if (!limit || *limit <= 0) return;
    if (Bytes(*limit) < memory_.total) {
      memory_.total = Bytes(*limit);
      memory_.limit = group.name;
    }
    // What was read from files and not for a while is given back when memory is asked for.
    const std::int64_t used =
        number_in(group.folder / files.usage).value_or(0) -
        number_behind(group.folder / "memory.stat", files.reclaimable).value_or(0);
    memory_.available = std::clamp(Bytes(*limit - std::clamp<std::int64_t>(used, 0, *limit)),
                                   Bytes(0), memory_.available);
  }

  fs::path root_;
  MachineMemory memory_;
};

}  // namespace

MachineMemory machine_memory(const std::filesystem::path& root) { return Reader(root).read(); }

}  // namespace sextant
