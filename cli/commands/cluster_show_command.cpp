// `sextant cluster show`: every number of a cluster with where it comes from.
#include "cli/verb.h"
#include "cli/verbs.h"
#include "core/text/counted_text.h"
#include "simulator/cluster_files/cluster_file.h"
#include "simulator/clusters/cluster_fields.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace sextant {
namespace {

std::string value_text(double value, QuantityKind kind) {
  switch (kind) {
    case QuantityKind::kBytesPerSecond:
      return bandwidth_to_text(value);
    case QuantityKind::kFlopsPerSecond:
      return flops_rate_to_text(value);
    case QuantityKind::kSeconds:
      return to_text(duration_from_seconds(value));
    case QuantityKind::kShare:
      return percent(value);
    case QuantityKind::kBytes:
      return to_text(Bytes(static_cast<std::int64_t>(value)));
    case QuantityKind::kCount:
      return fmt::format("{}", value);
  }
  return "?";
}

// "50.0 GB/s (published: one 400 Gb/s NDR port per GPU)".
std::string text_of(const Sourced& number, QuantityKind kind) {
  return fmt::format("{} ({}{}{})", value_text(number.value, kind), to_string(number.provenance),
                     number.source.empty() ? "" : ": ", number.source);
}

// "memory_bandwidth" -> "memory bandwidth".
std::string words_of(std::string_view key) {
  std::string words(key);
  for (char& letter : words)
    if (letter == '_') letter = ' ';
  return words;
}

class Listing {
 public:
  explicit Listing(Console& console) : console_(console) {}

  void say(int level, const std::string& line) {
    console_.say(std::string(static_cast<std::size_t>(2 * level), ' ') + line);
  }

  template <typename Owner, typename Fields>
  void say_fields(int level, const Owner& owner, const Fields& fields) {
    for (const auto& field : fields)
      say(level, words_of(field.key) + ": " + text_of(owner.*field.member, field.kind));
  }

  void say_device(int level, const DeviceKind& device) {
    if (!device.memory_source.empty())
      say(level, fmt::format("memory: {} ({})", to_text(device.memory), device.memory_source));
    for (const PeakRate& peak : device.peaks)
      say(level, fmt::format("{}: {}", to_string(peak.dtype),
                             text_of(peak.flops_per_second, QuantityKind::kFlopsPerSecond)));
    say_fields(level, device, kDeviceFields);
    for (const auto& field : kLibraryFields)
      say(level, fmt::format("memory of libraries, {}: {}", words_of(field.key),
                             text_of(device.library_memory.*field.member, field.kind)));
    if (device.measured)
      say(level,
          fmt::format("{} in {} ({}: {}){}", counted(device.measured->kernels.size(), "kernel"),
                      to_string(device.measured->dtype), to_string(device.measured->provenance),
                      device.measured->source, expected_error_text(*device.measured)));
    for (const KernelRate& rate : device.rates) say_rate(level, rate);
  }

  void say_rate(int level, const KernelRate& rate) {
    for (const auto& field : kRateFields) {
      const Sourced& number = rate.*field.member;
      if (number.value == 0) continue;
      say(level, fmt::format("{}{}, {}: {}", rate.kernel,
                             rate.dtype ? fmt::format(" in {}", to_string(*rate.dtype)) : "",
                             words_of(field.key), text_of(number, field.kind)));
    }
  }

  static std::string expected_error_text(const MeasuredKernels& measured) {
    if (measured.expected_error == 0) return "";
    return fmt::format(", others within {:.0f} % of their time in the median",
                       100 * measured.expected_error);
  }

  void say_link(const std::string& where, const NetworkLink& link) {
    say(1, fmt::format("{}: {}, {}", where, link.name, wiring_text(link)));
    say_fields(2, link, kLinkFields);
    for (const CollectiveAlgorithm& way : link.algorithms) {
      say(2, fmt::format("{} with {}{}{}:", way.name, way.protocol,
                         way.primitive.empty() ? "" : " for ", way.primitive));
      say_fields(3, way, kAlgorithmFields);
    }
  }

 private:
  static std::string wiring_text(const NetworkLink& link) {
    std::string text = words_of(to_string(link.wiring));
    for (std::size_t i = 0; i < link.extents.size(); ++i)
      text += fmt::format("{}{}", i == 0 ? " of " : " x ", link.extents[i]);
    for (std::size_t i = 0; i < link.cables.size(); ++i)
      text +=
          fmt::format("{} {}-{}{}", i == 0 ? "" : ",", link.cables[i].first, link.cables[i].second,
                      link.cables[i].lanes > 1 ? fmt::format(" x{}", link.cables[i].lanes) : "");
    return text;
  }

  Console& console_;
};

void run_cluster_show(const std::string& argument, const CommonOptions&, Console& console) {
  const Cluster cluster = load_cluster(argument);
  Listing listing(console);
  listing.say(0, fmt::format("{}: {} x {} {}, {} each", cluster.name,
                             counted(cluster.nodes, "node"), cluster.devices_per_node,
                             cluster.device.name, to_text(cluster.device.memory)));
  listing.say_device(1, cluster.device);
  if (cluster.devices_per_node > 1) listing.say_link("within a node", cluster.intra_node);
  if (cluster.nodes > 1) listing.say_link("between nodes", cluster.inter_node);
  for (const OuterTier& tier : cluster.outer_tiers)
    listing.say_link(fmt::format("between groups of {}", counted(tier.nodes_per_group, "node")),
                     tier.link);
  for (const OtherDevices& other : cluster.other_devices) {
    listing.say(1, fmt::format("nodes {} to {}: {}, {} each", other.first_node,
                               other.first_node + other.num_nodes - 1, other.device.name,
                               to_text(other.device.memory)));
    listing.say_device(2, other.device);
  }
  console.document("cluster_show",
                   {{"cluster", nlohmann::ordered_json::parse(to_json_text(cluster))}});
}

}  // namespace

Verb cluster_show_verb() {
  const auto arguments = std::make_shared<std::string>();
  std::string& a = *arguments;
  return {
      .path = "cluster show",
      .text = "Figures of a cluster and where they come from",
      .examples =
          "Examples:\n  sextant cluster show dgx-h100:nodes=4\n  sextant cluster show cpu:ranks=4",
      .options =
          {
              {"cluster", &a, "file or built-in", true},
          },
      .action = [arguments](const CommonOptions& common, Console& console) {
        run_cluster_show(*arguments, common, console);
      }};
}

}  // namespace sextant
