// Graphs and driver of the suite.
#include "tests/conformance/protocol/protocol_suite.h"

#include "core/base/check.h"
#include "tests/support/graph_builder.h"
#include "tests/support/pipeline_graph.h"
#include "tests/support/slot_planner.h"

#include <cstring>

namespace sextant::testing {
namespace {

Values read_state(Device& device, const PhysicalGraph& graph, Rank rank, InstanceId instance,
                  std::int32_t reg) {
  const std::span<std::byte> bytes = device.host_view(instance, reg, 0);
  const Block& block = graph.block_of(graph.program_of(rank).instances[instance]);
  const DType dtype = block.registers[static_cast<std::size_t>(reg)].local.dtype;
  Values values;
  for (std::size_t at = 0; at < bytes.size();
       at += static_cast<std::size_t>(size_of(dtype).value)) {
    if (dtype == DType::kF32) {
      float value = 0;
      std::memcpy(&value, bytes.data() + at, sizeof(value));
      values.push_back(static_cast<std::int64_t>(value));
    } else {
      require(dtype == DType::kI64, ErrorCode::kInternal, "state of the suite is f32 or i64");
      std::int64_t value = 0;
      std::memcpy(&value, bytes.data() + at, sizeof(value));
      values.push_back(value);
    }
  }
  return values;
}

}  // namespace

ProtocolRun run_protocol(const PhysicalGraph& graph, const DeviceFactory& factory,
                         std::int64_t steps, const RuntimeOptions& options,
                         StepBoundaries* boundaries) {
  const std::unique_ptr<DeviceSet> set = factory(graph);
  const std::vector<Device*> devices = set->devices();
  MixHostActors host;
  ProtocolRun run;
  run.hashes = run_all(graph, devices, host, steps, options, boundaries);
  run.result.records = host.records();
  for (const Rank r : graph.ranks.keys()) {
    const RankProgram& program = graph.program_of(r);
    if (!devices[r.index()]->spec().has_memory) continue;
    for (const InstanceId i : program.instances.keys()) {
      const Block& block = graph.block_of(program.instances[i]);
      for (std::size_t reg = 0; reg < block.registers.size(); ++reg) {
        const auto frame = static_cast<std::size_t>(block.registers[reg].frame);
        if (!block.frames[frame].initially_full) continue;
        const auto number = static_cast<std::int32_t>(reg);
        run.result.state[{r.value, i.value, number}] =
            read_state(*devices[r.index()], graph, r, i, number);
      }
    }
  }
  return run;
}

std::vector<NamedGraph> pipeline_graphs() {
  std::vector<NamedGraph> graphs;
  for (const PipelineSchedule schedule :
       {PipelineSchedule::kGPipe, PipelineSchedule::kOneFOneB, PipelineSchedule::kZeroBubble}) {
    for (const int stages : {1, 2, 4}) {
      for (const bool groups : {false, true}) {
        PipelineSpec spec;
        spec.stages = stages;
        spec.replicas = stages == 2 ? 2 : 1;
        spec.micro_batches = groups ? 5 : 4;
        spec.schedule = schedule;
        spec.launch_groups = groups;
        spec.host_actors = true;
        const char* names[] = {"GPipe", "1F1B", "zero bubble"};
        graphs.push_back(
            {fmt::format("{} of {} x {}, {} micro-batches{}",
                         names[static_cast<std::size_t>(schedule)], stages, spec.replicas,
                         spec.micro_batches, groups ? ", launch groups" : ""),
             pipeline_graph(spec)});
      }
    }
  }
  return graphs;
}

}  // namespace sextant::testing
