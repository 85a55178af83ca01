// What a kernel gets and the table that finds it by operator kind. Reference and fast kernels are
// two tables of the same shape; the fast one has the reference kernels for what it does not cover.
#pragma once

#include "backends/cpu/workspace.h"
#include "core/counter_rng.h"
#include "core/physical_graph.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

// One register content as a kernel sees it.
struct KernelOperand {
  std::byte* data = nullptr;  // of the rank's local tensor, row-major
  TensorType local;           // shape of `box`, dtype of the register
  const Layout* layout = nullptr;
  Shard box;  // in global coordinates
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

using Kernel = void (*)(const KernelContext& context, Workspace& workspace);

// Whether a kernel covers a call: its dtypes, shapes, accumulation.
using KernelCondition = bool (*)(const KernelContext& context);

class KernelTable {
 public:
  // A kernel that covers every call, or those that `covers` accepts. Later ones are preferred.
  void add(std::string kind, Kernel kernel, KernelCondition covers = nullptr);
  // The preferred kernel that covers the call; nullptr when there is none.
  Kernel find(std::string_view kind, const KernelContext& context) const;
  std::vector<std::string> kinds() const;  // sorted

 private:
  struct Candidate {
    Kernel kernel = nullptr;
    KernelCondition covers = nullptr;
  };
  std::map<std::string, std::vector<Candidate>, std::less<>> kernels_;
};

// Slow and obvious: every dtype, arithmetic in double.
KernelTable reference_kernels();
// BLAS and vectorised loops where they exist (f32, some f64), the reference elsewhere.
KernelTable fast_kernels();

}  // namespace sextant
