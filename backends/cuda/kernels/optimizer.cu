// Optimizer kernels: grid-stride over elements, 256 threads a block. Whether a step happens is read
// by every thread from the control, so nothing waits for the host. The count of updates is advanced
// by a launch of its own behind the update, because every block of it reads the count.
#include "backends/cuda/kernels/optimizer.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cfloat>
#include <math_constants.h>

namespace sextant {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMaxBlocks = 2048;

__device__ inline double wide(double x) { return x; }
__device__ inline double wide(float x) { return x; }
__device__ inline double wide(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ inline double wide(__half x) { return __half2float(x); }

__device__ double number(const void* data, CudaFloat type) {
  switch (type) {
    case CudaFloat::kF64:
      return *static_cast<const double*>(data);
    case CudaFloat::kF32:
      return *static_cast<const float*>(data);
    case CudaFloat::kBF16:
      return wide(*static_cast<const __nv_bfloat16*>(data));
    case CudaFloat::kF16:
      return wide(*static_cast<const __half*>(data));
  }
  return 0;
}

__device__ double rate_at(const CudaRate& rate, std::int64_t update) {
  const std::int64_t full = rate.warm_up > 1 ? rate.warm_up : 1;
  if (update <= full) return rate.full * static_cast<double>(update) / static_cast<double>(full);
  if (rate.schedule == CudaSchedule::kConstant) return rate.full;
  if (update >= rate.total) return rate.minimum;
  const double progress =
      static_cast<double>(update - full) / static_cast<double>(rate.total - full);
  const double left =
      rate.schedule == CudaSchedule::kLinear ? 1.0 - progress : 0.5 * (1.0 + cospi(progress));
  return rate.minimum + (rate.full - rate.minimum) * left;
}

// What all threads of an update know.
struct Step {
  float coefficient, rate, factor1, factor2;
};

__device__ Step step_of(const CudaUpdateArguments& x) {
  const std::int64_t update = *x.step + 1;
  const auto count = static_cast<double>(update);
  return {static_cast<float>(x.control[0]), static_cast<float>(rate_at(x.rate, update)),
          static_cast<float>(1.0 / (1.0 - pow(x.beta1, count))),
          static_cast<float>(1.0 / (1.0 - pow(x.beta2, count)))};
}

template <typename Gradient, CudaUpdate kUpdate>
__global__ void update(CudaUpdateArguments x) {
  constexpr bool kIsLamb = kUpdate == CudaUpdate::kLambDirection;
  const bool updates = x.control[1] != 0.0;
  if (!updates && !kIsLamb) return;
  const Step step = step_of(x);
  const auto* gradient = static_cast<const Gradient*>(x.gradient);
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < x.elements;
       i += stride) {
    if (!updates) {
      if constexpr (kIsLamb) x.direction[i] = 0.0f;
      continue;
    }
    const float p = x.parameter[i];
    float g = static_cast<float>(wide(gradient[i])) * step.coefficient;
    if constexpr (kUpdate == CudaUpdate::kSgd) {
      x.parameter[i] = p - step.rate * (g + x.decay * p);
    } else if constexpr (kUpdate == CudaUpdate::kMomentum) {
      g += x.decay * p;
      const float m = x.momentum * x.m[i] + g;
      x.m[i] = m;
      x.parameter[i] = p - step.rate * (x.nesterov ? g + x.momentum * m : m);
    } else {
      const auto keep1 = static_cast<float>(x.beta1), keep2 = static_cast<float>(x.beta2);
      const float m = keep1 * x.m[i] + static_cast<float>(1.0 - x.beta1) * g;
      const float v = keep2 * x.v[i] + static_cast<float>(1.0 - x.beta2) * g * g;
      x.m[i] = m;
      x.v[i] = v;
      const float direction =
          m * step.factor1 / (sqrtf(v * step.factor2) + x.epsilon) + x.decay * p;
      if constexpr (kIsLamb)
        x.direction[i] = direction;
      else
        x.parameter[i] = p - step.rate * direction;
    }
  }
}

__global__ void count_update(CudaUpdateArguments x) {
  const bool updates = x.control[1] != 0.0;
  if (updates) ++*x.step;
  if (x.rate_used != nullptr) *x.rate_used = updates ? rate_at(x.rate, *x.step) : 0.0;
}

__global__ void lamb_apply(CudaApplyArguments x) {
  if (x.control[1] == 0.0) return;
  double rate = *x.rate;
  if (x.adapts && x.norms[0] > 0 && x.norms[1] > 0) rate *= sqrt(x.norms[0]) / sqrt(x.norms[1]);
  const auto r = static_cast<float>(rate);
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < x.elements;
       i += stride)
    x.parameter[i] -= r * x.direction[i];
}

