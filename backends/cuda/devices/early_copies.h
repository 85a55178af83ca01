// Copies of what loaders fill, on a stream of their own: they bring it to the card while the step
// before computes.
#pragma once

#include "backends/cuda/cuda_program.h"

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <map>

namespace sextant {

// For the thread that launches, on the card that is current when it is made. Every call of a run
// that has no early copies does nothing.
class EarlyCopies {
 public:
  // Borrows the program.
  explicit EarlyCopies(const CudaProgram& program);
  ~EarlyCopies();
  EarlyCopies(const EarlyCopies&) = delete;
  EarlyCopies& operator=(const EarlyCopies&) = delete;

  // Brings what the run reads in this step, whose loader has filled its buffer; `reader` waits for
  // it.
  void bring(RunId id, std::int64_t step, cudaStream_t reader);
  // What was brought for the step has been taken by all that is on `stream` so far: its place may
  // be overwritten.
  void note_taken(RunId id, std::int64_t step, cudaStream_t stream);
  // Brings what all runs read in a step that is replayed: a graph holds no early copies. They wait
  // for `before`, the end of the step whose places they take; null: it was launched singly.
  void bring_all(std::int64_t step, cudaStream_t reader, cudaEvent_t before);

 private:
  // Of one run: when its copies have come, and when those of a turn have been taken.
  struct Early {
    cudaEvent_t brought = nullptr;
    std::array<cudaEvent_t, CudaProgram::kHostSteps> taken{};
  };

  const CudaProgram& program_;
  std::map<RunId, Early> early_;
  cudaStream_t stream_ = nullptr;  // null: no run has early copies
};

}  // namespace sextant
