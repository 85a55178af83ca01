// A job of CPU devices made by hand, so that its kernel table is ours.
#include "tests/conformance/protocol/cpu_mix_devices.h"

#include "backends/cpu/cpu_device.h"
#include "backends/cpu/kernels/shared/kernel.h"
#include "backends/cpu/rendezvous.h"

#include <chrono>
#include <cstring>

namespace sextant::testing {
namespace {

Values load(const KernelOperand& operand) {
  Values values(static_cast<std::size_t>(operand.local.shape.elements()));
  std::memcpy(values.data(), operand.data, values.size() * sizeof(std::int64_t));
  return values;
}

void mix(const KernelContext& context, Workspace&) {
  std::vector<Values> in;
  for (const KernelOperand& operand : context.in) in.push_back(load(operand));
  const bool updates = context.actor->attributes.contains(kMixUpdates);
  for (std::size_t o = 0; o < context.out.size(); ++o) {
    Values out = load(context.out[o]);
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = mixed_over(out[i], mixed(in, o, i), context.accumulate[o], updates);
    }
    std::memcpy(context.out[o].data, out.data(), out.size() * sizeof(std::int64_t));
  }
}

KernelTable mix_kernels() {
  KernelTable table;
  table.add("test", mix);
  return table;
}

class CpuMixSet final : public DeviceSet {
 public:
  CpuMixSet(const PhysicalGraph& graph, const CpuOptions& options)
      : options_(options),
        kernels_(mix_kernels()),
        rendezvous_(graph, std::chrono::milliseconds(options.rendezvous_timeout_ms)) {
    const CpuShared shared{options_, kernels_, rendezvous_, std::chrono::steady_clock::now()};
    for (const Rank rank : graph.ranks.keys()) {
      devices_.push_back(std::make_unique<CpuDevice>(shared));
      devices_.back()->prepare(graph, rank);
    }
  }
  // All threads end before any memory: a rank may read that of another.
  ~CpuMixSet() override {
    rendezvous_.abort("the job has ended");
    for (const auto& device : devices_) device->stop();
  }
  std::vector<Device*> devices() override {
    std::vector<Device*> devices;
    for (const auto& device : devices_) devices.push_back(device.get());
    return devices;
  }

 private:
  const CpuOptions options_;
  const KernelTable kernels_;
  Rendezvous rendezvous_;
  std::vector<std::unique_ptr<CpuDevice>> devices_;
};

}  // namespace

DeviceFactory cpu_mix_devices(const CpuOptions& options) {
  return [options](const PhysicalGraph& graph) -> std::unique_ptr<DeviceSet> {
    return std::make_unique<CpuMixSet>(graph, options);
  };
}

}  // namespace sextant::testing
