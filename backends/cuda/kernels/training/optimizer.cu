// Control of a step and loss scale: one thread. LAMB's step: 256 threads a block, grid-stride.
#include "backends/cuda/kernels/shared/numbers.cuh"
#include "backends/cuda/kernels/training/optimizer.h"

#include <cfloat>
#include <math_constants.h>

namespace sextant {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMaxBlocks = 2048;

__device__ double number(DType dtype, const void* data, std::int64_t at = 0) {
  return load_number<double>(dtype, data, at);
}

// x.norms of a tensor of zeros, or one that takes no part in the ratio, leave the rate as it is.
template <typename State>
__global__ void lamb_apply(CudaApplyArguments x) {
  if (number(x.control_type, x.control, 1) == 0.0) return;
  const double weights = number(x.norms_type, x.norms, 0);
  const double directions = number(x.norms_type, x.norms, 1);
  double rate = number(x.rate_type, x.rate);
  if (x.adapts && weights > 0 && directions > 0) rate *= sqrt(weights) / sqrt(directions);
  const auto r = static_cast<State>(rate);
  auto* p = static_cast<State*>(x.parameter);
  const auto* d = static_cast<const State*>(x.direction);
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
#pragma unroll 4
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < x.elements;
       i += stride)
    p[i] -= r * d[i];
}

__device__ bool is_finite(const double* stats) { return stats[1] == 0.0 && isfinite(stats[0]); }

__device__ void put(double* to, double value, bool accumulate) {
  *to = accumulate ? *to + value : value;
}

__global__ void control(CudaControlArguments x) {
  const double tokens = number(x.token_type, x.tokens);
  const double scale = x.scale != nullptr ? number(x.scale_type, x.scale) : x.constant;
  bool updates = tokens > 0;
  double coefficient = updates ? 1.0 / (tokens * scale) : 0.0;
  if (x.stats != nullptr) {
    const bool finite = is_finite(x.stats);
    const double norm = finite ? sqrt(x.stats[0]) * coefficient : CUDART_INF;
    updates = updates && finite;
    if (x.limit > 0 && norm > x.limit) coefficient *= x.limit / norm;
    put(x.norm, norm, x.adds_norm);
  }
  put(x.control, updates ? coefficient : 0.0, x.adds_control);
  put(x.control + 1, updates ? 1.0 : 0.0, x.adds_control);
  if (x.scale != nullptr) put(x.scale_used, scale, x.adds_scale);
}

__global__ void loss_scale(CudaLossScaleArguments x) {
  double scale = number(x.scale_type, x.scale);
  if (number(x.control_type, x.control, 1) != 0.0) {
    if (++*x.updates < x.interval) return;
    if (scale * x.growth <= FLT_MAX) scale *= x.growth;
  } else if (!is_finite(x.stats)) {
    scale = fmax(scale * x.backoff, x.minimum);
  } else {
    return;
  }
  *x.updates = 0;
  store_number(x.scale_type, x.scale, 0, scale);
}

}  // namespace

cudaError_t enqueue_lamb_apply(const CudaApplyArguments& arguments, cudaStream_t stream) {
  if (arguments.elements == 0) return cudaSuccess;
  const std::int64_t wanted = (arguments.elements + kThreads - 1) / kThreads;
  const auto blocks = static_cast<unsigned>(wanted < kMaxBlocks ? wanted : kMaxBlocks);
  if (arguments.state_type == DType::kF64)
    lamb_apply<double><<<blocks, kThreads, 0, stream>>>(arguments);
  else
    lamb_apply<float><<<blocks, kThreads, 0, stream>>>(arguments);
  return cudaGetLastError();
}

cudaError_t enqueue_control(const CudaControlArguments& arguments, cudaStream_t stream) {
  control<<<1, 1, 0, stream>>>(arguments);
  return cudaGetLastError();
}

cudaError_t enqueue_loss_scale(const CudaLossScaleArguments& arguments, cudaStream_t stream) {
  loss_scale<<<1, 1, 0, stream>>>(arguments);
  return cudaGetLastError();
}

}  // namespace sextant
