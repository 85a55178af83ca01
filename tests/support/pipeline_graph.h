// Pipelines for tests of the protocol: stages x data-parallel replicas, all three schedules, with
// loader, accumulated gradients, all-reduce, state and a metrics reader. Integer kernels: what the
// actors compute is up to the device.
#pragma once

#include "core/graphs/physical_graph.h"

#include <cstdint>

namespace sextant::testing {

enum class PipelineSchedule { kGPipe, kOneFOneB, kZeroBubble };

struct PipelineSpec {
  int stages = 4;
  int replicas = 1;
  int micro_batches = 6;
  PipelineSchedule schedule = PipelineSchedule::kOneFOneB;
  bool host_actors = false;    // a loader on the first stage, a reader of losses on the last
  bool data_actors = false;    // the loader reads what another host actor makes, two ahead
  bool share_slots = true;     // memory reuse and the guards it needs
  bool launch_groups = false;  // neighbouring transfers start together wherever the dry run allows
};

// Order by projecting one global order of modelled times: forward 2, input gradient 2, weight
// gradient 2 units (joined to 4 except in zero bubble), transfers at the end of their producer.
PhysicalGraph pipeline_graph(const PipelineSpec& spec);

}  // namespace sextant::testing
