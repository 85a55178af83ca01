// The table that finds a kernel by operator kind. Reference and fast kernels are two tables of the
// same shape; the fast one has the reference kernels for what it does not cover.
#pragma once

#include "actor/calls/kernel_context.h"
#include "backends/cpu/kernels/shared/workspace.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

using Kernel = void (*)(const KernelContext& context, Workspace& workspace);

// Whether a kernel covers a call: its dtypes, shapes, accumulation.
using KernelCondition = bool (*)(const KernelContext& context);

// Most bytes of workspace that a kernel takes in a call, without what every kernel may take: copies
// of small inputs. Addresses are not looked at.
using WorkspaceBound = std::int64_t (*)(const KernelContext& context);

class KernelTable {
 public:
  // A kernel that covers every call, or those that `covers` accepts. Later ones are preferred.
  // Without `bound` it takes copies of small inputs only; `by_thread` comes to it for each thread.
  void add(std::string kind, Kernel kernel, KernelCondition covers = nullptr,
           WorkspaceBound bound = nullptr, WorkspaceBound by_thread = nullptr);
  // The preferred kernel that covers the call; nullptr when there is none.
  Kernel find(std::string_view kind, const KernelContext& context) const;
  // Most bytes of workspace that this kernel takes in the call on a team of so many threads.
  std::int64_t workspace(std::string_view kind, const KernelContext& context,
                         std::int64_t threads = 1) const;
  std::vector<std::string> kinds() const;  // sorted

 private:
  struct Candidate {
    Kernel kernel = nullptr;
    KernelCondition covers = nullptr;
    WorkspaceBound bound = nullptr, by_thread = nullptr;
  };
  const Candidate* candidate(std::string_view kind, const KernelContext& context) const;
  std::map<std::string, std::vector<Candidate>, std::less<>> kernels_;
};

// Slow and obvious: every dtype, arithmetic in double.
KernelTable reference_kernels();
// BLAS and vectorised loops where they exist (f32, some f64), the reference elsewhere.
KernelTable fast_kernels();

}  // namespace sextant
