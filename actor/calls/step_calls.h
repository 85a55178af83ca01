// What a rank calculates in one step, without addresses: for measuring kernels.
#pragma once

#include "actor/calls/kernel_contexts.h"
#include "core/graphs/physical_graph.h"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

// Calls that one launch serves: one, or consecutive ones of a kind that go together.
struct StepLaunch {
  std::vector<KernelContext> calls;  // their operands' data is nullptr
  std::vector<Work> works;           // of each
  std::int64_t count = 0;            // launches of this kind, types and attributes in the step

  const std::string& kind() const { return calls.front().actor->kind; }
  // "16x1024x1024 bf16, 1024x4096 bf16 -> 16x1024x4096 bf16", with "+=" for accumulation; of the
  // first call.
  std::string types() const;
  Work work() const;  // of all calls
};

// The launches of one rank's compute queue in one step, equal ones once, in the order in which they
// first come.
class StepLaunches {
 public:
  using GoTogether = std::function<bool(std::string_view kind)>;

  // `graph` outlives this.
  StepLaunches(const PhysicalGraph& graph, Rank rank, const GoTogether& go_together);
  StepLaunches(const StepLaunches&) = delete;
  StepLaunches& operator=(const StepLaunches&) = delete;

  const std::vector<StepLaunch>& launches() const { return launches_; }
  // The members of a fused call, each a launch of its own with the count of the whole.
  std::vector<StepLaunch> members(const StepLaunch& fused);

 private:
  KernelContexts contexts_;
  std::vector<StepLaunch> launches_;
};

}  // namespace sextant
