// Where the bytes of one run's operands lie: resolved once per (program, run), the same each step.
// Devices read this instead of walking blocks and links themselves.
#pragma once

#include "core/ids.h"
#include "core/physical_graph.h"

#include <cstdint>
#include <vector>

namespace sextant {

struct BufferRef {
  InstanceId instance;  // that owns the register
  std::int32_t reg = 0;
  std::int32_t content = 0;  // within the step
  Bytes offset;              // in the arena
  const Register* info = nullptr;
};

struct ActorCall {
  const Actor* actor = nullptr;
  std::vector<BufferRef> in, out;
  // Per output: this act adds to the content instead of overwriting it.
  std::vector<bool> accumulate;
};

// The calls of a run, in order.
std::vector<ActorCall> resolve_calls(const PhysicalGraph& graph, ProgramId program, RunId run);

}  // namespace sextant
