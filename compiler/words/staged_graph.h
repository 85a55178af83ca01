// Between logical and physical: every operator with its stage, words, layer, phase and rate, boxing
// inserted, communications explicit; shapes still global and one operator per stage, not per rank.
// Input of everything that deals with time and memory: blocks, schedules, issue order.
#pragma once

#include "core/base/at.h"
#include "core/base/ids.h"
#include "core/base/table.h"
#include "core/graphs/logical_graph.h"
#include "core/graphs/physical_graph.h"
#include "core/tensors/attributes.h"
#include "core/tensors/placement.h"
#include "core/tensors/sbp.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sextant {

using StagedTensorId = Id<struct StagedTensorTag>;
using StagedOpId = Id<struct StagedOpTag>;

struct StagedTensor {
  std::string name;
  TensorType global;
  NdSbp words;
  int stage = 0;
  StagedOpId producer;
  MemoryClass memory = MemoryClass::kActivations;
  // State of its producer (parameter, moments, step): initially full, read before its producer acts
  // in the same step; the one edge that points back.
  bool is_state = false;
};

struct StagedCommunication {
  Primitive primitive = Primitive::kAllReduce;
  ReduceOp reduce = ReduceOp::kSum;
  std::vector<std::size_t> group_axes;  // collectives
  // Transfers: the other half, an operator on the other stage.
  StagedOpId peer;
  Side side = Side::kBoth;
  NdSbp from, to;  // a send half has no output, a receive half no input; both know both
  int from_stage = 0, to_stage = 0;
  DType dtype = DType::kF32;
};

// One operator of a fused one.
struct StagedMember {
  std::string kind;
  std::string name;
  Attributes attributes;
  std::vector<StagedTensorId> in, out;
};

struct StagedOp {
  std::string kind;
  std::string name;
  OperatorRole role = OperatorRole::kPlain;
  Attributes attributes;
  Phase phase = Phase::kForward;
  Rate rate = Rate::kPerMicroBatch;
  int stage = 0;
  int layer = 0;
  QueueRole queue = QueueRole::kCompute;
  std::vector<StagedTensorId> in, out;
  std::optional<StagedCommunication> communication;
  // Of a fused operator: what it does, in order, and the tensors that nobody else sees.
  std::vector<StagedMember> members = {};
  std::vector<StagedTensorId> inner = {};
};

// Whether the operator only brings a tensor to other words.
bool is_boxing(const StagedOp& op);

// A per-micro-batch tensor read by a per-step operator is accumulated over the step (its register
// gets acts_per_content = micro_batches); a per-step tensor read by a per-micro-batch operator
// serves all of them (consume_for = micro_batches).
struct StagedGraph {
  std::vector<Placement> placements;  // by stage
  std::int64_t micro_batches = 1;
  // By layer: the chunk of its stage that it belongs to; empty: every stage is one chunk.
  std::vector<int> chunk_of_layer;
  Table<StagedTensorId, StagedTensor> tensors;
  Table<StagedOpId, StagedOp> ops;  // every operator after its producers, state edges aside

  int chunk_of(int layer) const { return chunk_of_layer.empty() ? 0 : at(chunk_of_layer, layer); }
  int num_chunks() const;  // per stage
};

// One message per broken rule: indices, order, stage of inputs, halves that name each other,
// per-micro-batch operators fed only by compatible rates, members of fused operators. Empty means
// valid.
std::vector<std::string> validate(const StagedGraph& graph);

// Readable dump, one operator per line, for golden tests and `--dump`.
std::string to_text(const StagedGraph& graph);

}  // namespace sextant
