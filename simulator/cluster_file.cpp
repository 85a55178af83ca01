// Cluster JSON and the lookup of CLUSTER arguments. A number is written plain or as text with a
// unit (then it is an assumption of the file's author), or as {value, provenance, source}.

#include "simulator/cluster_file.h"

#include "core/check.h"
#include "core/fused_kinds.h"
#include "core/json_reader.h"
#include "core/nearest.h"
#include "simulator/builtin_clusters.h"
#include "simulator/quantity_text.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

namespace sextant {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kSchema = "sextant.cluster/1";
constexpr std::int64_t kMaxDevices = std::int64_t{1} << 20;

// ---------------------------------------------------------------- rules

enum class Range : std::uint8_t { kPositive, kNotNegative, kShare };

bool is_in(double value, Range range) {
  if (!std::isfinite(value)) return false;
  switch (range) {
    case Range::kPositive:
      return value > 0;
    case Range::kNotNegative:
      return value >= 0;
    case Range::kShare:
      return value > 0 && value <= 1;
  }
  return false;
}

std::string_view text_of(Range range) {
  switch (range) {
    case Range::kPositive:
      return "above zero";
    case Range::kNotNegative:
      return "zero or above";
    case Range::kShare:
      return "above zero and at most 1";
  }
  return "?";
}

// One number of a cluster: where it is, what it may be, how it is written.
template <typename Owner>
struct Field {
  std::string_view key;
  Sourced Owner::*member;
  Range range;
  QuantityKind kind;
  bool required = true;
};

constexpr Field<DeviceKind> kDeviceFields[] = {
    {"memory_bandwidth", &DeviceKind::memory_bandwidth, Range::kPositive,
     QuantityKind::kBytesPerSecond},
    {"matmul_efficiency", &DeviceKind::matmul_efficiency, Range::kShare, QuantityKind::kShare},
    {"memory_efficiency", &DeviceKind::memory_efficiency, Range::kShare, QuantityKind::kShare},
    {"launch_overhead", &DeviceKind::launch_overhead, Range::kNotNegative, QuantityKind::kSeconds},
    {"kernel_overhead", &DeviceKind::kernel_overhead, Range::kNotNegative, QuantityKind::kSeconds},
    {"matmul_tile", &DeviceKind::matmul_tile, Range::kNotNegative, QuantityKind::kCount, false},
    {"matmul_units", &DeviceKind::matmul_units, Range::kNotNegative, QuantityKind::kCount, false},
};

constexpr Field<NetworkLink> kLinkFields[] = {
    {"bandwidth", &NetworkLink::bandwidth, Range::kPositive, QuantityKind::kBytesPerSecond},
    {"latency", &NetworkLink::latency, Range::kNotNegative, QuantityKind::kSeconds},
    {"efficiency", &NetworkLink::efficiency, Range::kShare, QuantityKind::kShare, false},
};

bool is_absent(const NetworkLink& link) { return link.name.empty() && link.bandwidth.value == 0; }

void check(std::vector<std::string>& broken, bool good, std::string message) {
  if (!good) broken.push_back(std::move(message));
}

void check_number(std::vector<std::string>& broken, const std::string& path, const Sourced& number,
                  Range range) {
  check(broken, is_in(number.value, range),
        fmt::format("{} is {}, wanted a number {}", path, number.value, text_of(range)));
}

void check_link(std::vector<std::string>& broken, const std::string& path,
                const NetworkLink& link) {
  for (const auto& field : kLinkFields)
    check_number(broken, path + "." + std::string(field.key), link.*field.member, field.range);
}

// ---------------------------------------------------------------- reading

Provenance read_provenance(const JsonCursor& cursor) {
  std::vector<std::string> names;
  for (const Provenance known : {Provenance::kAssumed, Provenance::kPublished,
                                 Provenance::kCalibrated, Provenance::kMeasured}) {
    if (cursor.text() == to_string(known)) return known;
    names.emplace_back(to_string(known));
  }
  cursor.refuse(fmt::format("unknown provenance '{}'{}; valid: {}", cursor.text(),
                            did_you_mean(cursor.text(), names), comma_list(names)));
}

double read_plain_number(const JsonCursor& cursor, QuantityKind kind) {
  if (!cursor.is_text()) return cursor.real();
  try {
    return parse_quantity(cursor.text(), kind);
  } catch (const Error& error) {
    cursor.refuse(error.what());
  }
}

Sourced read_number(const JsonCursor& cursor, Range range, QuantityKind kind) {
  Sourced number;
  if (cursor.is_object()) {
    cursor.allow_only({"value", "provenance", "source"});
    number.value = read_plain_number(cursor.at("value"), kind);
    number.provenance = read_provenance(cursor.at("provenance"));
    if (const auto source = cursor.find("source")) number.source = source->text();
  } else {
    number.value = read_plain_number(cursor, kind);
  }
  if (!is_in(number.value, range))
    cursor.refuse(fmt::format("{} {} is not {}", number.value, unit_of(kind), text_of(range)));
  return number;
}

template <typename Owner, typename Fields>
void read_fields(const JsonCursor& cursor, Owner& owner, const Fields& fields) {
  for (const auto& field : fields) {
    if (!field.required && !cursor.contains(field.key)) continue;
    owner.*field.member = read_number(cursor.at(field.key), field.range, field.kind);
  }
}

std::string read_name(const JsonCursor& cursor) {
  if (cursor.text().empty()) cursor.refuse("the name is empty");
  return cursor.text();
}

NetworkLink read_link(const JsonCursor& cursor) {
  cursor.allow_only({"name", "bandwidth", "latency", "efficiency"});
  NetworkLink link;
  link.name = read_name(cursor.at("name"));
  read_fields(cursor, link, kLinkFields);
  return link;
}

Bytes read_memory(const JsonCursor& cursor) {
  Bytes memory;
  try {
    memory = cursor.is_text() ? parse_bytes(cursor.text()) : Bytes(cursor.integer());
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kUsage) cursor.refuse(error.what());
    throw;
  }
  if (memory.value <= 0) cursor.refuse(fmt::format("{} B is not above zero", memory.value));
  return memory;
}

