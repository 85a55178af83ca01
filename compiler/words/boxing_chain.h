// One boxing under way, as operators that are appended to a staged graph.
#pragma once

#include "compiler/words/stage_facts.h"
#include "compiler/words/staged_graph.h"
#include "sbp/boxing.h"

#include <vector>

namespace sextant {

// Who reads a tensor, and so for whom it is boxed.
struct StageReader {
  OpId op;
  int stage = 0;
  int layer = 0;
  Phase phase = Phase::kForward;
  Rate rate = Rate::kPerMicroBatch;
};

// Where the value is now and for whom it is made.
struct BoxingChain {
  TensorId id;
  const StageReader* reader = nullptr;
  Rate rate = Rate::kPerMicroBatch;
  bool before_transfer = false;  // still on the stage of the source
  MemoryClass memory = MemoryClass::kActivations;
  StagedTensorId tensor;
  int stage = 0;
  int virtual_stage = 0;
  std::vector<StagedOpId> made_by;  // the boxings on the stage where it is
};

// Appends the operator of a step, or both halves of a transfer, with the tensor that it makes; the
// chain is there afterwards. What is made last is in the chain's memory.
void append_step(const StageFacts& facts, BoxingChain& chain, const BoxingStep& step, bool is_last,
                 StagedGraph& staged);

}  // namespace sextant
