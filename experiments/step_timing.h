// How long each launch of a compiled step takes on a device, one kind at a time.
#pragma once

#include "actor/calls/kernel_timer.h"
#include "actor/calls/step_calls.h"
#include "core/graphs/physical_graph.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sextant {

struct TimedLaunch {
  std::string kind, types;
  std::int64_t count = 0;              // in a step
  std::int64_t calls = 1;              // in the launch
  Work work;                           // of the launch
  std::vector<Work> works;             // of its calls
  bool is_member = false;              // of a fused operator that no kernel covers as a whole
  std::optional<Work> ends;            // of the last member: the work of the whole
  std::optional<KernelTiming> timing;  // nothing: no kernel

  double seconds_per_step() const;  // 0 without timing
};

// Of rank 0, in the order of the step.
std::vector<TimedLaunch> time_step(const PhysicalGraph& graph, KernelTimer& timer);

}  // namespace sextant