PeakRate read_peak(const JsonCursor& cursor) {
  cursor.allow_only({"dtype", "flops_per_second"});
  PeakRate peak;
  try {
    peak.dtype = parse_dtype(cursor.at("dtype").text());
  } catch (const Error& error) {
    cursor.at("dtype").refuse(error.what());
  }
  peak.flops_per_second =
      read_number(cursor.at("flops_per_second"), Range::kPositive, QuantityKind::kFlopsPerSecond);
  return peak;
}

std::vector<PeakRate> read_peaks(const JsonCursor& cursor) {
  std::vector<PeakRate> peaks;
  for (const JsonCursor& element : cursor.elements()) {
    peaks.push_back(read_peak(element));
    for (std::size_t i = 0; i + 1 < peaks.size(); ++i)
      if (peaks[i].dtype == peaks.back().dtype)
        element.refuse(fmt::format("{} has a peak already", to_string(peaks[i].dtype)));
  }
  if (peaks.empty()) cursor.refuse("no peak rate: wanted at least one dtype");
  return peaks;
}

std::vector<std::string> read_fused(const JsonCursor& cursor) {
  std::vector<std::string> kinds;
  for (const JsonCursor& element : cursor.elements()) {
    const std::string& kind = element.text();
    if (find_fused_kind(kind) == nullptr)
      element.refuse(fmt::format("'{}' is no fused kind{}; known: {}", kind,
                                 did_you_mean(kind, fused_kind_names()),
                                 comma_list(fused_kind_names())));
    if (std::find(kinds.begin(), kinds.end(), kind) != kinds.end())
      element.refuse(fmt::format("'{}' is listed twice", kind));
    kinds.push_back(kind);
  }
  std::sort(kinds.begin(), kinds.end());
  return kinds;
}

