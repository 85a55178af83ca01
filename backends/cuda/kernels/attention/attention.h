// Arguments of the attention kernels, callable from C++.
#pragma once

#include "backends/cuda/kernels/attention/attention_shape.h"
#include "core/base/dtype.h"

#include <cstddef>
#include <cstdint>

namespace sextant {

// Largest head of queries and values that tensor cores serve.
constexpr std::int64_t kMostHeadSize = 256;

struct AttentionArguments {
  AttentionShape shape;
  DType dtype = DType::kF32;  // of q, k, v
  bool has_wide_out = false;  // o in the type that arithmetic uses
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  void* o = nullptr;
  void* lse = nullptr;  // f64 of f64, else f32
  bool accumulate_o = false, accumulate_lse = false;
};

struct AttentionGradArguments {
  AttentionShape shape;
  DType dtype = DType::kF32;  // of q, k, v, o, d_o
  bool has_wide_out = false;  // dq, dk, dv in the type that arithmetic uses
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  const void* o = nullptr;
  const void* lse = nullptr;
  const void* d_o = nullptr;
  void* dq = nullptr;
  void* dk = nullptr;
  void* dv = nullptr;
  bool accumulate_dq = false, accumulate_dk = false, accumulate_dv = false;
  void* delta = nullptr;  // scratch: a value like lse per row
};

// Any dtype, any shape.
cudaError_t enqueue_attention(const AttentionArguments& arguments, cudaStream_t stream);
cudaError_t enqueue_attention_grad(const AttentionGradArguments& arguments, cudaStream_t stream);
// delta = sum over the head of o * d_o; part of the gradient.
cudaError_t enqueue_attention_delta(const AttentionGradArguments& arguments, cudaStream_t stream);

// On tensor cores: sizes of heads are multiples of 8, kMostHeadSize at most, and addresses of 16
// bytes.
cudaError_t enqueue_attention_bf16(const AttentionArguments& arguments, cudaStream_t stream);
cudaError_t enqueue_attention_f16(const AttentionArguments& arguments, cudaStream_t stream);
cudaError_t enqueue_attention_grad_bf16(const AttentionGradArguments& arguments,
                                        cudaStream_t stream);
cudaError_t enqueue_attention_grad_f16(const AttentionGradArguments& arguments,
                                       cudaStream_t stream);

struct LseByHeadArguments {
  AttentionShape shape;
  const float* lse = nullptr;  // [batch, queries, heads]
  float* by_head = nullptr;    // [batch, heads, queries]
};

cudaError_t enqueue_lse_by_head(const LseByHeadArguments& arguments, cudaStream_t stream);

struct AttentionMergeArguments {
  DType dtype = DType::kF32;  // of all
  const void* a = nullptr;
  const void* lse_a = nullptr;
  const void* b = nullptr;
  const void* lse_b = nullptr;
  void* o = nullptr;
  void* lse = nullptr;
  bool accumulate_o = false, accumulate_lse = false;
  std::int64_t rows = 0, size = 0;
};

cudaError_t enqueue_attention_merge(const AttentionMergeArguments& arguments, cudaStream_t stream);

}  // namespace sextant
