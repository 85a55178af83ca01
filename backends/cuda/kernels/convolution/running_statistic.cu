// Running statistics: a few thousand elements at most, once per step; a thread each.
#include "backends/cuda/kernels/convolution/running_statistic.h"
#include "backends/cuda/kernels/shared/elements.cuh"

#include <algorithm>

namespace sextant {
namespace {

constexpr int kThreads = 256;

template <typename T>
__global__ void __launch_bounds__(kThreads) update(RunningStatisticArguments a) {
  const auto *sum = static_cast<const T*>(a.sum), *count = static_cast<const T*>(a.count);
  auto* kept = static_cast<T*>(a.kept);
  const std::int64_t stride = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < a.elements;
       i += stride)
    if (count[i] > T(0)) kept[i] += static_cast<T>(a.momentum) * (sum[i] / count[i] - kept[i]);
}

}  // namespace

cudaError_t enqueue_running_statistic(const RunningStatisticArguments& arguments,
                                      cudaStream_t stream) {
  if (arguments.elements == 0) return cudaSuccess;
  const auto blocks = static_cast<unsigned>(
      std::min<std::int64_t>((arguments.elements + kThreads - 1) / kThreads, 1024));
  if (arguments.dtype == DType::kF64)
    update<double><<<blocks, kThreads, 0, stream>>>(arguments);
  else
    update<float><<<blocks, kThreads, 0, stream>>>(arguments);
  return cudaGetLastError();
}

}  // namespace sextant