// The pair of thread 0 becomes the sum over the block.
__device__ double2 sum_over_block(double2 own) {
  __shared__ double2 all[kThreads];
  all[threadIdx.x] = own;
  for (unsigned width = kThreads / 2; width > 0; width /= 2) {
    __syncthreads();
    if (threadIdx.x >= width) continue;
    all[threadIdx.x].x += all[threadIdx.x + width].x;
    all[threadIdx.x].y += all[threadIdx.x + width].y;
  }
  return all[threadIdx.x];
}

template <typename T>
__global__ void stats_of_blocks(CudaStatsArguments arguments) {
  const auto* x = static_cast<const T*>(arguments.x);
  const auto* y = static_cast<const T*>(arguments.y);
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  double2 sums = {0.0, 0.0};
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < arguments.elements;
       i += stride) {
    const double a = wide(x[i]);
    if (y != nullptr) {
      const double b = wide(y[i]);
      sums.x += a * a;
      sums.y += b * b;
    } else if (isfinite(a)) {
      sums.x += a * a;
    } else {
      sums.y += 1.0;
    }
  }
  sums = sum_over_block(sums);
  if (threadIdx.x > 0) return;
  arguments.scratch[2 * blockIdx.x] = sums.x;
  arguments.scratch[2 * blockIdx.x + 1] = sums.y;
}

__global__ void sum_of_blocks(const double* scratch, double* stats) {
  double2 sums = {0.0, 0.0};
  for (int block = static_cast<int>(threadIdx.x); block < kStatsBlocks; block += kThreads) {
    sums.x += scratch[2 * block];
    sums.y += scratch[2 * block + 1];
  }
  sums = sum_over_block(sums);
  if (threadIdx.x > 0) return;
  stats[0] = sums.x;
  stats[1] = sums.y;
}

// One thread per element of the pair.
__global__ void add_stats(CudaAddStatsArguments x) {
  double sum = x.begins ? 0.0 : x.stats[threadIdx.x];
  for (int i = 0; i < x.count; ++i) sum += x.inputs[i][threadIdx.x];
  x.stats[threadIdx.x] = sum;
}

__device__ bool is_finite(const double* stats) { return stats[1] == 0.0 && isfinite(stats[0]); }

__global__ void control(CudaControlArguments x) {
  const double tokens = number(x.tokens, x.token_type);
  const double scale = x.scale != nullptr ? number(x.scale, x.scale_type) : x.constant;
  bool updates = tokens > 0;
  double coefficient = updates ? 1.0 / (tokens * scale) : 0.0;
  if (x.stats != nullptr) {
    const bool finite = is_finite(x.stats);
    const double norm = finite ? sqrt(x.stats[0]) * coefficient : CUDART_INF;
    updates = updates && finite;
    if (x.limit > 0 && norm > x.limit) coefficient *= x.limit / norm;
    *x.norm = norm;
  }
  x.control[0] = updates ? coefficient : 0.0;
  x.control[1] = updates ? 1.0 : 0.0;
  if (x.scale != nullptr) *x.scale_used = scale;
}

