// Each key names the numbers that it changes; a factor goes to all of them.

#include "simulator/reports/what_if.h"

#include "core/base/check.h"
#include "core/base/nearest.h"
#include "core/text/quantity_text.h"
#include "core/text/split_text.h"
#include "simulator/cluster_files/cluster_file.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <optional>
#include <set>

namespace sextant {

namespace {

constexpr std::int64_t kMostValues = 1000, kValuesOfARange = 9;
// Beyond, steps take no time or more than is counted.
constexpr double kMostFactor = 1e4;

// ---------------------------------------------------------------- text

[[noreturn]] void refuse(std::string_view text, const std::string& why) {
  fail(ErrorCode::kUsage,
       "'{}': {}; wanted KEY=2x, KEY=+10%, KEY=-10% or a quantity with its unit (KEY=50GB/s)", text,
       why);
}

std::optional<double> number_of(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return {};
  return value;
}

// "2x", "+10%"; nothing for quantities.
std::optional<double> factor_of(std::string_view text) {
  if (text.ends_with('x')) return number_of(text.substr(0, text.size() - 1));
  const bool relative = (text.starts_with('+') || text.starts_with('-')) && text.ends_with('%');
  if (!relative) return {};
  const auto percent = number_of(text.substr(1, text.size() - 2));
  if (!percent) return {};
  return 1 + (text.front() == '-' ? -*percent : *percent) / 100;
}

struct KeyAndValue {
  std::string key;
  std::string_view value;
};

KeyAndValue split(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0 || equals + 1 == text.size())
    refuse(text, "no KEY=VALUE");
  std::string key(text.substr(0, equals));
  if (key.starts_with("device.")) key = "gpu." + key.substr(7);
  return {key, text.substr(equals + 1)};
}

void require_factor(double factor, std::string_view text) {
  if (factor <= 0) refuse(text, fmt::format("a factor of {} leaves nothing", factor));
  if (factor < 1 / kMostFactor || factor > kMostFactor)
    refuse(text, fmt::format("a factor of {:g} is no machine's: {:g} to {:g}", factor,
                             1 / kMostFactor, kMostFactor));
}

WhatIf change_of(const std::string& key, std::string_view value, std::string_view text) {
  const bool relative = value.ends_with('x') || value.starts_with('+') || value.starts_with('-');
  if (!relative) return {key, 1, std::string(value)};
  const std::optional<double> factor = factor_of(value);
  if (!factor) refuse(text, fmt::format("'{}' is no factor", value));
  require_factor(*factor, text);
  return {key, *factor, ""};
}

// ---------------------------------------------------------------- numbers of a cluster

// What one key stands for.
struct Knob {
  std::string key;
  QuantityKind kind = QuantityKind::kCount;
  std::vector<Sourced*> numbers;
  // Numbers that only scale with them: measured times, latencies of algorithms.
  std::function<void(double factor)> follow = [](double) {};
  Bytes* memory = nullptr;  // instead of numbers
};

bool is_matmul(const MeasuredKernel& kernel) {
  return kernel.kernel.starts_with("matmul") || kernel.kernel.starts_with("scaled_matmul");
}

void scale_measured(std::optional<MeasuredKernels>& measured, bool matmuls, double factor) {
  if (!measured) return;
  for (MeasuredKernel& kernel : measured->kernels)
    if (is_matmul(kernel) == matmuls) kernel.seconds /= factor;
}

void add_device_knobs(DeviceKind& device, std::vector<Knob>& knobs) {
  Knob all{"gpu.flops", QuantityKind::kFlopsPerSecond, {}};
  all.follow = [&device](double factor) { scale_measured(device.measured, true, factor); };
  for (PeakRate& peak : device.peaks) {
    all.numbers.push_back(&peak.flops_per_second);
    Knob one{"gpu.flops." + std::string(to_string(peak.dtype)),
             QuantityKind::kFlopsPerSecond,
             {&peak.flops_per_second}};
    if (device.measured && device.measured->dtype == peak.dtype) one.follow = all.follow;
    knobs.push_back(std::move(one));
  }
  knobs.push_back(std::move(all));
  Knob bandwidth{"gpu.memory_bandwidth", QuantityKind::kBytesPerSecond, {&device.memory_bandwidth}};
  bandwidth.follow = [&device](double factor) { scale_measured(device.measured, false, factor); };
  knobs.push_back(std::move(bandwidth));
  Knob memory{"gpu.memory", QuantityKind::kCount, {}};
  memory.memory = &device.memory;
  knobs.push_back(std::move(memory));
  const auto plain = [&](const char* key, QuantityKind kind, Sourced& number) {
    knobs.push_back({key, kind, {&number}});
  };
  plain("gpu.matmul_efficiency", QuantityKind::kShare, device.matmul_efficiency);
  plain("gpu.memory_efficiency", QuantityKind::kShare, device.memory_efficiency);
  plain("gpu.kernel_overhead", QuantityKind::kSeconds, device.kernel_overhead);
  plain("host.launch", QuantityKind::kSeconds, device.launch_overhead);
}

void add_link_knobs(NetworkLink& link, const std::string& position, std::vector<Knob>& knobs) {
  if (link.bandwidth.value == 0) return;  // absent
  std::set<std::string> names = {position, link.name, link.name.substr(0, link.name.find('-'))};
  names.erase("");
  for (const std::string& name : names) {
    const std::string prefix = "link." + name + ".";
    knobs.push_back({prefix + "bandwidth", QuantityKind::kBytesPerSecond, {&link.bandwidth}});
    Knob latency{prefix + "latency", QuantityKind::kSeconds, {&link.latency}};
    latency.follow = [&link](double factor) {
      for (CollectiveAlgorithm& algorithm : link.algorithms) {
        algorithm.base_latency.value *= factor;
        algorithm.step_latency.value *= factor;
      }
    };
    knobs.push_back(std::move(latency));
    Knob efficiency{prefix + "efficiency", QuantityKind::kShare, {&link.efficiency}};
    efficiency.follow = [&link](double factor) {
      for (CollectiveAlgorithm& algorithm : link.algorithms) algorithm.efficiency.value *= factor;
    };
    knobs.push_back(std::move(efficiency));
  }
}

// Several knobs may have one key: links of one name, devices of several kinds.
std::vector<Knob> knobs_of(Cluster& cluster) {
  std::vector<Knob> knobs;
  add_device_knobs(cluster.device, knobs);
  for (OtherDevices& other : cluster.other_devices) add_device_knobs(other.device, knobs);
  if (cluster.devices_per_node > 1) add_link_knobs(cluster.intra_node, "intra_node", knobs);
  if (cluster.nodes > 1) add_link_knobs(cluster.inter_node, "inter_node", knobs);
  for (std::size_t i = 0; i < cluster.outer_tiers.size(); ++i)
    add_link_knobs(cluster.outer_tiers[i].link, fmt::format("outer{}", i + 1), knobs);
  return knobs;
}

void set(Sourced& number, double value, const WhatIf& change) {
  number = {
      value, Provenance::kAssumed,
      fmt::format("what if {}: was {:.6g}, {}{}{}", to_text(change), number.value,
                  to_string(number.provenance), number.source.empty() ? "" : ": ", number.source)};
}

void apply(const WhatIf& change, Knob& knob) {
  const bool by_factor = change.quantity.empty();
  if (knob.memory != nullptr) {
    const auto bytes = static_cast<double>(knob.memory->value) * change.factor;
    require(bytes < 9e18, ErrorCode::kUsage, "{}: {} bytes are more than a number holds",
            to_text(change), bytes);
    *knob.memory = by_factor ? Bytes(std::llround(bytes))
                             : parse_named(to_text(change), change.quantity, parse_bytes);
    return;
  }
  require(by_factor || knob.numbers.size() == 1, ErrorCode::kUsage,
          "{}: the key stands for {} numbers; give a factor, or name one of them", to_text(change),
          knob.numbers.size());
  double factor = change.factor;
  for (Sourced* number : knob.numbers) {
    const double before = number->value;
    const double after =
        by_factor ? before * change.factor
                  : parse_named(to_text(change), change.quantity, [&](std::string_view quantity) {
                      return parse_quantity(quantity, knob.kind);
                    });
    if (!by_factor && before > 0) factor = after / before;
    set(*number, after, change);
  }
  knob.follow(factor);
}

// ---------------------------------------------------------------- sweeps

std::vector<double> factors_between(double first, double last, std::int64_t count) {
  std::vector<double> factors;
  for (std::int64_t i = 0; i < count; ++i) {
    const double share = count == 1 ? 0 : static_cast<double>(i) / static_cast<double>(count - 1);
    // The ends as they were written, and powers of two where they are meant.
    const double factor = first * std::pow(last / first, share);
    factors.push_back(i + 1 == count && count > 1 ? last : factor);
  }
  return factors;
}

std::vector<WhatIf> sweep_range(const std::string& key, std::string_view value,
                                std::string_view text) {
  const std::size_t dots = value.find("..");
  const std::size_t colon = value.find(':', dots);
  std::int64_t count = kValuesOfARange;
  if (colon != std::string_view::npos) {
    const auto number = number_of(value.substr(colon + 1));
    if (!number || *number < 2 || *number > kMostValues || *number != std::floor(*number))
      refuse(text, fmt::format("'{}' values: 2 to {}", value.substr(colon + 1), kMostValues));
    count = static_cast<std::int64_t>(*number);
    value = value.substr(0, colon);
  }
  const auto first = factor_of(value.substr(0, dots)), last = factor_of(value.substr(dots + 2));
  if (!first || !last) refuse(text, "a range goes from one factor to another, 0.5x..2x");
  for (const double end : {*first, *last}) require_factor(end, text);
  std::vector<WhatIf> changes;
  for (const double factor : factors_between(*first, *last, count))
    changes.push_back({key, factor, ""});
  return changes;
}

}  // namespace

