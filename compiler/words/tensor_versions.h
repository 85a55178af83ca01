// The versions in which the tensors of a staged graph exist: by stage, words and readers. Finds the
// one that a reader takes, and makes it by boxing where there is none.
#pragma once

#include "compiler/words/boxing_chain.h"
#include "compiler/words/stage_facts.h"
#include "compiler/words/staged_graph.h"
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

struct TensorVersion {
  StagedTensorIndex tensor = -1;
  int stage = 0;
  int virtual_stage = 0;  // of the layer that makes it there
  MeshState state;
  VersionReaders readers = VersionReaders::kAny;
  int layer = 0;  // the one that may read it, if it is boxed per use
  // The boxing that made it, on its own stage, and what that boxing read.
  std::vector<StagedOpIndex> made_by;
  std::int32_t source = -1;  // in the versions of the tensor; -1: made by the operator itself
};

// Somewhat over 200 lines: finding, making and raising a version walk one table, which nobody else
// sees.
class TensorVersions {
 public:
  // Borrows all; boxings are appended to `staged`.
  TensorVersions(const StageFacts& facts, const std::vector<Placement>& placements,
                 BoxingPlans& plans, StagedGraph& staged);

  // What the tensor's own operator makes, before anybody reads it.
  void add(TensorId id, TensorVersion original) {
    versions_[id.index()].push_back(std::move(original));
  }
  StagedTensorIndex original(TensorId id) const { return versions_[id.index()].front().tensor; }
  // In the words that the reader wants, where it wants them.
  StagedTensorIndex read(TensorId id, const NdSbp& words, const StageReader& reader);

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
  std::optional<std::size_t> find(TensorId id, const MeshState& wanted, VersionReaders readers,
                                  const StageReader& reader) const;
  // Each returns an index in the versions of the tensor.
  std::size_t find_or_make(TensorId id, const MeshState& wanted, const StageReader& reader);
  std::size_t make(TensorId id, const MeshState& wanted, VersionReaders readers,
                   const StageReader& reader);
  void add_accumulator(TensorId id);
  void bring_to_stage(TensorId id, const StageReader& reader);

  const BoxingPlan& plan(TensorId id, const TensorVersion& from, int to_stage,
                         const MeshState& to) {
    return plans_.plan(types_[id.index()], meshes_[static_cast<std::size_t>(from.stage)],
                       from.state, meshes_[static_cast<std::size_t>(to_stage)], to);
  }
  void require_direction(TensorId id, const TensorVersion& source, const StageReader& reader) const;
  void raise_phase(TensorId id, std::size_t version, Phase phase);

  const StageFacts& facts_;
  BoxingPlans& plans_;
  StagedGraph& staged_;
  std::vector<BoxedTypeId> types_;                    // by TensorId
  std::vector<BoxedMeshId> meshes_;                   // by stage
  std::vector<std::vector<TensorVersion>> versions_;  // by TensorId
};

}  // namespace sextant
