// Machine rooms that need no file, put together from builtin_devices and builtin_links.
#pragma once

#include "core/costs/cluster.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace sextant {

enum class SettingKind : std::uint8_t { kCount, kBytes };

struct BuiltinSetting {
  std::string key;            // "nodes"
  std::int64_t fallback = 1;  // 0: what the cluster makes of leaving it out
  SettingKind kind = SettingKind::kCount;
};

struct BuiltinCluster {
  std::string name;
  std::string summary;
  std::vector<BuiltinSetting> settings;                                  // the first is its size
  std::function<Cluster(const std::vector<std::int64_t>& values)> make;  // one per setting
};

const std::vector<BuiltinCluster>& builtin_clusters();  // sorted by name

}  // namespace sextant
