// The checkpoints that a run leaves: when, of what, and what they cost.
#pragma once

#include "actor/protocol/device.h"
#include "actor/runtime.h"
#include "cli/console.h"
#include "cli/runs/run_processes.h"
#include "cli/training/run_start.h"
#include "cli/training/shared_checkpoint.h"
#include "cli/verbs.h"
#include "cli/workflow.h"
#include "core/base/error.h"
#include "core/graphs/physical_graph.h"
#include "io/checkpoints/background_writer.h"
#include "io/checkpoints/folder_lock.h"
#include "io/checkpoints/pieces_to_save.h"

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace sextant {

// Refuses what cannot be asked for: Error(kUsage).
void require_checkpoint_options(const RunArguments& arguments);
// Keeps other runs out of the folder of --checkpoint, where it is there already. Of several
// processes the first does.
std::unique_ptr<FolderLock> lock_present_folder(const RunArguments& arguments);
// Makes the folder where it is not there; behind it all processes hold its lock together.
// `present`: what lock_present_folder gave. All processes call it.
std::unique_ptr<FolderLock> lock_folder(const RunArguments& arguments,
                                        std::unique_ptr<FolderLock> present,
                                        RunProcesses& processes);
// Refuses a folder that nothing can be written to, or that has checkpoints beyond `step`, which
// would stay the last ones.
void require_checkpoint_folder(const RunArguments& arguments, std::int64_t step);

// Every rank stops at a boundary for as long as its part of the copy takes to begin (on CPU ranks,
// as it takes), and while the checkpoint before is still being written. Of several processes each
// writes shards of its own ranks (shared_checkpoint.h).
class RunCheckpoints final : public StepBoundaries {
 public:
  // `graph`, `planned`, `arguments` and `processes` outlive it. Nothing is saved without
  // --checkpoint. `lock`: of the folder.
  RunCheckpoints(const PhysicalGraph& graph, const PlannedJob& planned,
                 const RunArguments& arguments, const CommonOptions& common, const RunStart& start,
                 std::string data_hash, std::unique_ptr<FolderLock> lock, RunProcesses& processes);
  // Takes the memory of the copies. `devices`, by rank, are prepared and have not begun.
  void prepare(const std::vector<Device*>& devices);

  StepBoundaries* boundaries() { return is_wanted() ? this : nullptr; }
  std::int64_t next(std::int64_t steps) const override;
  void at(Rank rank, Device& device, std::int64_t steps) override;
  // Throws what writing one threw. `finish` waits until all are written.
  void require_sound() { writer_.require_sound(); }
  void finish() { writer_.wait_until_idle(); }
  // What could not be written, where all processes know it and throw it.
  std::optional<Error> common_failure() const;

  // What was written so far; nothing to say where there is none.
  void say(const Console& console) const;
  nlohmann::ordered_json document() const;

 private:
  struct Saved {
    std::int64_t step = 0;
    std::string path;
    std::int64_t bytes = 0;
    double wait_s = 0, write_s = 0;  // of the rank that waited longest; of the writing
  };
  struct Pending {
    std::size_t arrived = 0;
    double wait_s = 0;
  };

  bool is_wanted() const { return !arguments_.checkpoint.empty(); }
  TrainingFacts facts_at(std::int64_t step) const;
  CheckpointContents contents_at(std::int64_t step) const;
  void require_turn(Rank rank, std::int64_t steps) const;
  void write(const CheckpointContents& contents, const StopWriting& stop);

  const PlannedJob& planned_;
  const RunArguments& arguments_;
  const TrainingFacts facts_;                             // of the start
  const std::vector<std::vector<StateRegister>> pieces_;  // by rank
  std::vector<std::shared_ptr<StateCopies>> copies_;      // by rank; null: in another process
  std::size_t num_here_ = 0;                              // ranks of this process
  CheckpointStorage storage_;
  std::optional<SharedCheckpoint> shared_;  // with other processes
  std::unique_ptr<FolderLock> lock_;
  mutable std::mutex mutex_;  // of what is below
  std::map<std::int64_t, Pending> pending_;
  std::map<std::int64_t, double> wait_s_;
  std::vector<Saved> saved_;
  std::optional<Error> common_failure_;
  BackgroundWriter writer_;  // ends before what it uses
};

}  // namespace sextant
