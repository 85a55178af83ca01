// Cluster JSON as a whole, and what a CLUSTER argument may be.
#include "simulator/cluster_files/cluster_file.h"

#include "core/base/check.h"
#include "core/text/json_reader.h"
#include "core/text/json_text.h"
#include "simulator/cluster_files/cluster_import.h"
#include "simulator/cluster_files/device_json.h"
#include "simulator/cluster_files/link_json.h"
#include "simulator/cluster_files/sourced_json.h"
#include "simulator/clusters/builtin_argument.h"
#include "simulator/clusters/cluster_rules.h"
#include "simulator/clusters/figures.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <system_error>

namespace sextant {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kSchema = "sextant.cluster/1";

std::int64_t read_extent(const JsonCursor& cursor, std::string_view what) {
  const std::int64_t extent = cursor.integer();
  if (extent < 1) cursor.refuse(fmt::format("{} {}: the cluster is empty", extent, what));
  if (extent > kMaxDevices)
    cursor.refuse(fmt::format("{} {}: at most {}", extent, what, kMaxDevices));
  return extent;
}

// A link that no pair of devices needs may be left out.
NetworkLink read_link_if(const JsonCursor& cursor, std::string_view key, bool needed) {
  if (!needed && !cursor.contains(key)) return {};
  return read_link(cursor.at(key));
}

OuterTier read_tier(const JsonCursor& cursor) {
  cursor.allow_only({"nodes_per_group", "link"});
  return {read_extent(cursor.at("nodes_per_group"), "nodes per group"),
          read_link(cursor.at("link"))};
}

OtherDevices read_other_devices(const JsonCursor& cursor) {
  cursor.allow_only({"first_node", "num_nodes", "device"});
  return {cursor.at("first_node").integer_between(0, kMaxDevices),
          cursor.at("num_nodes").integer_between(1, kMaxDevices), read_device(cursor.at("device"))};
}

void read_schema(const JsonCursor& cursor) {
  if (cursor.text() != kSchema)
    cursor.refuse(fmt::format("schema '{}' is not '{}'", cursor.text(), kSchema));
}

bool looks_like_a_path(std::string_view argument) {
  return argument.find('/') != std::string_view::npos || argument.ends_with(".json");
}

}  // namespace

std::vector<std::string> validate(const Cluster& cluster) {
  std::vector<std::string> messages;
  for (const BrokenRule& rule : broken_rules(cluster))
    messages.push_back(rule.key + " " + rule.what);
  return messages;
}

std::string to_json_text(const Cluster& cluster) {
  Json json = {{"schema", kSchema},
               {"name", cluster.name},
               {"nodes", cluster.nodes},
               {"devices_per_node", cluster.devices_per_node},
               {"device", to_json(cluster.device)}};
  const auto is_present = [](const NetworkLink& link) {
    return !link.name.empty() || link.bandwidth.value != 0;
  };
  if (is_present(cluster.intra_node)) json["intra_node"] = to_json(cluster.intra_node);
  if (is_present(cluster.inter_node)) json["inter_node"] = to_json(cluster.inter_node);
  for (const OuterTier& tier : cluster.outer_tiers)
    json["outer_tiers"].push_back(
        {{"nodes_per_group", tier.nodes_per_group}, {"link", to_json(tier.link)}});
  for (const OtherDevices& other : cluster.other_devices)
    json["other_devices"].push_back({{"first_node", other.first_node},
                                     {"num_nodes", other.num_nodes},
                                     {"device", to_json(other.device)}});
  return to_readable_text(json);
}

Cluster cluster_from_json(std::string_view text, std::string_view file_name) {
  const JsonDocument document(text, std::string(file_name));
  const JsonCursor root = document.root();
  root.allow_only({"schema", "name", "nodes", "devices_per_node", "device", "intra_node",
                   "inter_node", "outer_tiers", "other_devices"});
  if (const auto schema = root.find("schema")) read_schema(*schema);
  Cluster cluster;
  cluster.name = read_name(root.at("name"));
  cluster.nodes = read_extent(root.at("nodes"), "nodes");
  cluster.devices_per_node = read_extent(root.at("devices_per_node"), "devices per node");
  cluster.device = read_device(root.at("device"));
  cluster.intra_node = read_link_if(root, "intra_node", cluster.devices_per_node > 1);
  cluster.inter_node = read_link_if(root, "inter_node", cluster.nodes > 1);
  if (const auto tiers = root.find("outer_tiers"))
    for (const JsonCursor& tier : tiers->elements()) cluster.outer_tiers.push_back(read_tier(tier));
  if (const auto others = root.find("other_devices"))
    for (const JsonCursor& other : others->elements())
      cluster.other_devices.push_back(read_other_devices(other));
  for (const BrokenRule& rule : broken_rules(cluster))
    fail(ErrorCode::kBadInput, "{}: {}: {}", file_name, rule.key, rule.what);
  mark_edited_figures(cluster);
  return cluster;
}

Cluster load_cluster(std::string_view cluster) {
  std::error_code ignored;
  const std::string path(cluster);
  if (looks_like_a_path(cluster) || std::filesystem::is_regular_file(path, ignored))
    return import_cluster(read_text_file(path), path).cluster;
  return builtin_cluster(cluster);
}

}  // namespace sextant
