// What every device must do with a physical graph, whatever it executes on. A device plugs in by a
// factory; the suite brings graphs, drives them and compares with the dataflow oracle.
#pragma once

#include "actor/protocol/device.h"
#include "actor/runtime.h"
#include "core/graphs/physical_graph.h"
#include "tests/support/mix_kernel.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace sextant::testing {

// The devices of one run and what they share.
class DeviceSet {
 public:
  virtual ~DeviceSet() = default;
  virtual std::vector<Device*> devices() = 0;  // by rank, prepared
};
using DeviceFactory = std::function<std::unique_ptr<DeviceSet>(const PhysicalGraph&)>;

// Runs the graph and reads what is left: records of host actors, and state registers.
struct ProtocolRun {
  MixResult result;
  std::vector<IssueHash> hashes;
};
ProtocolRun run_protocol(const PhysicalGraph& graph, const DeviceFactory& factory,
                         std::int64_t steps, const RuntimeOptions& options = {},
                         StepBoundaries* boundaries = nullptr);

struct NamedGraph {
  std::string name;
  PhysicalGraph graph;
};
// Pipelines with host actors, accumulation, state, all-reduces and shared slots, under every
// schedule, with and without launch groups, one to four stages, one or two replicas.
std::vector<NamedGraph> pipeline_graphs();

}  // namespace sextant::testing
