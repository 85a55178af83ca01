// What staging asks of the logical graph: where an operator acts, at which rate, who updates whom,
// and in which memory and words a tensor is made and summed. Says nothing of versions.
#pragma once

#include "compiler/words/boxing_times.h"
#include "core/base/at.h"
#include "core/base/table.h"
#include "core/graphs/logical_graph.h"
#include "core/graphs/operator.h"
#include "core/graphs/physical_graph.h"
#include "core/tensors/placement.h"
#include "sbp/inference.h"
#include "sbp/mesh_state.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace sextant {

// What a staged graph is built from; all outlives the builder.
struct StageSource {
  const LogicalGraph& graph;
  const std::vector<Placement>& placements;
  const std::vector<int>& stage_of_layer;
  const std::vector<int>& virtual_stage_of_layer;
  const std::vector<Rate>& rates;  // by OpId
  const WordAssignment& words;     // by OpId
  const BoxingTimes& times;
};

class StageFacts {
 public:
  explicit StageFacts(const StageSource& source);

  const LogicalGraph& graph() const { return source_.graph; }
  const LogicalTensor& logical(TensorId id) const { return source_.graph.tensor(id); }
  const LogicalOp& producer(TensorId id) const { return source_.graph.op(logical(id).producer); }
  const OperatorDef& def_of(const LogicalOp& op) const {
    return source_.graph.registry().get(op.kind);
  }
  const OpWords& words_of(OpId id) const { return source_.words.of(id); }
  Rate rate_of(OpId id) const { return source_.rates[id.index()]; }
  Rate rate_of(TensorId id) const { return rate_of(logical(id).producer); }
  int stage_of(const LogicalOp& op) const { return at(source_.stage_of_layer, op.layer); }
  int virtual_stage_of(int layer) const { return at(source_.virtual_stage_of_layer, layer); }
  const std::vector<std::int64_t>& extents_of(int stage) const { return at(extents_, stage); }
  MeshState state(const NdSbp& words, int stage, TensorId id) const {
    return MeshState(words, extents_of(stage), logical(id).type.shape);
  }

  bool is_parameter(const LogicalOp& op) const {
    return op.inputs.empty() && !def_of(op).state_outputs.empty();
  }
  bool has_updater(OpId parameter) const { return updater_of_.count(parameter) != 0; }
  // The parameter that an operator updates, if it is an updater.
  std::optional<TensorId> updated_by(OpId id) const;
  // Of mixed precision: forward and backward read a cast of it, only the optimizer reads it itself.
  bool is_master(TensorId parameter) const;
  // Made once per step from sums over the micro-batches.
  bool is_late(TensorId id) const { return reads_[id].is_late; }
  bool is_boxed_per_use(TensorId id) const { return source_.times.per_use.count(id) != 0; }

  // Of its values, not of their sum over the step.
  MemoryClass memory_of(TensorId id) const;
  // Of what the operator itself makes.
  MemoryClass memory_of_made(TensorId id, const NdSbp& made) const;
  // The words in which values made in others are summed over the step.
  NdSbp words_of_sum(TensorId id, const NdSbp& made) const;
  // Only sums over the step are read, and they are taken in the words in which values are made.
  bool sums_itself(TensorId id, const NdSbp& made) const;
  // The mesh axis along which an operator passes its parts to the next device instead of acting.
  std::optional<std::size_t> ring_axis_of(OpId id) const;

 private:
  struct Reads {
    bool per_micro_batch = false, per_step = false;
    bool is_late = false;
  };
  void note_reads(OpId id);
  bool is_updater(const LogicalOp& op) const {
    return !op.inputs.empty() && !def_of(op).state_outputs.empty();
  }
  bool comes_late(OpId id) const;

  StageSource source_;
  std::vector<std::vector<std::int64_t>> extents_;  // by stage
  Table<TensorId, Reads> reads_;
  std::map<OpId, OpId> updater_of_;   // parameter -> the operator that updates it
  std::map<OpId, TensorId> updates_;  // the reverse, to the parameter's tensor
};

}  // namespace sextant
