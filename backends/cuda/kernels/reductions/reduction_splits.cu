// Reductions whose outputs several blocks have a part of (reduction.cuh): the parts of each output,
// added by a warp in a fixed order.
#include "backends/cuda/kernels/reductions/reduction.cuh"

namespace sextant {
namespace {

template <typename W, bool kIsExtremum>
__global__ void __launch_bounds__(kAcrossThreads)
    combine_splits(const __grid_constant__ ReductionSplits s) {
  const std::int64_t output = std::int64_t{blockIdx.x} * kAcrossWarps + threadIdx.x / kWarp;
  if (output >= s.outputs) return;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const auto combine = [](W a, W b) { return combined<kIsExtremum>(a, b); };
  for (int sum = 0; sum < s.sums; ++sum) {
    const auto part = [&](std::int64_t split) {
      return static_cast<const W*>(s.partial)[(split * s.sums + sum) * s.outputs + output];
    };
    // The parts of an extremum begin with one of them, for what is neutral depends on the element.
    W all = kIsExtremum ? part(0) : W(0);
    for (std::int64_t split = lane; split < s.splits; split += kWarp)
      all = combine(all, part(split));
    all = over_warp(all, combine);
    if (lane == 0) put_result(s.result, sum, output, all);
  }
}

template <typename W>
void start(const ReductionSplits& s, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>((s.outputs + kAcrossWarps - 1) / kAcrossWarps);
  if (s.is_extremum)
    combine_splits<W, true><<<blocks, kAcrossThreads, 0, stream>>>(s);
  else
    combine_splits<W, false><<<blocks, kAcrossThreads, 0, stream>>>(s);
}

}  // namespace

cudaError_t enqueue_combine_splits(const ReductionSplits& splits, cudaStream_t stream) {
  if (splits.dtype == DType::kF64)
    start<double>(splits, stream);
  else if (is_floating(splits.dtype))
    start<float>(splits, stream);
  else
    start<std::int64_t>(splits, stream);
  return cudaGetLastError();
}

}  // namespace sextant