__global__ void loss_scale(CudaLossScaleArguments x) {
  double scale = number(x.scale, x.scale_type);
  if (x.control[1] != 0.0) {
    if (++*x.updates < x.interval) return;
    if (scale * x.growth <= FLT_MAX) scale *= x.growth;
  } else if (!is_finite(x.stats)) {
    scale = fmax(scale * x.backoff, x.minimum);
  } else {
    return;
  }
  *x.updates = 0;
  if (x.scale_type == CudaFloat::kF64)
    *static_cast<double*>(x.scale) = scale;
  else
    *static_cast<float*>(x.scale) = static_cast<float>(scale);
}

unsigned blocks_for(std::int64_t elements) {
  const std::int64_t wanted = (elements + kThreads - 1) / kThreads;
  return static_cast<unsigned>(wanted < kMaxBlocks ? wanted : kMaxBlocks);
}

template <typename Gradient>
void start_update(const CudaUpdateArguments& x, cudaStream_t stream) {
  const unsigned blocks = blocks_for(x.elements);
  switch (x.update) {
    case CudaUpdate::kSgd:
      update<Gradient, CudaUpdate::kSgd><<<blocks, kThreads, 0, stream>>>(x);
      break;
    case CudaUpdate::kMomentum:
      update<Gradient, CudaUpdate::kMomentum><<<blocks, kThreads, 0, stream>>>(x);
      break;
    case CudaUpdate::kAdamW:
      update<Gradient, CudaUpdate::kAdamW><<<blocks, kThreads, 0, stream>>>(x);
      break;
    case CudaUpdate::kLambDirection:
      update<Gradient, CudaUpdate::kLambDirection><<<blocks, kThreads, 0, stream>>>(x);
      break;
  }
}

}  // namespace

cudaError_t enqueue_update(const CudaUpdateArguments& arguments, cudaStream_t stream) {
  if (arguments.elements > 0) {
    switch (arguments.gradient_type) {
      case CudaFloat::kF32:
        start_update<float>(arguments, stream);
        break;
      case CudaFloat::kBF16:
        start_update<__nv_bfloat16>(arguments, stream);
        break;
      case CudaFloat::kF16:
        start_update<__half>(arguments, stream);
        break;
      case CudaFloat::kF64:
        return cudaErrorNotSupported;
    }
  }
  count_update<<<1, 1, 0, stream>>>(arguments);
  return cudaGetLastError();
}

cudaError_t enqueue_lamb_apply(const CudaApplyArguments& arguments, cudaStream_t stream) {
  if (arguments.elements == 0) return cudaSuccess;
  lamb_apply<<<blocks_for(arguments.elements), kThreads, 0, stream>>>(arguments);
  return cudaGetLastError();
}

cudaError_t enqueue_stats(const CudaStatsArguments& arguments, cudaStream_t stream) {
  switch (arguments.type) {
    case CudaFloat::kF64:
      stats_of_blocks<double><<<kStatsBlocks, kThreads, 0, stream>>>(arguments);
      break;
    case CudaFloat::kF32:
      stats_of_blocks<float><<<kStatsBlocks, kThreads, 0, stream>>>(arguments);
      break;
    case CudaFloat::kBF16:
      stats_of_blocks<__nv_bfloat16><<<kStatsBlocks, kThreads, 0, stream>>>(arguments);
      break;
    case CudaFloat::kF16:
      stats_of_blocks<__half><<<kStatsBlocks, kThreads, 0, stream>>>(arguments);
      break;
  }
  sum_of_blocks<<<1, kThreads, 0, stream>>>(arguments.scratch, arguments.stats);
  return cudaGetLastError();
}

cudaError_t enqueue_add_stats(const CudaAddStatsArguments& arguments, cudaStream_t stream) {
  add_stats<<<1, 2, 0, stream>>>(arguments);
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
