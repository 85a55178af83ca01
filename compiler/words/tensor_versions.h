// The versions in which the tensors of a staged graph exist: by stage, words and readers. Finds the
// one that a reader takes, and makes it by boxing where there is none.
#pragma once

#include "compiler/words/boxing_chain.h"
#include "compiler/words/stage_facts.h"
#include "compiler/words/staged_graph.h"
#include "core/base/at.h"
#include "core/base/ids.h"
#include "core/base/table.h"
#include "core/graphs/logical_graph.h"
#include "sbp/boxing_plans.h"
#include "sbp/mesh_state.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace sextant {

// Who may read a version. A tensor made per micro-batch has two kinds: its contents, and their
// sum over the step. A tensor boxed per use has boxed ones for forward and for backward
// of each layer.
enum class VersionReaders : std::uint8_t { kAny, kPerMicroBatch, kPerStep, kForward, kBackward };

// A version of one tensor, in the order in which they were made; the first is the original.
using VersionId = Id<struct VersionTag>;

struct TensorVersion {
  StagedTensorId tensor;
  int stage = 0;
  int virtual_stage = 0;  // of the layer that makes it there
  MeshState state;
  VersionReaders readers = VersionReaders::kAny;
  int layer = 0;  // the one that may read it, if it is boxed per use
  // The boxing that made it, on its own stage, and what that boxing read.
  std::vector<StagedOpId> made_by;
  VersionId source;  // none: made by the operator itself
};

// Somewhat over 200 lines: finding, making and raising a version walk one table, which nobody else
// sees.
class TensorVersions {
 public:
  // Borrows all; boxings are appended to `staged`.
  TensorVersions(const StageFacts& facts, const std::vector<Placement>& placements,
                 BoxingPlans& plans, StagedGraph& staged);

  // What the tensor's own operator makes, before anybody reads it.
  void add(TensorId id, TensorVersion original) { versions_[id].push_back(std::move(original)); }
  StagedTensorId original(TensorId id) const { return versions_[id].front().tensor; }
  // In the words that the reader wants, where it wants them.
  StagedTensorId read(TensorId id, const NdSbp& words, const StageReader& reader);

 private:
  VersionReaders readers_of(TensorId id, const StageReader& reader) const;
  // Of the versions that all uses share.
  VersionReaders lasting_readers(TensorId id) const {
    return facts_.rate_of(id) == Rate::kPerStep ? VersionReaders::kAny
                                                : VersionReaders::kPerMicroBatch;
  }
  static bool is_per_use(VersionReaders readers) {
    return readers == VersionReaders::kForward || readers == VersionReaders::kBackward;
  }
  std::optional<VersionId> find(TensorId id, const MeshState& wanted, VersionReaders readers,
                                const StageReader& reader) const;
  VersionId find_or_make(TensorId id, const MeshState& wanted, const StageReader& reader);
  VersionId make(TensorId id, const MeshState& wanted, VersionReaders readers,
                 const StageReader& reader);
  void add_accumulator(TensorId id);
  void bring_to_stage(TensorId id, const StageReader& reader);

  const BoxingPlan& plan(TensorId id, const TensorVersion& from, int to_stage,
                         const MeshState& to) {
    return plans_.plan(types_[id], at(meshes_, from.stage), from.state, at(meshes_, to_stage), to);
  }
  void require_direction(TensorId id, const TensorVersion& source, const StageReader& reader) const;
  void raise_phase(TensorId id, VersionId version, Phase phase);

  const StageFacts& facts_;
  BoxingPlans& plans_;
  StagedGraph& staged_;
  Table<TensorId, BoxedTypeId> types_;
  std::vector<BoxedMeshId> meshes_;  // by stage
  Table<TensorId, Table<VersionId, TensorVersion>> versions_;
};

}  // namespace sextant
