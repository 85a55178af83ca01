// What PyTorch's caching allocator holds while a program trains as a plan says: the contents of the
// plan are allocated and freed in issue order, one tensor each, for a few steps.
#pragma once

#include "core/base/dtype.h"
#include "core/base/units.h"
#include "core/graphs/physical_graph.h"

#include <optional>
#include <set>
#include <string>

namespace sextant {

struct ReplayRules {
  // Sharded parameters as FSDP2 handles them, in this type:
  //   * a unit is gathered into one flat buffer on a stream of its own and copied to parameters
  //     from there; the buffer stays until the next unit is there. In forward a unit is gathered
  //     when its turn comes, in backward when the one before it begins;
  //   * a block is a unit; embedding and head are one together, which stays gathered from the begin
  //     of forward to the end of backward. The last block stays gathered from its forward on;
  //   * gradients of a unit are kept until its backward is over, then copied to a flat buffer of
  //     f32, which stays until the next unit's; sharded gradients are on the stream of the
  //     reduce-scatters.
  std::optional<DType> gathered = std::nullopt;
  // Results of these operators stay until backward of their layer begins.
  std::set<std::string> kept = {};  // "layer3.mlp.down"
  // Results of these are collected over the micro-batches and, when backward is over, copied to one
  // tensor: what the last stage of torch.distributed.pipelining returns.
  std::set<std::string> collected = {};
  // Parameters, their gradients and what the optimizer keeps of them are in this type; nothing is
  // copied to another.
  std::optional<DType> all_in = std::nullopt;
  Bytes workspace = {};  // of cuBLAS, which the allocator gives out too, from the beginning on
};

struct AllocatorUse {
  Bytes allocated, reserved;  // most at one time
};

// Three steps. Parameters are there from the beginning, other state of the optimizer from its first
// act on: what is free then is cut for it. What host actors touch is left out.
AllocatorUse replay_allocator(const PhysicalGraph& graph, const RankProgram& program,
                              const ReplayRules& rules);

}  // namespace sextant
