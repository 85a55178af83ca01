// Builds a staged graph operator by operator: finds or makes the version of each input that the
// operator wants, so that consumers that want the same words share one boxing.
#pragma once

#include "compiler/words/boxing_times.h"
#include "compiler/words/staged_graph.h"
#include "core/base/stop_poll.h"
#include "core/costs/cost_model.h"
#include "core/graphs/logical_graph.h"
#include "core/graphs/operator.h"
#include "sbp/boxing_plans.h"
#include "sbp/inference.h"
#include "sbp/mesh_state.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace sextant {

class StageBuilder {
 public:
  // `rates` and `words` by OpId. All arguments outlive the builder.
  StageBuilder(const LogicalGraph& graph, const std::vector<Placement>& placements,
               const std::vector<int>& stage_of_layer,
               const std::vector<int>& virtual_stage_of_layer, const std::vector<Rate>& rates,
               const WordAssignment& words, const BoxingTimes& times, BoxingPlans& plans);

  StagedGraph run(std::int64_t micro_batches, const StopPoll& stop = StopPoll());

 private:
  // Who may read a version. A tensor made per micro-batch has two kinds: its contents, and their
  // sum over the step. A tensor boxed per use has boxed ones for forward and for backward
  // of each layer.
  enum class Readers : std::uint8_t { kAny, kPerMicroBatch, kPerStep, kForward, kBackward };

  struct Version {
    StagedTensorIndex tensor = -1;
    int stage = 0;
    int virtual_stage = 0;  // of the layer that makes it there
    MeshState state;
    Readers readers = Readers::kAny;
    int layer = 0;  // the one that may read it, if it is boxed per use
    // The boxing that made it, on its own stage, and what that boxing read.
    std::vector<StagedOpIndex> made_by;
    std::int32_t source = -1;  // in versions_[tensor]; -1: made by the operator itself
  };

  // What the builder knows of a logical tensor.
  struct Facts {
    bool read_per_micro_batch = false, read_per_step = false;
    bool is_late = false;  // made once per step from sums over the micro-batches
    std::vector<Version> versions;
  };

  struct Reader {
    OpId op;
    int stage = 0;
    int layer = 0;
    Phase phase = Phase::kForward;
    Rate rate = Rate::kPerMicroBatch;
  };

  const LogicalTensor& logical(TensorId id) const { return graph_.tensor(id); }
  const LogicalOp& producer(TensorId id) const { return graph_.op(logical(id).producer); }
  Rate rate_of(TensorId id) const { return rates_[logical(id).producer.index()]; }
  int stage_of(const LogicalOp& op) const {
    return stage_of_layer_[static_cast<std::size_t>(op.layer)];
  }
  int virtual_stage_of(int layer) const {
    return virtual_stage_of_layer_[static_cast<std::size_t>(layer)];
  }

  void note_reads();
  void add_op(OpId id);
  void add_parameter(OpId id);
  bool is_master(TensorId parameter) const;
  void add_untrained_parameter(OpId id);
  void append_op(OpId id, std::size_t first_input, StagedTensorIndex parameter);
  // The mesh axis along which an operator passes its parts to the next device instead of acting.
  std::optional<std::size_t> ring_axis_of(OpId id) const;
  StagedTensorIndex add_output(OpId id, std::size_t index, StagedOpIndex op);
  MemoryClass memory_of(TensorId id) const;
  MemoryClass memory_of_made(TensorId id, const NdSbp& made) const;
  bool is_late(OpId id) const;

  StagedTensorIndex read(TensorId id, const NdSbp& words, const Reader& reader);
  Readers readers_of(TensorId id, const Reader& reader) const;
  // Of the versions that all uses share.
  Readers lasting_readers(TensorId id) const {
    return rate_of(id) == Rate::kPerStep ? Readers::kAny : Readers::kPerMicroBatch;
  }
  static bool is_per_use(Readers readers) {
    return readers == Readers::kForward || readers == Readers::kBackward;
  }
  std::optional<std::size_t> find(TensorId id, const MeshState& wanted, Readers readers,
                                  const Reader& reader) const;
  // Each returns an index in the versions of the tensor.
  std::size_t find_or_make(TensorId id, const MeshState& wanted, const Reader& reader);
  std::size_t make(TensorId id, const MeshState& wanted, Readers readers, const Reader& reader);
  void add_accumulator(TensorId id);
  NdSbp words_of_sum(TensorId id, const NdSbp& made) const;
  bool sums_itself(TensorId id, const NdSbp& made) const;
  void bring_to_stage(TensorId id, const Reader& reader);

  // A boxing under way: where the value is now and for whom it is made.
  struct Chain {
    TensorId id;
    const Reader* reader = nullptr;
    Rate rate = Rate::kPerMicroBatch;
    bool before_transfer = false;  // still on the stage of the source
    MemoryClass memory = MemoryClass::kActivations;
    StagedTensorIndex tensor = -1;
    int stage = 0;
    int virtual_stage = 0;
    std::vector<StagedOpIndex> made_by;
  };
  const BoxingPlan& plan(TensorId id, const Version& from, int to_stage, const MeshState& to) {
    return plans_.plan(types_[id.index()], meshes_[static_cast<std::size_t>(from.stage)],
                       from.state, meshes_[static_cast<std::size_t>(to_stage)], to);
  }
  void append_step(Chain& chain, const BoxingStep& step, bool is_last);
  void append_transfer(Chain& chain, const BoxingStep& step, bool is_last);
  StagedOp boxing_op(const Chain& chain, const std::string& kind) const;
  void require_direction(TensorId id, const Version& source, const Reader& reader) const;
  void raise_phase(TensorId id, std::size_t version, Phase phase);
  StagedTensorIndex add_boxed(const Chain& chain, const NdSbp& words, bool is_last);

  const LogicalGraph& graph_;
  const std::vector<Placement>& placements_;
  const std::vector<int>& stage_of_layer_;
  const std::vector<int>& virtual_stage_of_layer_;
  const std::vector<Rate>& rates_;
  const WordAssignment& words_;
  const BoxingTimes& times_;
  BoxingPlans& plans_;
  std::vector<BoxedTypeId> types_;                  // by TensorId
  std::vector<BoxedMeshId> meshes_;                 // by stage
  std::vector<std::vector<std::int64_t>> extents_;  // by stage
  std::vector<Facts> facts_;                        // by TensorId
  std::map<OpId, OpId> updater_of_;                 // parameter -> the operator that updates it
  std::map<OpId, TensorId> updates_;                // the reverse, to the parameter's tensor
  StagedGraph staged_;
};

}  // namespace sextant