MeasuredKernel read_measured_kernel(const JsonCursor& cursor) {
  cursor.allow_only({"kernel", "flops", "bytes", "seconds"});
  MeasuredKernel kernel{.kernel = read_name(cursor.at("kernel")),
                        .flops = cursor.at("flops").real(),
                        .bytes = Bytes(cursor.at("bytes").integer()),
                        .seconds = cursor.at("seconds").real()};
  if (!is_in(kernel.flops, Range::kNotNegative))
    cursor.at("flops").refuse(fmt::format("{} is not zero or above", kernel.flops));
  if (kernel.bytes.value < 0)
    cursor.at("bytes").refuse(fmt::format("{} is not zero or above", kernel.bytes.value));
  if (!is_in(kernel.seconds, Range::kPositive))
    cursor.at("seconds").refuse(fmt::format("{} is not above zero", kernel.seconds));
  return kernel;
}

MeasuredKernels read_measured(const JsonCursor& cursor) {
  cursor.allow_only({"dtype", "provenance", "source", "kernels"});
  MeasuredKernels measured;
  try {
    measured.dtype = parse_dtype(cursor.at("dtype").text());
  } catch (const Error& error) {
    cursor.at("dtype").refuse(error.what());
  }
  measured.provenance = read_provenance(cursor.at("provenance"));
  measured.source = cursor.at("source").text();
  for (const JsonCursor& element : cursor.at("kernels").elements())
    measured.kernels.push_back(read_measured_kernel(element));
  return measured;
}

DeviceKind read_device(const JsonCursor& cursor) {
  std::vector<std::string_view> known = {"name", "memory", "peaks", "fused", "measured"};
  for (const auto& field : kDeviceFields) known.push_back(field.key);
  cursor.allow_only(known);
  DeviceKind device;
  device.name = read_name(cursor.at("name"));
  device.memory = read_memory(cursor.at("memory"));
  device.peaks = read_peaks(cursor.at("peaks"));
  read_fields(cursor, device, kDeviceFields);
  if (const auto fused = cursor.find("fused")) device.fused = read_fused(*fused);
  if (const auto measured = cursor.find("measured")) device.measured = read_measured(*measured);
  return device;
}

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

void read_schema(const JsonCursor& cursor) {
  if (cursor.text() != kSchema)
    cursor.refuse(fmt::format("schema '{}' is not '{}'", cursor.text(), kSchema));
}

// ---------------------------------------------------------------- writing

Json to_json(const Sourced& number) {
  Json json = {{"value", number.value}, {"provenance", to_string(number.provenance)}};
  if (!number.source.empty()) json["source"] = number.source;
  return json;
}

Json to_json(const NetworkLink& link) {
  Json json = {{"name", link.name}};
  for (const auto& field : kLinkFields) json[field.key] = to_json(link.*field.member);
  return json;
}

Json to_json(const MeasuredKernels& measured) {
  Json json = {{"dtype", to_string(measured.dtype)},
               {"provenance", to_string(measured.provenance)},
               {"source", measured.source},
               {"kernels", Json::array()}};
  for (const MeasuredKernel& kernel : measured.kernels)
    json["kernels"].push_back({{"kernel", kernel.kernel},
                               {"flops", kernel.flops},
                               {"bytes", kernel.bytes.value},
                               {"seconds", kernel.seconds}});
  return json;
}

Json to_json(const DeviceKind& device) {
  Json json = {{"name", device.name}, {"memory", device.memory.value}, {"peaks", Json::array()}};
  for (const PeakRate& peak : device.peaks)
    json["peaks"].push_back(
        {{"dtype", to_string(peak.dtype)}, {"flops_per_second", to_json(peak.flops_per_second)}});
  for (const auto& field : kDeviceFields) json[field.key] = to_json(device.*field.member);
  if (!device.fused.empty()) json["fused"] = device.fused;
  if (device.measured) json["measured"] = to_json(*device.measured);
  return json;
}

// ---------------------------------------------------------------- CLUSTER arguments

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
  return builtin.make(values);
}