WhatIf parse_what_if(std::string_view text) {
  const auto [key, value] = split(text);
  return change_of(key, value, text);
}

std::string to_text(const WhatIf& change) {
  return change.quantity.empty() ? fmt::format("{}={:.6g}x", change.key, change.factor)
                                 : fmt::format("{}={}", change.key, change.quantity);
}

std::vector<std::string> what_if_keys(const Cluster& cluster) {
  Cluster copy = cluster;
  std::set<std::string> keys;
  for (const Knob& knob : knobs_of(copy)) keys.insert(knob.key);
  return {keys.begin(), keys.end()};
}

Cluster changed(const Cluster& cluster, const WhatIf& change) {
  Cluster result = cluster;
  bool found = false;
  for (Knob& knob : knobs_of(result)) {
    if (knob.key != change.key) continue;
    apply(change, knob);
    found = true;
  }
  if (!found) {
    const std::vector<std::string> keys = what_if_keys(cluster);
    fail(ErrorCode::kUsage, "'{}' has no '{}'{}; it has {}", cluster.name, change.key,
         did_you_mean(change.key, keys), comma_list(keys));
  }
  const std::vector<std::string> broken = validate(result);
  require(broken.empty(), ErrorCode::kUsage, "{}: {}", to_text(change),
          broken.empty() ? "" : broken.front());
  return result;
}

std::vector<WhatIf> parse_sweep(std::string_view text) {
  const auto [key, value] = split(text);
  if (value.find("..") != std::string_view::npos) return sweep_range(key, value, text);
  std::vector<WhatIf> changes;
  for (const std::string_view one : split_text(value, ',')) {
    if (one.empty()) refuse(text, "an empty value");
    changes.push_back(change_of(key, one, text));
    if (std::find(changes.begin(), changes.end() - 1, changes.back()) != changes.end() - 1)
      refuse(text, fmt::format("{} stands twice", to_text(changes.back())));
  }
  if (changes.size() > kMostValues) refuse(text, fmt::format("{} values", changes.size()));
  return changes;
}

}  // namespace sextant
