// Numbers of built-ins by what they claim.
#include "simulator/clusters/figures.h"

#include "simulator/clusters/builtin_clusters.h"
#include "simulator/clusters/cluster_fields.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>
#include <vector>

namespace sextant {

namespace {

using Visit = std::function<void(std::string_view key, Sourced& number)>;

bool is_stated(const Sourced& number) { return number.value != 0 || !number.source.empty(); }

template <typename Owner, typename Fields>
void visit_fields(Owner& owner, const Fields& fields, const Visit& visit) {
  for (const auto& field : fields)
    if (is_stated(owner.*field.member)) visit(field.key, owner.*field.member);
}

void visit_device(DeviceKind& device, const Visit& visit) {
  for (PeakRate& peak : device.peaks)
    visit("peak." + std::string(to_string(peak.dtype)), peak.flops_per_second);
  visit_fields(device, kDeviceFields, visit);
  visit_fields(device.library_memory, kLibraryFields, visit);
  for (KernelRate& rate : device.rates)
    visit_fields(rate, kRateFields, [&](std::string_view key, Sourced& number) {
      const std::string type = rate.dtype ? "." + std::string(to_string(*rate.dtype)) : "";
      visit(fmt::format("{}{}.{}", rate.kernel, type, key), number);
    });
}

void visit_link(NetworkLink& link, const Visit& visit) {
  if (link.bandwidth.value == 0) return;  // absent
  visit_fields(link, kLinkFields, visit);
  for (CollectiveAlgorithm& algorithm : link.algorithms)
    visit_fields(algorithm, kAlgorithmFields, visit);
}

// What a number claims: its field, where it comes from, and from which source.
using Claim = std::tuple<std::string, Provenance, std::string>;

bool is_claim(const Sourced& number) {
  return number.provenance != Provenance::kAssumed && !number.source.empty();
}

// A torus has a bandwidth per shape; other settings change assumed numbers only.
std::vector<std::vector<std::int64_t>> settings_of(const BuiltinCluster& cluster) {
  std::vector<std::int64_t> usual;
  for (const BuiltinSetting& setting : cluster.settings) usual.push_back(setting.fallback);
  std::vector<std::vector<std::int64_t>> all = {usual};
  const bool is_torus = !cluster.settings.empty() && cluster.settings.front().key == "x";
  for (std::size_t flat = 2; is_torus && flat > 0; --flat) {
    all.push_back(all.back());
    all.back()[flat] = 1;
  }
  return all;
}

std::map<Claim, std::set<double>> builtin_figures() {
  std::map<Claim, std::set<double>> values;
  for (const BuiltinCluster& builtin : builtin_clusters()) {
    for (const std::vector<std::int64_t>& settings : settings_of(builtin)) {
      Cluster cluster = builtin.make(settings);
      for_each_figure(cluster, [&values](std::string_view key, Sourced& number) {
        if (is_claim(number))
          values[{std::string(key), number.provenance, number.source}].insert(number.value);
      });
    }
  }
  return values;
}

// Units in texts round in the last digit.
bool is_same_figure(double a, double b) { return std::abs(a - b) <= 1e-9 * std::abs(b); }

}  // namespace

void for_each_figure(Cluster& cluster, const Visit& visit) {
  visit_device(cluster.device, visit);
  for (OtherDevices& other : cluster.other_devices) visit_device(other.device, visit);
  visit_link(cluster.intra_node, visit);
  visit_link(cluster.inter_node, visit);
  for (OuterTier& tier : cluster.outer_tiers) visit_link(tier.link, visit);
}

std::map<Provenance, std::int64_t> provenances_of(const Cluster& cluster) {
  Cluster copy = cluster;
  std::map<Provenance, std::int64_t> provenances;
  for_each_figure(copy, [&provenances](std::string_view, const Sourced& number) {
    ++provenances[number.provenance];
  });
  if (cluster.device.measured) ++provenances[cluster.device.measured->provenance];
  return provenances;
}

std::string to_text(const std::map<Provenance, std::int64_t>& provenances) {
  std::string text;
  for (const auto& [provenance, count] : provenances)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, to_string(provenance));
  return text;
}

void mark_edited_figures(Cluster& cluster) {
  // What this machine has is assumed, so all claims are the same for the whole process.
  static const std::map<Claim, std::set<double>> builtin = builtin_figures();
  for_each_figure(cluster, [](std::string_view key, Sourced& number) {
    if (!is_claim(number)) return;
    const auto found = builtin.find({std::string(key), number.provenance, number.source});
    if (found == builtin.end()) return;
    const std::set<double>& values = found->second;
    if (std::any_of(values.begin(), values.end(),
                    [&number](double value) { return is_same_figure(number.value, value); }))
      return;
    number.source = fmt::format("edited: {} {} {}", number.source,
                                values.size() == 1 ? "says" : "does not say this, but",
                                fmt::format("{:g}", *values.begin()));
    number.provenance = Provenance::kAssumed;
  });
}

}  // namespace sextant
