// Where a run begins: before the first step, or behind a checkpoint that --resume names.
#pragma once

#include "actor/protocol/device.h"
#include "cli/console.h"
#include "cli/verbs.h"
#include "cli/workflow.h"
#include "core/graphs/physical_graph.h"
#include "io/checkpoints/checkpoint_reader.h"
#include "io/checkpoints/state_copies.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace sextant {

// Writes states of ranks to `devices`, by rank, which are prepared and have not begun.
WriteState writing_to(const std::vector<Device*>& devices);

class RunStart {
 public:
  RunStart() = default;  // of a training that is new
  // Reads the manifest of the last checkpoint in `path`. Throws Error(kCheckpoint) where it is
  // damaged, with the one before it as a way out.
  explicit RunStart(const std::string& path);

  bool is_resumed() const { return checkpoint_ != nullptr; }
  std::int64_t step() const;     // of the first step that is made
  std::int64_t samples() const;  // that are behind it
  // Refuses another model and another kind of optimizer (Error(kCheckpoint)), another seed and
  // --steps that are trained already (Error(kUsage)), and notes what else is not as it was.
  void require_same_training(const PlannedJob& planned, const RunArguments& arguments,
                             std::uint64_t seed, const std::string& data_hash,
                             const Console& console) const;
  // For data whose order depends on it: refuses another global batch than that of the checkpoint
  // (Error(kUsage)).
  void require_same_batch(std::int64_t global_batch) const;
  // The states of the graph are those of the checkpoint, by name and type.
  void require_states(const PhysicalGraph& graph) const;
  // Fills the states of all ranks that have a device. `devices`, by rank, are prepared and have not
  // begun.
  void load(const PhysicalGraph& graph, const std::vector<Device*>& devices) const;
  // A word that is the same in all processes that go on from one checkpoint; empty: not resumed.
  std::string id() const;
  std::string text() const;  // "step 100 of DIR/step-000100"; empty: not resumed

 private:
  const TrainingFacts& facts() const { return checkpoint_->manifest().facts; }

  std::unique_ptr<CheckpointReader> checkpoint_;
  std::string before_;  // path of the checkpoint before it; empty: there is none
};

}  // namespace sextant
