// Looks up built-in clusters and reads their settings.
#include "simulator/clusters/builtin_argument.h"

#include "core/base/check.h"
#include "core/base/nearest.h"
#include "core/text/settings_text.h"
#include "simulator/clusters/builtin_clusters.h"
#include "simulator/clusters/cluster_fields.h"
#include "simulator/clusters/cluster_rules.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>
#include <vector>

namespace sextant {

namespace {

// "dgx-h100:nodes=N", "cpu:ranks=N,cores=N,memory=SIZE": how a built-in is written.
std::string usage_of(const BuiltinCluster& builtin) {
  std::string usage = builtin.name;
  for (const BuiltinSetting& setting : builtin.settings)
    usage += fmt::format("{}{}={}", usage == builtin.name ? ":" : ",", setting.key,
                         setting.kind == SettingKind::kBytes ? "SIZE" : "N");
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

std::int64_t parse_size(const BuiltinCluster& builtin, std::string_view key,
                        std::string_view text) {
  const auto refuse = [&](const std::string& why) {
    fail(ErrorCode::kUsage, "{} '{}' of cluster '{}' {}", key, text, builtin.name, why);
  };
  Bytes size;
  try {
    static_cast<void>(parse_quantity(text, QuantityKind::kBytes));
    size = parse_bytes(text);
  } catch (const Error& error) {
    refuse(fmt::format("is no size: {}", error.what()));
  }
  const std::string fault =
      fault_of(static_cast<double>(size.value), ValueRange::kPositive, QuantityKind::kBytes);
  if (!fault.empty()) refuse("is " + fault);
  return size.value;
}

void read_setting(const BuiltinCluster& builtin, const Setting& setting,
                  std::vector<std::int64_t>& values) {
  for (std::size_t i = 0; i < builtin.settings.size(); ++i) {
    const std::string& key = builtin.settings[i].key;
    if (setting.key != key) continue;
    values[i] = builtin.settings[i].kind == SettingKind::kBytes
                    ? parse_size(builtin, key, setting.value)
                    : parse_count(builtin, key, setting.value);
    return;
  }
  fail(ErrorCode::kUsage, "cluster '{}' has no setting '{}': wanted '{}'", builtin.name,
       setting.key, usage_of(builtin));
}

// `settings` is what stands behind the colon of `argument`.
Cluster make_builtin(const BuiltinCluster& builtin, std::string_view settings,
                     std::string_view argument) {
  std::vector<std::int64_t> values;
  for (const BuiltinSetting& setting : builtin.settings) values.push_back(setting.fallback);
  for (const Setting& setting : parse_settings(settings, ",", argument))
    read_setting(builtin, setting, values);
  const Cluster cluster = builtin.make(values);
  require(cluster.num_devices() <= kMaxDevices, ErrorCode::kUsage,
          "cluster '{}' has {} devices: at most {}", builtin.name, cluster.num_devices(),
          kMaxDevices);
  return cluster;
}

}  // namespace

Cluster builtin_cluster(std::string_view argument) {
  const std::size_t colon = std::min(argument.find(':'), argument.size());
  require(colon + 1 != argument.size(), ErrorCode::kUsage, "'{}': nothing behind the colon",
          argument);
  const std::string_view name = argument.substr(0, colon);
  for (const BuiltinCluster& builtin : builtin_clusters())
    if (builtin.name == name)
      return make_builtin(builtin, argument.substr(std::min(colon + 1, argument.size())), argument);
  const std::vector<std::string> names = builtin_cluster_names();
  fail(ErrorCode::kUsage, "no file and no built-in cluster '{}'{}; built in: {}", name,
       did_you_mean(name, names), comma_list(names));
}

std::vector<std::string> builtin_cluster_names() {
  std::vector<std::string> names;
  for (const BuiltinCluster& builtin : builtin_clusters()) names.push_back(builtin.name);
  return names;
}

}  // namespace sextant
