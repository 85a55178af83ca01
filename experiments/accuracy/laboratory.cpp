// GPU names and network texts -> clusters.
#include "experiments/accuracy/laboratory.h"

#include "core/base/check.h"
#include "simulator/cluster_files/cluster_file.h"
#include "simulator/clusters/builtin_devices.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>
#include <string>

namespace sextant {
namespace {

constexpr std::int64_t kGpusPerNode = 8;
constexpr double kBitsPerByte = 8, kGiga = 1e9;

// The number that begins at or ends before `at`.
std::optional<double> number_at(std::string_view text, std::size_t at) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), value);
  return error == std::errc() ? std::optional(value) : std::nullopt;
}
std::optional<double> number_before(std::string_view text, std::size_t at) {
  std::size_t begin = at;
  while (begin > 0 && std::isdigit(static_cast<unsigned char>(text[begin - 1])) != 0) --begin;
  return begin < at ? number_at(text, begin) : std::nullopt;
}

// "8x HDR200 IB per node", "4x OmniPath100 per node", "8x200G": ports and the Gb/s of one.
std::optional<double> ports_gigabits(std::string_view text) {
  const std::size_t cross = text.find('x');
  if (cross == std::string_view::npos) return std::nullopt;
  const std::size_t digit = text.find_first_of("0123456789", cross);
  const auto ports = number_before(text, cross);
  if (!ports || digit == std::string_view::npos) return std::nullopt;
  return *ports * number_at(text, digit).value_or(0);
}

Cluster a100(std::string_view gpu_type, const std::string& size) {
  Cluster cluster = load_cluster("dgx-a100:nodes=" + size);
  if (gpu_type != "a100_40gb") return cluster;
  cluster.device = a100_sxm_40gb();
  return cluster;
}

// Grand Teton as torchtitan used it: HBM2e, and a limit of 500 W, under which the true peak "is
// between SXM and NVL" (benchmarks/llama3_h100_202412_torchtitan.md).
void set_500_watts(DeviceKind& device) {
  const std::string source = "torchtitan, benchmarks of December 2024";
  device.name = "H100-SXM5-96GB-500W";
  device.memory = Bytes(96 * std::int64_t{1'000'000'000});
  device.memory_bandwidth = {2400 * kGiga, Provenance::kPublished, source};
  for (PeakRate& peak : device.peaks)
    if (peak.dtype == DType::kBF16 || peak.dtype == DType::kF16)
      peak.flops_per_second = {835.5e12, Provenance::kAssumed, "H100 NVL data sheet; " + source};
}

Cluster h100(std::string_view gpu_type, const std::string& size) {
  Cluster cluster = load_cluster("dgx-h100:nodes=" + size);
  if (gpu_type.find("500W") != std::string_view::npos) set_500_watts(cluster.device);
  return cluster;
}

constexpr std::int64_t kGpusPerRack = 72;

Cluster base_cluster(std::string_view gpu_type, std::int64_t gpus) {
  if (gpu_type.find("GB200") != std::string_view::npos)
    return load_cluster("gb200-nvl72:nodes=" +
                        std::to_string((gpus + kGpusPerRack - 1) / kGpusPerRack));
  const std::string size = std::to_string((gpus + kGpusPerNode - 1) / kGpusPerNode);
  if (gpu_type.starts_with("A100") || gpu_type.starts_with("a100")) return a100(gpu_type, size);
  if (gpu_type.find("H100") != std::string_view::npos || gpu_type.starts_with("h100"))
    return h100(gpu_type, size);
  if (gpu_type.starts_with("H200")) return load_cluster("hgx-h200:nodes=" + size);
  if (gpu_type.starts_with("V100")) return load_cluster("v100x8-32gb:nodes=" + size);
  fail(ErrorCode::kBadInput, "gpu_type is '{}', there is no cluster of it", gpu_type);
}

}  // namespace

double bandwidth_per_gpu(std::string_view inter_node) {
  if (const auto gigabits = ports_gigabits(inter_node))
    return *gigabits * kGiga / kBitsPerByte / kGpusPerNode;
  const std::size_t unit = inter_node.find("Gb/s per node");
  if (unit == std::string_view::npos) return 0;
  return number_before(inter_node, unit).value_or(0) * kGiga / kBitsPerByte / kGpusPerNode;
}

Cluster laboratory(std::string_view gpu_type, std::string_view inter_node, std::int64_t gpus) {
  Cluster cluster = base_cluster(gpu_type, gpus);
  const double rate = bandwidth_per_gpu(inter_node);
  if (rate > 0)
    cluster.inter_node.bandwidth = {rate, Provenance::kPublished, std::string(inter_node)};
  return cluster;
}

}  // namespace sextant
