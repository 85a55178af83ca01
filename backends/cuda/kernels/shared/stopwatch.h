// Seconds of work on a stream of its own, for choices by measurement while kernels are made.
#pragma once

#include "backends/cuda/cuda_check.h"

namespace sextant {

class Stopwatch {
 public:
  Stopwatch() {
    SEXTANT_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    SEXTANT_CUDA(cudaEventCreate(&begin_));
    SEXTANT_CUDA(cudaEventCreate(&end_));
  }
  ~Stopwatch() {
    cudaEventDestroy(end_);
    cudaEventDestroy(begin_);
    cudaStreamDestroy(stream_);
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  cudaStream_t stream() const { return stream_; }

  // Of one of `times` runs of `work` behind each other.
  template <typename Work>
  double seconds(int times, const Work& work) {
    SEXTANT_CUDA(cudaEventRecord(begin_, stream_));
    for (int i = 0; i < times; ++i) work();
    SEXTANT_CUDA(cudaEventRecord(end_, stream_));
    SEXTANT_CUDA(cudaEventSynchronize(end_));
    float milliseconds = 0;
    SEXTANT_CUDA(cudaEventElapsedTime(&milliseconds, begin_, end_));
    return static_cast<double>(milliseconds) * 1e-3 / times;
  }

 private:
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

}  // namespace sextant
