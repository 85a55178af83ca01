// Turns: of CudaProgram::kHostSteps places the step's number says which one it fills.
#include "backends/cuda/devices/early_copies.h"

#include "backends/cuda/cuda_check.h"

#include <cstddef>

namespace sextant {

EarlyCopies::EarlyCopies(const CudaProgram& program) : program_(program) {
  for (std::size_t i = 0; i < program.num_runs(); ++i) {
    if (program.run(RunId(i)).early.empty()) continue;
    Early& early = early_[RunId(i)];
    SEXTANT_CUDA(cudaEventCreateWithFlags(&early.brought, cudaEventDisableTiming));
    for (cudaEvent_t& taken : early.taken)
      SEXTANT_CUDA(cudaEventCreateWithFlags(&taken, cudaEventDisableTiming));
  }
  if (!early_.empty()) SEXTANT_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
}

EarlyCopies::~EarlyCopies() {
  for (const auto& [run, early] : early_) {
    cudaEventDestroy(early.brought);
    for (const cudaEvent_t taken : early.taken) cudaEventDestroy(taken);
  }
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

// What is overwritten is of kHostSteps before, which that step's copy has taken.
void EarlyCopies::bring(RunId id, std::int64_t step, cudaStream_t reader) {
  const auto found = early_.find(id);
  if (found == early_.end()) return;
  const std::int64_t turn = step % CudaProgram::kHostSteps;
  const Early& early = found->second;
  SEXTANT_CUDA(cudaStreamWaitEvent(stream_, early.taken[static_cast<std::size_t>(turn)], 0));
  for (const EarlyCopy& copy : program_.run(id).early)
    SEXTANT_CUDA(
        cudaMemcpyAsync(copy.near + turn * copy.near_stride, copy.host + turn * copy.host_stride,
                        static_cast<std::size_t>(copy.bytes), cudaMemcpyHostToDevice, stream_));
  SEXTANT_CUDA(cudaEventRecord(early.brought, stream_));
  SEXTANT_CUDA(cudaStreamWaitEvent(reader, early.brought, 0));
}

void EarlyCopies::note_taken(RunId id, std::int64_t step, cudaStream_t stream) {
  const auto found = early_.find(id);
  if (found == early_.end()) return;
  const auto turn = static_cast<std::size_t>(step % CudaProgram::kHostSteps);
  SEXTANT_CUDA(cudaEventRecord(found->second.taken[turn], stream));
}

void EarlyCopies::bring_all(std::int64_t step, cudaStream_t reader, cudaEvent_t before) {
  if (early_.empty()) return;
  if (before != nullptr) SEXTANT_CUDA(cudaStreamWaitEvent(stream_, before, 0));
  for (const auto& [run, early] : early_) bring(run, step, reader);
}

}  // namespace sextant
