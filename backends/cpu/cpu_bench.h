// Measures what the ranks of one machine can do while all of them are busy: single kernels and
// meetings. Ranks are threads that may share cores, so what one can do alone says little.
#pragma once

#include "actor/calls/kernel_timer.h"
#include "backends/cpu/kernels/shared/kernel.h"
#include "core/base/units.h"
#include "core/graphs/physical_graph.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace sextant {

struct CpuBenchOptions {
  std::int64_t ranks = 1;
  std::int64_t cores = 1;           // that they share
  double seconds_per_call = 0.012;  // wall time of one measurement, warm-up left out
};

class CpuBench final : public KernelTimer {
 public:
  explicit CpuBench(const CpuBenchOptions& options);
  ~CpuBench() override;
  CpuBench(const CpuBench&) = delete;
  CpuBench& operator=(const CpuBench&) = delete;

  void set_id_limit(std::int64_t limit) override;
  bool go_together(std::string_view) const override { return false; }
  // All ranks make the call again and again at the same time, each on operands of its own. A time
  // is what a call takes of the processor of the thread that makes it, times the ranks that share
  // one: what others take of the machine meanwhile does not count. A rank with several cores to
  // itself has a team of threads, as in a job, and is counted by the thread that calls: where that
  // one sleeps until the others have done their last pieces, the time is up to a piece too short.
  // Each rank takes the yardstick before and behind its calls, and gives their times at the speed
  // that the bench began with.
  std::optional<KernelTiming> time(std::span<const KernelContext> calls) override;

  // A communication of all ranks on a tensor of so many bytes that is global to the group; of a
  // transfer, from the first rank to the second. The last to come moves all data while the others
  // sleep, so no meeting takes longer than all members take of processors together: where wall time
  // says so, others were in the way. Needs two ranks.
  KernelTiming meet(Primitive primitive, Bytes global_bytes);

  // Ranks that share a core, 1 where there is one for each.
  double ranks_per_core() const;
  std::int64_t cores() const { return options_.cores; }
  // What the yardstick (backends/cpu/yardstick.h) took when this was made, all ranks busy: times of
  // `time` are those of a machine of this speed.
  double yardstick_s() const { return yardstick_s_; }

 private:
  class RankMemory;
  class RankCalls;

  double measure_speed();

  std::vector<double> measure(const KernelContext& call, Kernel kernel);

  const CpuBenchOptions options_;
  const KernelTable kernels_;
  std::int64_t id_limit_ = 1000;
  std::vector<std::unique_ptr<RankMemory>> memories_;  // by rank, grown to the largest call
  double yardstick_s_ = 0;
};

}  // namespace sextant
