// What a kernel of any backend gets: one act of one operator at its addresses.
#pragma once

#include "core/base/counter_rng.h"
#include "core/graphs/physical_graph.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace sextant {

// One register content as a kernel sees it.
struct KernelOperand {
  std::byte* data = nullptr;  // of the rank's local tensor, row-major unless said; on the device
  TensorType local;           // shape of `box`, dtype of the register
  const Layout* layout = nullptr;
  Shard box;  // in global coordinates
  // The second dim is the innermost, the others keep their order. A device that chooses so tells
  // its own kernels.
  bool channels_last = false;
  // A device that numbers the contents of a program says here which one is read: equal numbers are
  // equal contents of a step.
  std::optional<std::int64_t> content = {};
};

struct KernelContext {
  const Actor* actor = nullptr;
  std::vector<KernelOperand> in, out;
  std::vector<bool> accumulate;  // per output: add to what is there
  // Where the rank stands on the placement of the actor's outputs (without: of its inputs).
  std::vector<std::int64_t> hierarchy, coordinates;
  std::uint64_t seed = 0;
  ActPosition act;  // the step is filled in when the act begins, the rest stays

  const Attributes& attributes() const { return actor->attributes; }
};

}  // namespace sextant
