// Attention in bf16 and f16 on tensor cores: a block has 64 queries of one head, a warp 16 of them
// with their scores, probabilities and outputs in registers; keys and values come in tiles, values
// while scores are computed, the next keys while they are weighted.
#pragma once

#include "backends/cuda/kernels/attention/attention_mma.cuh"

namespace sextant {
namespace {

using namespace attention_mma;

// Keys of a tile: registers hold their scores beside the sums.
template <int padded>
constexpr int kKeysOf = padded == 256 ? 32 : 64;
template <int padded>
constexpr int kBytes = (kOwn + 2 * kKeysOf<padded>)*kStride<padded> * 2;

// The two rows of a lane while they meet tiles of keys. Scores are logarithms to the base 2.
struct Softmax {
  float largest[2] = {-INFINITY, -INFINITY};
  float sum[2] = {0, 0};  // of this lane's columns
  int first[2], last[2];  // keys that the rows see

  // Scores to probabilities so far; the factor for earlier sums.
  template <int kKeys>
  __device__ __forceinline__ void meet(Sums<kKeys>& scores, float scale, int key, bool sees_all,
                                       float (&shrink)[2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float now = largest[half];
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float& score = scores.x[n][2 * half + i];
          score *= scale;
          const int t = key + column_of(n) + i;
          if (!sees_all && (t < first[half] || t >= last[half])) score = -INFINITY;
          now = fmaxf(now, score);
        }
      now = fmaxf(now, __shfl_xor_sync(0xFFFFFFFFU, now, 1));
      now = fmaxf(now, __shfl_xor_sync(0xFFFFFFFFU, now, 2));
      // Nothing seen yet: nothing to take off.
      const float taken = now == -INFINITY ? 0.0F : now;
      shrink[half] = power_of_two(largest[half] - taken);
      largest[half] = now;
      float added = 0;
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float& score = scores.x[n][2 * half + i];
          score = power_of_two(score - taken);
          added += score;
        }
      sum[half] = sum[half] * shrink[half] + added;
    }
  }
  __device__ __forceinline__ float whole_sum(int half) const {
    float whole = sum[half] + __shfl_xor_sync(0xFFFFFFFFU, sum[half], 1);
    return whole + __shfl_xor_sync(0xFFFFFFFFU, whole, 2);
  }
};

template <typename T, int padded>
__global__ void __launch_bounds__(kThreads, kBlocks<padded>) attention_tiles(AttentionArguments a) {
  constexpr int kKeys = kKeysOf<padded>;
  extern __shared__ __align__(16) unsigned char memory[];
  T* const queries = reinterpret_cast<T*>(memory);
  T* const keys = queries + kOwn * kStride<padded>;
  T* const values = keys + kKeys * kStride<padded>;
  const AttentionShape& shape = a.shape;
  const int size = static_cast<int>(shape.size), value_size = static_cast<int>(shape.value_size);
  const int warp_row = static_cast<int>(threadIdx.x / 32) * 16;

  // The last queries see most: they go first.
  const std::int64_t tiles = (shape.queries + kOwn - 1) / kOwn;
  const std::int64_t first = (tiles - 1 - blockIdx.x % tiles) * kOwn;
  const std::int64_t h = blockIdx.x / tiles % shape.heads, b = blockIdx.x / tiles / shape.heads;
  const std::int64_t kv = shape.kv_head_of(h);
  const std::int64_t end = first + kOwn < shape.queries ? first + kOwn : shape.queries;
  const std::int64_t last_key = shape.last_seen(end - 1);
  const std::int64_t all_from = shape.first_seen(end - 1), all_to = shape.last_seen(first);
  std::int64_t t = shape.first_seen(first);
  const T* const k = static_cast<const T*>(a.k) + shape.key_row(b, 0, kv) * size;
  const T* const v = static_cast<const T*>(a.v) + shape.key_row(b, 0, kv) * value_size;
  const std::int64_t k_stride = shape.kv_heads * size, v_stride = shape.kv_heads * value_size;

  Softmax softmax;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const std::int64_t s = first + warp_row + row_of(half);
    softmax.first[half] = s < end ? static_cast<int>(shape.first_seen(s)) : 0;
    softmax.last[half] = s < end ? static_cast<int>(shape.last_seen(s)) : 0;
  }
  Sums<padded> sums;
  const float scale = static_cast<float>(shape.scale) * kLog2E;
  if (t < last_key) {
    load_tile<padded, kOwn>(queries, static_cast<const T*>(a.q) + shape.row(b, first, h) * size,
                            shape.heads * size, end - first, size);
    load_tile<padded, kKeys>(keys, k + t * k_stride, k_stride, shape.keys - t, size);
  }
  end_loads();
  for (; t < last_key; t += kKeys) {
    wait_loads<0>();
    __syncthreads();  // keys are there; nobody reads the values before
    load_tile<padded, kKeys>(values, v + t * v_stride, v_stride, shape.keys - t, value_size);
    end_loads();
    Sums<kKeys> scores;
    scores.template add_rows<padded>(queries, warp_row, keys);
    float shrink[2];
    const bool sees_all = t >= all_from && t + kKeys <= all_to;
    softmax.meet(scores, scale, static_cast<int>(t), sees_all, shrink);
#pragma unroll
    for (auto& tile : sums.x)
#pragma unroll
      for (int i = 0; i < 4; ++i) tile[i] *= shrink[i / 2];
    wait_loads<0>();
    __syncthreads();  // values are there; nobody reads the keys any more
    if (t + kKeys < last_key)
      load_tile<padded, kKeys>(keys, k + (t + kKeys) * k_stride, k_stride, shape.keys - t - kKeys,
                               size);
    end_loads();
    sums.template add_weighted<padded>(scores, values, 0);
  }

#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float sum = softmax.whole_sum(half);
    const std::int64_t s = first + warp_row + row_of(half);
    if (s >= end) continue;
    const std::int64_t row = shape.row(b, s, h);
    store_row<T>(a.o, row * value_size, sums, half, sum == 0 ? 0.0F : 1 / sum, 0, value_size,
                 a.has_wide_out, a.accumulate_o);
    if (threadIdx.x % 4 == 0)
      store<float>(a.lse, row, (softmax.largest[half] + log2f(sum)) * kLn2, true, a.accumulate_lse);
  }
}

template <typename T, int padded>
cudaError_t start(const AttentionArguments& a, cudaStream_t stream) {
  const std::int64_t blocks = (a.shape.queries + kOwn - 1) / kOwn * a.shape.heads * a.shape.batch;
  if (blocks == 0) return cudaSuccess;
  const cudaError_t status = cudaFuncSetAttribute(
      attention_tiles<T, padded>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes<padded>);
  if (status != cudaSuccess) return status;
  attention_tiles<T, padded>
      <<<static_cast<unsigned>(blocks), kThreads, kBytes<padded>, stream>>>(a);
  return cudaGetLastError();
}

template <typename T>
cudaError_t start_attention(const AttentionArguments& a, cudaStream_t stream) {
  const std::int64_t larger = a.shape.size > a.shape.value_size ? a.shape.size : a.shape.value_size;
  if (larger <= 64) return start<T, 64>(a, stream);
  if (larger <= 128) return start<T, 128>(a, stream);
  return start<T, 256>(a, stream);
}

}  // namespace

}  // namespace sextant
