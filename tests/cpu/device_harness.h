// Devices driven launch by launch, without the runtime: for tests of queues, fences, meetings.
#pragma once

#include "backends/cpu/cpu_device.h"
#include "backends/cpu/kernels/shared/kernel.h"
#include "backends/cpu/rendezvous.h"
#include "core/graphs/physical_graph.h"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

namespace sextant {

class DeviceHarness {
 public:
  DeviceHarness(const PhysicalGraph& graph, const CpuOptions& options, KernelTable kernels)
      : graph_(graph),
        options_(options),
        kernels_(std::move(kernels)),
        rendezvous_(graph_, std::chrono::milliseconds(options.rendezvous_timeout_ms)) {
    const CpuShared shared{options_, kernels_, rendezvous_, std::chrono::steady_clock::now()};
    for (const Rank rank : graph_.ranks.keys()) {
      devices_.push_back(std::make_unique<CpuDevice>(shared));
      devices_.back()->prepare(graph_, rank);
    }
  }
  ~DeviceHarness() {
    rendezvous_.abort("the test has ended");
    for (const auto& device : devices_) device->stop();
  }
  DeviceHarness(const DeviceHarness&) = delete;
  DeviceHarness& operator=(const DeviceHarness&) = delete;

  CpuDevice& device(int rank) { return *devices_[static_cast<std::size_t>(rank)]; }
  Rendezvous& rendezvous() { return rendezvous_; }

  Fence launch(int rank, int run, std::vector<Fence> waits = {}, std::int64_t step = 0) {
    Fence fence;
    const Launch launch{RunId(run), step, waits};
    device(rank).launch({&launch, 1}, {&fence, 1});
    return fence;
  }
  std::array<Fence, 2> launch_together(int rank, int first, int second, std::int64_t step = 0) {
    std::array<Fence, 2> fences;
    const std::array<Launch, 2> group{Launch{RunId(first), step, {}},
                                      Launch{RunId(second), step, {}}};
    device(rank).launch(group, fences);
    return fences;
  }
  std::vector<float> read(int rank, int instance, int reg, int content = 0) {
    const auto bytes = device(rank).host_view(InstanceId(instance), reg, content);
    std::vector<float> values(bytes.size() / sizeof(float));
    if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  void write(int rank, int instance, int reg, const std::vector<float>& values, int content = 0) {
    const auto bytes = device(rank).host_view(InstanceId(instance), reg, content);
    std::memcpy(bytes.data(), values.data(), bytes.size());
  }

 private:
  const PhysicalGraph graph_;
  const CpuOptions options_;
  const KernelTable kernels_;
  Rendezvous rendezvous_;
  std::vector<std::unique_ptr<CpuDevice>> devices_;
};

}  // namespace sextant