Cluster load_builtin(std::string_view argument) {
  const std::size_t colon = std::min(argument.find(':'), argument.size());
  const std::string_view name = argument.substr(0, colon);
  for (const BuiltinCluster& builtin : builtin_clusters())
    if (builtin.name == name)
      return make_builtin(builtin, argument.substr(std::min(colon + 1, argument.size())));
  const std::vector<std::string> names = builtin_cluster_names();
  fail(ErrorCode::kUsage, "no file and no built-in cluster '{}'{}; built in: {}", name,
       did_you_mean(name, names), comma_list(names));
}

bool looks_like_a_path(std::string_view argument) {
  return argument.find('/') != std::string_view::npos || argument.ends_with(".json");
}

}  // namespace

std::vector<std::string> validate(const Cluster& cluster) {
  std::vector<std::string> broken;
  const DeviceKind& device = cluster.device;
  check(broken, !cluster.name.empty(), "name is empty");
  check(broken, cluster.nodes >= 1, fmt::format("nodes is {}", cluster.nodes));
  check(broken, cluster.devices_per_node >= 1,
        fmt::format("devices_per_node is {}", cluster.devices_per_node));
  check(broken,
        cluster.nodes <= kMaxDevices && cluster.devices_per_node <= kMaxDevices &&
            cluster.num_devices() <= kMaxDevices,
        fmt::format("more than {} devices", kMaxDevices));
  check(broken, device.memory.value > 0, fmt::format("device.memory is {} B", device.memory.value));
  check(broken, !device.peaks.empty(), "device.peaks is empty");
  for (const PeakRate& peak : device.peaks)
    check_number(broken, "device.peaks." + std::string(to_string(peak.dtype)),
                 peak.flops_per_second, Range::kPositive);
  for (const auto& field : kDeviceFields)
    check_number(broken, "device." + std::string(field.key), device.*field.member, field.range);
  for (const std::string& kind : device.fused)
    check(broken, find_fused_kind(kind) != nullptr,
          fmt::format("device.fused names '{}', which is no fused kind", kind));
  if (cluster.devices_per_node > 1 || !is_absent(cluster.intra_node))
    check_link(broken, "intra_node", cluster.intra_node);
  if (cluster.nodes > 1 || !is_absent(cluster.inter_node))
    check_link(broken, "inter_node", cluster.inter_node);
  return broken;
}

std::string to_json_text(const Cluster& cluster) {
  Json json = {{"schema", kSchema},
               {"name", cluster.name},
               {"nodes", cluster.nodes},
               {"devices_per_node", cluster.devices_per_node},
               {"device", to_json(cluster.device)}};
  if (!is_absent(cluster.intra_node)) json["intra_node"] = to_json(cluster.intra_node);
  if (!is_absent(cluster.inter_node)) json["inter_node"] = to_json(cluster.inter_node);
  return json.dump(2) + "\n";
}

Cluster cluster_from_json(std::string_view text, std::string_view file_name) {
  const JsonDocument document(text, std::string(file_name));
  const JsonCursor root = document.root();
  root.allow_only(
      {"schema", "name", "nodes", "devices_per_node", "device", "intra_node", "inter_node"});
  if (const auto schema = root.find("schema")) read_schema(*schema);
  Cluster cluster;
  cluster.name = read_name(root.at("name"));
  cluster.nodes = read_extent(root.at("nodes"), "nodes");
  cluster.devices_per_node = read_extent(root.at("devices_per_node"), "devices per node");
  if (cluster.num_devices() > kMaxDevices)
    root.at("nodes").refuse(fmt::format("more than {} devices", kMaxDevices));
  cluster.device = read_device(root.at("device"));
  cluster.intra_node = read_link_if(root, "intra_node", cluster.devices_per_node > 1);
  cluster.inter_node = read_link_if(root, "inter_node", cluster.nodes > 1);
  return cluster;
}

Cluster load_cluster(std::string_view cluster) {
  std::error_code ignored;
  const std::string path(cluster);
  if (looks_like_a_path(cluster) || std::filesystem::is_regular_file(path, ignored))
    return cluster_from_json(read_text_file(path), path);
  return load_builtin(cluster);
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
