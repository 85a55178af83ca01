// The rules of cluster_rules.h, part by part.
#include "simulator/clusters/cluster_rules.h"

#include "core/base/error.h"
#include "core/base/nearest.h"
#include "core/graphs/fused_kinds.h"
#include "core/graphs/kernel_names.h"
#include "simulator/clusters/cluster_fields.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

namespace sextant {

namespace {

class Rules {
 public:
  void check(bool good, std::string key, std::string what) {
    if (!good) broken_.push_back({std::move(key), std::move(what)});
  }

  void check_number(std::string key, double value, ValueRange range, QuantityKind kind) {
    if (!is_in(value, range))
      check(false, std::move(key), fmt::format("is {}, wanted a number {}", value, text_of(range)));
    else if (const std::string fault = fault_of(value, range, kind); !fault.empty())
      check(false, std::move(key), fmt::format("is {} {}, {}", value, unit_of(kind), fault));
  }

  template <typename Owner, typename Fields>
  void check_numbers(const std::string& path, const Owner& owner, const Fields& fields) {
    for (const auto& field : fields)
      check_number(path + "." + std::string(field.key), (owner.*field.member).value, field.range,
                   field.kind);
  }

  std::vector<BrokenRule> take() { return std::move(broken_); }

 private:
  std::vector<BrokenRule> broken_;
};

bool is_absent(const NetworkLink& link) { return link.name.empty() && link.bandwidth.value == 0; }

// ---------------------------------------------------------------- devices

// Repeated measurements scatter, and cost models take their mean; one that is this many times
// another is a mistake, such as two units in one table. A matmul's name holds its shape; of others
// several operators may have one name, FLOPs and bytes, and times up to three apart on an H200.
constexpr double kMostScatter = 10, kMostScatterOfMatmuls = 2;

// A kernel takes a picosecond (where one launch is shared by many calls) to an hour.
constexpr double kShortestKernel = 1e-12, kLongestKernel = 3600;
constexpr double kMostFlops = 1e24;  // of one kernel: more than a step of the largest models

void check_measured_kernel(Rules& rules, const std::string& path, const MeasuredKernel& kernel) {
  try {
    require_kernel_name(kernel.kernel);
  } catch (const Error& error) {
    rules.check(false, path + ".kernel", error.what());
  }
  rules.check(is_in(kernel.flops, ValueRange::kNotNegative) && kernel.flops <= kMostFlops,
              path + ".flops",
              fmt::format("is {}, wanted a number from zero to {:g}", kernel.flops, kMostFlops));
  const double most_bytes = limits_of(QuantityKind::kBytes).most;
  rules.check(
      kernel.bytes.value >= 0 && static_cast<double>(kernel.bytes.value) <= most_bytes,
      path + ".bytes",
      fmt::format("is {}, wanted a number from zero to {:g}", kernel.bytes.value, most_bytes));
  rules.check(kernel.seconds >= kShortestKernel && kernel.seconds <= kLongestKernel,
              path + ".seconds",
              fmt::format("is {}, wanted the time of one kernel, {:g} to {:g} s", kernel.seconds,
                          kShortestKernel, kLongestKernel));
}

void check_measured(Rules& rules, const std::string& path, const MeasuredKernels& measured) {
  std::map<std::tuple<std::string, double, std::int64_t>, std::size_t> seen;
  for (std::size_t i = 0; i < measured.kernels.size(); ++i) {
    const MeasuredKernel& kernel = measured.kernels[i];
    const std::string place = fmt::format("{}.kernels[{}]", path, i);
    check_measured_kernel(rules, place, kernel);
    const auto [first, is_new] =
        seen.try_emplace({kernel.kernel, kernel.flops, kernel.bytes.value}, i);
    const double before = measured.kernels[first->second].seconds;
    const auto [least, most] = std::minmax(before, kernel.seconds);
    const double scatter =
        kernel.kernel.starts_with("matmul:") ? kMostScatterOfMatmuls : kMostScatter;
    rules.check(is_new || most <= least * scatter, place,
                fmt::format("says that '{}' takes {} s, but kernels[{}] says {} s", kernel.kernel,
                            kernel.seconds, first->second, before));
  }
  rules.check(!measured.kernels.empty(), path + ".kernels", "is empty");
}

void check_rates(Rules& rules, const std::string& path, const std::vector<KernelRate>& rates) {
  std::set<std::pair<std::string, std::optional<DType>>> seen;
  for (std::size_t i = 0; i < rates.size(); ++i) {
    const std::string place = fmt::format("{}[{}]", path, i);
    const std::vector<std::string>& known = rated_kernels();
    const std::string& kernel = rates[i].kernel;
    rules.check(std::find(known.begin(), known.end(), kernel) != known.end(), place + ".kernel",
                fmt::format("is '{}', which is no family of kernels{}; known: {}", kernel,
                            did_you_mean(kernel, known), comma_list(known)));
    rules.check(seen.insert({kernel, rates[i].dtype}).second, place,
                fmt::format("is the second rate of '{}'", kernel));
    rules.check_numbers(place, rates[i], kRateFields);
  }
}

void check_device(Rules& rules, const std::string& path, const DeviceKind& device) {
  rules.check_number(path + ".memory", static_cast<double>(device.memory.value),
                     ValueRange::kPositive, QuantityKind::kBytes);
  rules.check(!device.peaks.empty(), path + ".peaks", "is empty");
  for (const PeakRate& peak : device.peaks)
    rules.check_number(path + ".peaks." + std::string(to_string(peak.dtype)),
                       peak.flops_per_second.value, ValueRange::kPositive,
                       QuantityKind::kFlopsPerSecond);
  rules.check_numbers(path, device, kDeviceFields);
  rules.check_numbers(path + ".library_memory", device.library_memory, kLibraryFields);
  for (const std::string& kind : device.fused)
    rules.check(find_fused_kind(kind) != nullptr, path + ".fused",
                fmt::format("names '{}', which is no fused kind", kind));
  check_rates(rules, path + ".rates", device.rates);
  if (device.measured) check_measured(rules, path + ".measured", *device.measured);
}

// ---------------------------------------------------------------- links

// Which of `count` things hang together when cables join them.
class Islands {
 public:
  explicit Islands(std::int64_t count) : parents_(static_cast<std::size_t>(count)) {
    std::iota(parents_.begin(), parents_.end(), std::size_t{0});
  }
  std::size_t of(std::int64_t thing) {
    auto at = static_cast<std::size_t>(thing);
    while (parents_[at] != at) at = parents_[at] = parents_[parents_[at]];
    return at;
  }
  void join(std::int64_t a, std::int64_t b) { parents_[of(a)] = of(b); }

