// Looks up built-in clusters and reads their settings.
#include "simulator/builtin_argument.h"

#include "core/check.h"
#include "core/nearest.h"
#include "simulator/builtin_clusters.h"
#include "simulator/cluster_file.h"
#include "simulator/cluster_rules.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>
#include <vector>

namespace sextant {

namespace {

// "dgx-h100:nodes=N", "cpu:ranks=N,cores=N": how a built-in is written.
std::string usage_of(const BuiltinCluster& builtin) {
  std::string usage = builtin.name;
  for (const BuiltinSetting& setting : builtin.settings)
    usage += fmt::format("{}{}=N", usage == builtin.name ? ":" : ",", setting.key);
  return usage;
}

std::int64_t parse_count(const BuiltinCluster& builtin, std::string_view key,
                         std::string_view text) {
  std::int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  require(error == std::errc() && end == text.data() + text.size() && count >= 1 &&
              count <= kMaxDevices / 8,
          ErrorCode::kUsage, "{} '{}' of cluster '{}' is not a count from 1 to {}", key, text,
          builtin.name, kMaxDevices / 8);
  return count;
}

void read_setting(const BuiltinCluster& builtin, std::string_view text,
                  std::vector<std::int64_t>& values) {
  const std::size_t equals = text.find('=');
  for (std::size_t i = 0; i < builtin.settings.size(); ++i) {
    const std::string& key = builtin.settings[i].key;
    if (equals == std::string_view::npos || text.substr(0, equals) != key) continue;
    values[i] = parse_count(builtin, key, text.substr(equals + 1));
    return;
  }
  fail(ErrorCode::kUsage, "cluster '{}' has no setting '{}': wanted '{}'", builtin.name, text,
       usage_of(builtin));
}

Cluster make_builtin(const BuiltinCluster& builtin, std::string_view settings) {
  std::vector<std::int64_t> values;
  for (const BuiltinSetting& setting : builtin.settings) values.push_back(setting.fallback);
  while (!settings.empty()) {
    const std::size_t comma = std::min(settings.find(','), settings.size());
    read_setting(builtin, settings.substr(0, comma), values);
    settings.remove_prefix(std::min(comma + 1, settings.size()));
  }
  const Cluster cluster = builtin.make(values);
  require(cluster.num_devices() <= kMaxDevices, ErrorCode::kUsage,
          "cluster '{}' has {} devices: at most {}", builtin.name, cluster.num_devices(),
          kMaxDevices);
  return cluster;
}

}  // namespace

Cluster builtin_cluster(std::string_view argument) {
  const std::size_t colon = std::min(argument.find(':'), argument.size());
  const std::string_view name = argument.substr(0, colon);
  for (const BuiltinCluster& builtin : builtin_clusters())
    if (builtin.name == name)
      return make_builtin(builtin, argument.substr(std::min(colon + 1, argument.size())));
  const std::vector<std::string> names = builtin_cluster_names();
  fail(ErrorCode::kUsage, "no file and no built-in cluster '{}'{}; built in: {}", name,
       did_you_mean(name, names), comma_list(names));
}

std::vector<std::string> builtin_cluster_names() {
  std::vector<std::string> names;
  for (const BuiltinCluster& builtin : builtin_clusters()) names.push_back(builtin.name);
  return names;
}

std::vector<std::string> describe_builtin_clusters() {
  std::vector<std::string> lines;
  for (const BuiltinCluster& builtin : builtin_clusters())
    lines.push_back(fmt::format("{}  {}", usage_of(builtin), builtin.summary));
  return lines;
}

}  // namespace sextant
