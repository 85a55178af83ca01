// Why a staged graph moves data: every boxing with the operator that made the words and the readers
// that want others, and what it costs.
#pragma once

#include "compiler/words/staged_graph.h"
#include "core/base/units.h"
#include "core/costs/cost_model.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sextant {

struct BoxingCause {
  // The boxing: a collective, a local step, or the receive half of a transfer.
  StagedOpId boxing;
  // Where its chain of boxings starts: the operator that made the tensor, and its words.
  StagedOpId producer;
  NdSbp made;
  // Where the chain ends: who reads its results, and in which words.
  struct Reader {
    StagedOpId op;
    std::size_t input = 0;  // of the staged operator
    NdSbp wanted;
  };
  std::vector<Reader> readers;  // in the order of the graph
};

// One per boxing, in the order of the graph.
std::vector<BoxingCause> boxing_causes(const StagedGraph& graph);

struct BoxingCost {
  std::int64_t members = 0;  // of the largest group
  Bytes tensor;              // the whole tensor, in the type in which it moves
  Bytes moved;               // from device to device, all of them together, in one act
  Duration each;             // of one act
};

// Of local steps nothing but the tensor and, with a cost model, the time.
BoxingCost cost_of(const StagedGraph& graph, const StagedOp& boxing, const NetworkModel& network,
                   const CostModel* cost_model = nullptr);

// Times that an operator acts in one step.
std::int64_t acts_of(const StagedGraph& graph, const StagedOp& op);

}  // namespace sextant
