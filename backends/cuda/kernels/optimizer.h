// Optimizer kernels on contiguous device memory, callable from C++. Parameters and moments are f32,
// gradients f32, bf16 or f16, what decides about a step f64.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace sextant {

enum class CudaFloat { kF64, kF32, kBF16, kF16 };
enum class CudaUpdate { kSgd, kMomentum, kAdamW, kLambDirection };
enum class CudaSchedule { kConstant, kLinear, kCosine };

// core/operators/learning_rate.h, as numbers.
struct CudaRate {
  CudaSchedule schedule = CudaSchedule::kConstant;
  double full = 0, minimum = 0;
  std::int64_t warm_up = 0, total = 0;
};

struct CudaUpdateArguments {
  CudaUpdate update = CudaUpdate::kSgd;
  CudaFloat gradient_type = CudaFloat::kF32;
  const void* gradient = nullptr;
  const double* control = nullptr;  // {coefficient, flag}
  float* parameter = nullptr;       // read only by kLambDirection
  float* m = nullptr;               // of all but kSgd
  float* v = nullptr;               // of kAdamW and kLambDirection
  std::int64_t* step = nullptr;
  float* direction = nullptr;  // of kLambDirection
  double* rate_used = nullptr;
  CudaRate rate;
  float decay = 0, momentum = 0, epsilon = 0;
  double beta1 = 0, beta2 = 0;
  bool nesterov = false;
  std::int64_t elements = 0;
};
cudaError_t enqueue_update(const CudaUpdateArguments& arguments, cudaStream_t stream);

struct CudaApplyArguments {
  const float* direction = nullptr;
  const double* norms = nullptr;  // sums of squares of parameter and direction
  const double* rate = nullptr;
  const double* control = nullptr;
  float* parameter = nullptr;
  bool adapts = true;
  std::int64_t elements = 0;
};
cudaError_t enqueue_lamb_apply(const CudaApplyArguments& arguments, cudaStream_t stream);

// Pairs of sums of one or two tensors, over a fixed grid: the order of additions, and so the
// result, is the same in every run. `scratch` holds kStatsBlocks pairs.
inline constexpr int kStatsBlocks = 512;
inline constexpr std::size_t kStatsScratchBytes = kStatsBlocks * 2 * sizeof(double);
struct CudaStatsArguments {
  CudaFloat type = CudaFloat::kF32;
  const void* x = nullptr;
  const void* y = nullptr;  // given: {squares of x, squares of y}; else {squares, non-finite} of x
  double* stats = nullptr;
  double* scratch = nullptr;
  std::int64_t elements = 0;
};
cudaError_t enqueue_stats(const CudaStatsArguments& arguments, cudaStream_t stream);

// stats += of up to kStatsAtOnce pairs; the first call of a sum begins it.
inline constexpr int kStatsAtOnce = 64;
struct CudaAddStatsArguments {
  const double* inputs[kStatsAtOnce] = {};
  int count = 0;
  bool begins = true;
  double* stats = nullptr;
};
cudaError_t enqueue_add_stats(const CudaAddStatsArguments& arguments, cudaStream_t stream);

struct CudaControlArguments {
  CudaFloat token_type = CudaFloat::kF32, scale_type = CudaFloat::kF32;
  const void* tokens = nullptr;
  const double* stats = nullptr;  // or none
  const void* scale = nullptr;    // or none: then `constant`
  double constant = 1, limit = 0;
  double* control = nullptr;
  double* norm = nullptr;        // with stats
  double* scale_used = nullptr;  // with scale
};
cudaError_t enqueue_control(const CudaControlArguments& arguments, cudaStream_t stream);

struct CudaLossScaleArguments {
  CudaFloat scale_type = CudaFloat::kF32;
  const double* control = nullptr;
  const double* stats = nullptr;
  void* scale = nullptr;
  std::int64_t* updates = nullptr;
  double growth = 2, backoff = 0.5, minimum = 1;
  std::int64_t interval = 1;
};
cudaError_t enqueue_loss_scale(const CudaLossScaleArguments& arguments, cudaStream_t stream);

}  // namespace sextant
