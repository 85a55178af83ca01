// Reads /proc/self/cgroup.
#include "core/base/control_groups.h"

#include <fstream>

namespace sextant {
namespace {

namespace fs = std::filesystem;

void add_levels(ControlGroup::Version version, const fs::path& mount, const std::string& path,
                std::vector<ControlGroup>& groups) {
  fs::path level = fs::path(path).relative_path();
  while (true) {
    groups.push_back({version, mount / level, "/" + level.generic_string()});
    if (level.empty()) return;
    level = level.parent_path();
  }
}

}  // namespace

std::vector<ControlGroup> control_groups(const fs::path& root, std::string_view controller) {
  std::vector<ControlGroup> groups;
  std::ifstream lines(root / "proc/self/cgroup");
  // "0::/user.slice/job" of version 2, "5:cpu,memory:/job" of version 1.
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    const std::string wanted(controller);
    if (controllers == ",,")
      add_levels(ControlGroup::Version::k2, root / "sys/fs/cgroup", path, groups);
    else if (controllers.find("," + wanted + ",") != std::string::npos)
      add_levels(ControlGroup::Version::k1, root / "sys/fs/cgroup" / wanted, path, groups);
  }
  return groups;
}

}  // namespace sextant
