// The control groups that a process is in, as Linux says it: who may limit its memory or its time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

struct ControlGroup {
  enum class Version : std::uint8_t { k1, k2 };
  Version version = Version::k2;
  std::filesystem::path folder;  // with the files of the controller
  std::string name;              // "/slice/job"
};

// Groups of a controller ("memory", "cpu"), from the process's own up to the root; folders need not
// exist. Inside a container the path may be one of the host, which is not mounted; its own group is
// then at the root. `root` is where `proc` and `sys` lie.
std::vector<ControlGroup> control_groups(const std::filesystem::path& root,
                                         std::string_view controller);

}  // namespace sextant
