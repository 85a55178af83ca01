// The pieces of softmax cross-entropy on rows of logits, callable from C++. Statistics of rows are
// of the accumulator type of the logits.
#pragma once

#include "core/base/dtype.h"

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace sextant {

// Which classes of all the rank has, and what labels mean.
struct LabelArguments {
  const void* labels = nullptr;  // i32 or i64
  bool is_wide = false;
  std::int64_t ignored = -100;
  std::int64_t first = 0;    // local class 0 in the global numbering
  std::int64_t classes = 0;  // local ones
};

// The largest logit of every row, the sum of exp(x - max), or both in one pass.
struct RowStatisticsArguments {
  DType dtype = DType::kF32;
  const void* x = nullptr;
  const void* given_max = nullptr;          // read where only the sum is wanted
  void *max = nullptr, *sum = nullptr;      // those that are wanted
  bool adds_max = false, adds_sum = false;  // out += instead of out =
  std::int64_t rows = 0, classes = 0;
};
cudaError_t enqueue_row_statistics(const RowStatisticsArguments& arguments, cudaStream_t stream);

// The logit of each row's label; 0 where the label is another shard's or ignored.
struct PickArguments {
  DType dtype = DType::kF32;
  const void* x = nullptr;
  LabelArguments labels;
  void* picked = nullptr;
  bool adds = false;
  std::int64_t rows = 0;
};
cudaError_t enqueue_pick(const PickArguments& arguments, cudaStream_t stream);

// Sum over rows whose label counts of log(sum) + max - picked, and the number of them.
struct CrossEntropyArguments {
  DType dtype = DType::kF32;  // of all but labels
  const void *max = nullptr, *sum = nullptr, *picked = nullptr;
  LabelArguments labels;          // `classes` are all: a label that is none of them and not ignored
  std::int32_t* fault = nullptr;  // sets the flag
  void *loss = nullptr, *tokens = nullptr;
  bool adds_loss = false, adds_tokens = false;
  double* scratch = nullptr;  // kCrossEntropyScratchBytes
  std::int64_t rows = 0;
};
inline constexpr int kCrossEntropyBlocks = 256;
inline constexpr std::size_t kCrossEntropyScratchBytes = 2 * kCrossEntropyBlocks * sizeof(double);
cudaError_t enqueue_cross_entropy(const CrossEntropyArguments& arguments, cudaStream_t stream);

// dx = dloss (exp(x - max) / sum - share_each - share_label at the label); 0 in ignored rows.
struct CrossEntropyGradArguments {
  DType dtype = DType::kF32;
  const void *x = nullptr, *max = nullptr, *sum = nullptr, *dloss = nullptr;
  LabelArguments labels;
  double share_label = 1, share_each = 0;
  void* dx = nullptr;
  bool adds = false;
  std::int64_t rows = 0;
};
cudaError_t enqueue_cross_entropy_grad(const CrossEntropyGradArguments& arguments,
                                       cudaStream_t stream);

}  // namespace sextant
