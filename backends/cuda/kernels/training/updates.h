// Updates of many parameters in one launch, callable from C++. What belongs to a parameter is a row
// of a table in device memory; a chunk is what one block works on.
#pragma once

#include "backends/cuda/kernels/shared/chunk.h"
#include "core/base/dtype.h"

#include <cuda_runtime_api.h>

#include <cstdint>

namespace sextant {

enum class CudaUpdate { kSgd, kMomentum, kAdamW, kLambDirection };
enum class CudaSchedule { kConstant, kLinear, kCosine };

// core/operators/training/learning_rate.h, as numbers.
struct CudaRate {
  CudaSchedule schedule = CudaSchedule::kConstant;
  double full = 0, minimum = 0;
  std::int64_t warm_up = 0, total = 0;
};

struct CudaUpdateRow {
  const void* gradient = nullptr;
  const void* control = nullptr;  // {coefficient, flag}
  // Of the state type; `parameter` is read only by kLambDirection.
  void* parameter = nullptr;
  void* m = nullptr;          // of all but kSgd
  void* v = nullptr;          // of kAdamW and kLambDirection
  void* direction = nullptr;  // of kLambDirection
  std::int64_t* step = nullptr;
  double* rate_used = nullptr;  // of kLambDirection
  CudaRate rate;
  double decay = 0, momentum = 0, epsilon = 0, beta1 = 0, beta2 = 0;
  std::int64_t elements = 0;
  DType gradient_type = DType::kF32, control_type = DType::kF64;
  bool nesterov = false;
  bool adds_direction = false, adds_rate = false;  // outputs that accumulate
  bool is_aligned = false;                         // every address is a multiple of 16
};

// What the elements of a row know about the update under way; made by the first of the two
// launches.
struct CudaUpdateStep {
  double coefficient, rate, factor1, factor2;
  bool updates;
};

struct CudaUpdates {
  CudaUpdate update = CudaUpdate::kSgd;
  DType state_type = DType::kF32;  // or f64, of gradients in f64
  const CudaUpdateRow* rows = nullptr;
  CudaUpdateStep* steps = nullptr;  // one per row
  std::int64_t num_rows = 0;
  const CudaChunk* chunks = nullptr;
  std::int64_t num_chunks = 0, chunk_elements = 0;
  // Each row is one chunk: its block begins the update itself, and there is one launch.
  bool rows_are_chunks = false;
};
cudaError_t enqueue_updates(const CudaUpdates& updates, cudaStream_t stream);

}  // namespace sextant
