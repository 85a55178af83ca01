// One table of the GPUs that have a built-in.
#include "simulator/cluster_files/known_devices.h"

#include "simulator/clusters/builtin_devices.h"
#include "simulator/clusters/cluster_fields.h"
#include "simulator/clusters/published.h"

#include <fmt/core.h>

namespace sextant {

namespace {

struct KnownDevice {
  std::string_view pci_id, name;
  DeviceKind (*make)();
  std::int64_t sm;  // compute capability
};

DeviceKind v100_16() { return v100_sxm2(16); }
DeviceKind v100_32() { return v100_sxm2(32); }

// Ids as in the PCI ID database, names as CUDA reports them.
constexpr KnownDevice kKnown[] = {
    {"0x1db1", "Tesla V100-SXM2-16GB", v100_16, 70},
    {"0x1db5", "Tesla V100-SXM2-32GB", v100_32, 70},
    {"0x20b0", "NVIDIA A100-SXM4-40GB", a100_sxm_40gb, 80},
    {"0x20b2", "NVIDIA A100-SXM4-80GB", a100_sxm_80gb, 80},
    {"0x2330", "NVIDIA H100 80GB HBM3", h100_sxm, 90},
    {"0x2335", "NVIDIA H200", h200_sxm, 90},
    {"0x2941", "NVIDIA GB200", gb200, 100},
};

constexpr std::string_view kStandsIn = "unknown (as ";

template <typename Owner, typename Fields>
void assume(Owner& owner, const Fields& fields, const std::string& why) {
  for (const auto& field : fields) {
    (owner.*field.member).provenance = Provenance::kAssumed;
    (owner.*field.member).source = why;
  }
}

}  // namespace

std::optional<DeviceKind> device_of_pci_id(std::string_view id) {
  for (const KnownDevice& known : kKnown)
    if (known.pci_id == id) return known.make();
  return std::nullopt;
}

std::optional<DeviceKind> device_of_name(std::string_view name) {
  for (const KnownDevice& known : kKnown)
    if (known.name == name) return known.make();
  return std::nullopt;
}

DeviceKind assumed_device(DeviceKind device, const std::string& why) {
  device.name = std::string(kStandsIn) + device.name + ")";
  device.memory_source = "assumed: " + why;
  for (PeakRate& peak : device.peaks) {
    peak.flops_per_second.provenance = Provenance::kAssumed;
    peak.flops_per_second.source = why;
  }
  assume(device, kDeviceFields, why);
  assume(device.library_memory, kLibraryFields, why);
  return device;
}

DeviceKind device_of_sm(std::int64_t sm) {
  const std::string why = fmt::format("the file names no known GPU; compute capability {}", sm);
  if (sm >= 100) return assumed_device(gb200(), why);
  if (sm >= 90) return assumed_device(h100_sxm(), why);
  if (sm >= 70 && sm < 80) return assumed_device(v100_sxm2(16), why);
  return assumed_device(a100_sxm_80gb(), sm >= 80 ? why : "the file names no known GPU");
}

std::optional<std::string> stand_in_of(const DeviceKind& device) {
  const std::string_view name = device.name;
  if (!name.starts_with(kStandsIn) || !name.ends_with(')')) return std::nullopt;
  return std::string(name.substr(kStandsIn.size(), name.size() - kStandsIn.size() - 1));
}

std::optional<std::int64_t> sm_of_device(const DeviceKind& device) {
  const std::string name = stand_in_of(device).value_or(device.name);
  for (const KnownDevice& known : kKnown)
    if (known.make().name == name) return known.sm;
  return std::nullopt;
}

double nvlink_rate(std::int64_t sm) {
  if (sm >= 100) return 50 * kGiga;
  return sm > 0 && sm < 70 ? 20 * kGiga : 25 * kGiga;
}

}  // namespace sextant