 private:
  std::vector<std::size_t> parents_;
};

// `count` is what the cables join: devices of a node, or nodes.
void check_cables(Rules& rules, const std::string& path, const std::vector<Cable>& cables,
                  std::int64_t count) {
  Islands islands(count);
  bool all_exist = true;
  for (std::size_t i = 0; i < cables.size(); ++i) {
    const Cable& cable = cables[i];
    const std::string place = fmt::format("{}[{}]", path, i);
    const auto exists = [count](std::int64_t end) { return end >= 0 && end < count; };
    const bool good = exists(cable.first) && exists(cable.second);
    rules.check(
        good, place,
        fmt::format("joins {} and {}: wanted 0 to {}", cable.first, cable.second, count - 1));
    rules.check(cable.first != cable.second, place, fmt::format("joins {} to itself", cable.first));
    rules.check(cable.lanes >= 1, place, fmt::format("has {} lanes", cable.lanes));
    all_exist = all_exist && good;
    if (good) islands.join(cable.first, cable.second);
  }
  for (std::int64_t i = 1; all_exist && i < count; ++i) {
    if (islands.of(i) == islands.of(0)) continue;
    rules.check(false, path, fmt::format("leave {} without a way to 0", i));
    return;
  }
}

void check_extents(Rules& rules, const std::string& path, const std::vector<std::int64_t>& extents,
                   std::int64_t count) {
  std::int64_t product = 1;
  for (const std::int64_t extent : extents) {
    rules.check(extent >= 1, path, fmt::format("has {}", extent));
    if (extent < 1) return;
    product = product > kMaxDevices / extent ? kMaxDevices + 1 : product * extent;
  }
  rules.check(product == count, path,
              product > kMaxDevices ? fmt::format("multiply to more than {}", kMaxDevices)
                                    : fmt::format("multiply to {}, wanted {}", product, count));
}

void check_link(Rules& rules, const std::string& path, const NetworkLink& link,
                std::int64_t count) {
  rules.check_numbers(path, link, kLinkFields);
  const std::string wiring(to_string(link.wiring));
  if (link.wiring == Wiring::kTorus)
    check_extents(rules, path + ".extents", link.extents, count);
  else
    rules.check(link.extents.empty(), path + ".extents",
                fmt::format("are of a torus, but the wiring is '{}'", wiring));
  if (link.wiring == Wiring::kCables)
    check_cables(rules, path + ".cables", link.cables, count);
  else
    rules.check(link.cables.empty(), path + ".cables",
                fmt::format("are not used: the wiring is '{}', wanted 'cables'", wiring));
  for (std::size_t i = 0; i < link.algorithms.size(); ++i)
    rules.check_numbers(fmt::format("{}.algorithms[{}]", path, i), link.algorithms[i],
                        kAlgorithmFields);
}

// ---------------------------------------------------------------- the whole

void check_outer_tiers(Rules& rules, const Cluster& cluster) {
  std::int64_t inside = 1;
  for (std::size_t i = 0; i < cluster.outer_tiers.size(); ++i) {
    const OuterTier& tier = cluster.outer_tiers[i];
    const std::string path = fmt::format("outer_tiers[{}]", i), key = path + ".nodes_per_group";
    const std::int64_t nodes = tier.nodes_per_group;
    if (nodes < 1 || nodes > cluster.nodes || cluster.nodes % nodes != 0) {
      rules.check(false, key,
                  fmt::format("is {}, which does not divide the {} nodes", nodes, cluster.nodes));
      return;
    }
    rules.check(
        nodes > inside && nodes % inside == 0, key,
        i == 0 ? fmt::format("is {}: a group of one node needs no tier, wanted 2 or more", nodes)
               : fmt::format("is {}, wanted a multiple of {}, what is in the tier inside", nodes,
                             inside));
    rules.check(nodes < cluster.nodes, key,
                fmt::format("is {}: all nodes are in one group, so nothing uses the link", nodes));
    const bool is_last = i + 1 == cluster.outer_tiers.size();
    const std::int64_t around =
        is_last ? cluster.nodes : cluster.outer_tiers[i + 1].nodes_per_group;
    check_link(rules, path + ".link", tier.link, std::max<std::int64_t>(around / nodes, 1));
    inside = nodes;
  }
}

void check_other_devices(Rules& rules, const Cluster& cluster) {
  const auto end_of = [](const OtherDevices& other) { return other.first_node + other.num_nodes; };
  for (std::size_t i = 0; i < cluster.other_devices.size(); ++i) {
    const OtherDevices& other = cluster.other_devices[i];
    const std::string path = fmt::format("other_devices[{}]", i);
    const bool inside = other.first_node >= 0 && other.num_nodes >= 1 &&
                        other.num_nodes <= cluster.nodes &&
                        other.first_node <= cluster.nodes - other.num_nodes;
    rules.check(inside, path,
                fmt::format("has {} nodes from node {}: wanted some of 0 to {}", other.num_nodes,
                            other.first_node, cluster.nodes - 1));
    for (std::size_t j = 0; inside && j < i; ++j) {
      const OtherDevices& before = cluster.other_devices[j];
      const std::int64_t shared = std::max(before.first_node, other.first_node);
      rules.check(shared >= std::min(end_of(before), end_of(other)), path,
                  fmt::format("has node {}, which other_devices[{}] has too", shared, j));
    }
    check_device(rules, path + ".device", other.device);
  }
}

}  // namespace

std::vector<BrokenRule> broken_rules(const Cluster& cluster) {
  Rules rules;
  rules.check(!cluster.name.empty(), "name", "is empty");
  rules.check(cluster.nodes >= 1, "nodes", fmt::format("is {}", cluster.nodes));
  rules.check(cluster.devices_per_node >= 1, "devices_per_node",
              fmt::format("is {}", cluster.devices_per_node));
  const bool few = cluster.nodes <= kMaxDevices && cluster.devices_per_node <= kMaxDevices &&
                   cluster.num_devices() <= kMaxDevices;
  rules.check(few, "nodes", fmt::format("make more than {} devices", kMaxDevices));
  check_device(rules, "device", cluster.device);
  const bool counted = few && cluster.nodes >= 1 && cluster.devices_per_node >= 1;
  if (cluster.devices_per_node > 1 || !is_absent(cluster.intra_node))
    check_link(rules, "intra_node", cluster.intra_node, counted ? cluster.devices_per_node : 1);
  if (counted) check_outer_tiers(rules, cluster);
  if (cluster.nodes > 1 || !is_absent(cluster.inter_node))
    check_link(rules, "inter_node", cluster.inter_node,
               !counted                      ? 1
               : cluster.outer_tiers.empty() ? cluster.nodes
                                             : cluster.outer_tiers.front().nodes_per_group);
  if (counted) check_other_devices(rules, cluster);
  return rules.take();
}

}  // namespace sextant
