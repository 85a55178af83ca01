// Gradient of attention in bf16 and f16 on tensor cores, always in the same order: one kernel whose
// blocks own 64 queries (dq) and one whose blocks own 64 keys (dk, dv) and go through the queries
// of the heads of their group. Scores are computed in both; a warp has them for 16 of its rows in
// registers and uses them from there. Tiles of the other side are loaded one ahead.
#pragma once

#include "backends/cuda/kernels/attention/attention_mma.cuh"

namespace sextant {
namespace {

using namespace attention_mma;

constexpr int kOthers = 32;  // rows of a tile of the other side

// Own rows twice (q and d_o, or k and v), tiles of the other side twice for two stages, and per
// query of a stage log-sum-exp and delta.
template <typename T, int padded>
struct Memory {
  static constexpr int kOwnTile = kOwn * kStride<padded>, kTile = kOthers * kStride<padded>;
  static constexpr int kBytes =
      (2 * kOwnTile + 4 * kTile) * 2 + 4 * kOthers * static_cast<int>(sizeof(float));
  T* own;

  __device__ explicit Memory(unsigned char* memory) : own(reinterpret_cast<T*>(memory)) {}
  __device__ T* own_tile(int operand) const { return own + operand * kOwnTile; }
  __device__ T* tile(int stage, int operand) const {
    return own + 2 * kOwnTile + (2 * stage + operand) * kTile;
  }
  __device__ float* row_values(int stage, int which) const {
    return reinterpret_cast<float*>(own + 2 * kOwnTile + 4 * kTile) + (2 * stage + which) * kOthers;
  }
};

template <int padded, int rows, typename T>
__device__ __forceinline__ void load_queries(const AttentionGradArguments& a, T* q, T* d_o,
                                             std::int64_t b, std::int64_t s, std::int64_t h) {
  const AttentionShape& shape = a.shape;
  const std::int64_t row = shape.row(b, s, h), valid = shape.queries - s;
  const int size = static_cast<int>(shape.size), value_size = static_cast<int>(shape.value_size);
  load_tile<padded, rows>(q, static_cast<const T*>(a.q) + row * size, shape.heads * size, valid,
                          size);
  load_tile<padded, rows>(d_o, static_cast<const T*>(a.d_o) + row * value_size,
                          shape.heads * value_size, valid, value_size);
}

template <int padded, int rows, typename T>
__device__ __forceinline__ void load_keys(const AttentionGradArguments& a, T* k, T* v,
                                          std::int64_t b, std::int64_t t, std::int64_t kv) {
  const AttentionShape& shape = a.shape;
  const std::int64_t row = shape.key_row(b, t, kv), valid = shape.keys - t;
  const int size = static_cast<int>(shape.size), value_size = static_cast<int>(shape.value_size);
  load_tile<padded, rows>(k, static_cast<const T*>(a.k) + row * size, shape.kv_heads * size, valid,
                          size);
  load_tile<padded, rows>(v, static_cast<const T*>(a.v) + row * value_size,
                          shape.kv_heads * value_size, valid, value_size);
}

template <typename T, int padded>
__global__ void __launch_bounds__(kThreads, kBlocks<padded>)
    grad_of_queries(AttentionGradArguments a) {
  extern __shared__ __align__(16) unsigned char bytes[];
  const Memory<T, padded> memory(bytes);
  const AttentionShape& shape = a.shape;
  const int warp_row = static_cast<int>(threadIdx.x / 32) * 16;
  const std::int64_t tiles = (shape.queries + kOwn - 1) / kOwn;
  const std::int64_t first = (tiles - 1 - blockIdx.x % tiles) * kOwn;
  const std::int64_t h = blockIdx.x / tiles % shape.heads, b = blockIdx.x / tiles / shape.heads;
  const std::int64_t kv = shape.kv_head_of(h);
  const std::int64_t end = first + kOwn < shape.queries ? first + kOwn : shape.queries;
  const std::int64_t first_key = shape.first_seen(first), last_key = shape.last_seen(end - 1);
  const std::int64_t all_from = shape.first_seen(end - 1), all_to = shape.last_seen(first);
  const float scale = static_cast<float>(shape.scale) * kLog2E;

  float lse[2], delta[2];
  int from[2], to[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const std::int64_t s = first + warp_row + row_of(half);
    const bool is_there = s < end;
    lse[half] = is_there ? static_cast<const float*>(a.lse)[shape.row(b, s, h)] * kLog2E : 0;
    delta[half] = is_there ? static_cast<const float*>(a.delta)[shape.row(b, s, h)] : 0;
    from[half] = is_there ? static_cast<int>(shape.first_seen(s)) : 0;
    to[half] = is_there ? static_cast<int>(shape.last_seen(s)) : 0;
  }
  Sums<padded> dq;
  if (first_key < last_key) {
    load_queries<padded, kOwn>(a, memory.own_tile(0), memory.own_tile(1), b, first, h);
    load_keys<padded, kOthers>(a, memory.tile(0, 0), memory.tile(0, 1), b, first_key, kv);
  }
  end_loads();
  int stage = 0;
  for (std::int64_t t = first_key; t < last_key; t += kOthers, stage ^= 1) {
    if (t + kOthers < last_key)
      load_keys<padded, kOthers>(a, memory.tile(stage ^ 1, 0), memory.tile(stage ^ 1, 1), b,
                                 t + kOthers, kv);
    end_loads();
    wait_loads<1>();
    __syncthreads();
    Sums<kOthers> scores, dp;
    scores.template add_rows<padded>(memory.own_tile(0), warp_row, memory.tile(stage, 0));
    dp.template add_rows<padded>(memory.own_tile(1), warp_row, memory.tile(stage, 1));
    const bool sees_all = t >= all_from && t + kOthers <= all_to;
#pragma unroll
    for (int n = 0; n < kOthers / 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int half = i / 2, key = static_cast<int>(t) + column_of(n) + i % 2;
        const bool sees = sees_all || (key >= from[half] && key < to[half]);
        const float p = sees ? power_of_two(scores.x[n][i] * scale - lse[half]) : 0.0F;
        scores.x[n][i] = sees ? p * (dp.x[n][i] - delta[half]) : 0.0F;
      }
    dq.template add_weighted<padded>(scores, memory.tile(stage, 0), 0);
    __syncthreads();  // the next loads go where this stage was read
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const std::int64_t s = first + warp_row + row_of(half);
    if (s < end)
      store_row<T>(a.dq, shape.row(b, s, h) * shape.size, dq, half, static_cast<float>(shape.scale),
                   0, static_cast<int>(shape.size), a.has_wide_out, a.accumulate_dq);
  }
}

// Tiles of queries of one block, head after head.
struct QueryTiles {
  std::int64_t first, last, h, s;

  __device__ QueryTiles(const AttentionShape& shape, std::int64_t t, std::int64_t count,
                        std::int64_t kv)
      : first(shape.first_seeing(t)),
        last(shape.last_seeing(t, count)),
        h(shape.first_head_of(kv)),
        s(first) {
    // No query: no head.
    if (first >= last) h = shape.last_head_of(kv);
  }
  __device__ void step() {
    s += kOthers;
    if (s < last) return;
    s = first;
    ++h;
  }
};

// Of `columns` columns of dk and dv: all, or those that registers hold.
template <typename T, int padded, int columns>
__global__ void __launch_bounds__(kThreads, kBlocks<padded>)
    grad_of_keys(AttentionGradArguments a) {
  extern __shared__ __align__(16) unsigned char bytes[];
  const Memory<T, padded> memory(bytes);
  const AttentionShape& shape = a.shape;
  const int warp_row = static_cast<int>(threadIdx.x / 32) * 16;
  constexpr int kParts = padded / columns;
  const int column = static_cast<int>(blockIdx.x % kParts) * columns;
  // The first keys are seen by most: they go first.
  const std::int64_t tiles = (shape.keys + kOwn - 1) / kOwn, block = blockIdx.x / kParts;
  const std::int64_t first = block % tiles * kOwn;
  const std::int64_t kv = block / tiles % shape.kv_heads, b = block / tiles / shape.kv_heads;
  const std::int64_t end = first + kOwn < shape.keys ? first + kOwn : shape.keys;
  const std::int64_t last_head = shape.last_head_of(kv);
  const float scale = static_cast<float>(shape.scale) * kLog2E;

  const auto load = [&](const QueryTiles& at, int stage) {
    load_queries<padded, kOthers>(a, memory.tile(stage, 0), memory.tile(stage, 1), b, at.s, at.h);
    if (threadIdx.x < 2 * kOthers) {
      const int i = static_cast<int>(threadIdx.x % kOthers), which = threadIdx.x / kOthers;
      const bool is_there = at.s + i < shape.queries;
      const float* from = static_cast<const float*>(which == 0 ? a.lse : a.delta);
      load_async(memory.row_values(stage, which) + i,
                 is_there ? from + shape.row(b, at.s + i, at.h) : from, is_there);
    }
  };
  Sums<columns> dk, dv;
  QueryTiles now(shape, first, end - first, kv), next = now;
  if (now.h < last_head) {
    load_keys<padded, kOwn>(a, memory.own_tile(0), memory.own_tile(1), b, first, kv);
    load(now, 0);
  }
  end_loads();
  for (int stage = 0; now.h < last_head; now = next, stage ^= 1) {
    next.step();
    if (next.h < last_head) load(next, stage ^ 1);
    end_loads();
    wait_loads<1>();
    __syncthreads();
    Sums<kOthers> p, ds;
    p.template add_rows<padded>(memory.own_tile(0), warp_row, memory.tile(stage, 0));
    ds.template add_rows<padded>(memory.own_tile(1), warp_row, memory.tile(stage, 1));
    const bool all_see = now.s + kOthers <= shape.queries &&
                         shape.first_seen(now.s + kOthers - 1) <= first &&
                         shape.last_seen(now.s) >= first + kOwn;
#pragma unroll
    for (int n = 0; n < kOthers / 8; ++n)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int query = column_of(n) + i;
        const std::int64_t s = now.s + query;
        const float lse = memory.row_values(stage, 0)[query] * kLog2E;
        const float delta = memory.row_values(stage, 1)[query];
        const std::int64_t from = all_see || s >= shape.queries ? 0 : shape.first_seen(s);
        const std::int64_t to = all_see ? shape.keys : s >= shape.queries ? 0 : shape.last_seen(s);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const std::int64_t key = first + warp_row + row_of(half);
          float& weight = p.x[n][2 * half + i];
          float& gradient = ds.x[n][2 * half + i];
          const bool sees = all_see || (key >= from && key < to);
          weight = sees ? power_of_two(weight * scale - lse) : 0.0F;
          gradient = sees ? weight * (gradient - delta) : 0.0F;
        }
      }
    dk.template add_weighted<padded>(ds, memory.tile(stage, 0), column);
    dv.template add_weighted<padded>(p, memory.tile(stage, 1), column);
    __syncthreads();  // the next loads go where this stage was read
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const std::int64_t t = first + warp_row + row_of(half);
    if (t >= end) continue;
    const std::int64_t row = shape.key_row(b, t, kv);
    store_row<T>(a.dk, row * shape.size, dk, half, static_cast<float>(shape.scale), column,
                 static_cast<int>(shape.size), a.has_wide_out, a.accumulate_dk);
    store_row<T>(a.dv, row * shape.value_size, dv, half, 1.0F, column,
                 static_cast<int>(shape.value_size), a.has_wide_out, a.accumulate_dv);
  }
}

template <typename T, int padded>
cudaError_t launch(void (*kernel)(AttentionGradArguments), const AttentionGradArguments& a,
                   std::int64_t blocks, cudaStream_t stream) {
  if (blocks == 0) return cudaSuccess;
  constexpr int kBytes = Memory<T, padded>::kBytes;
  const cudaError_t status =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  if (status != cudaSuccess) return status;
  kernel<<<static_cast<unsigned>(blocks), kThreads, kBytes, stream>>>(a);
  return cudaGetLastError();
}

template <typename T, int padded>
cudaError_t start(const AttentionGradArguments& a, cudaStream_t stream) {
  // Sums of dk and dv of 128 columns each are what registers hold.
  constexpr int kColumns = padded < 128 ? padded : 128;
  const AttentionShape& shape = a.shape;
  const cudaError_t status =
      launch<T, padded>(grad_of_queries<T, padded>, a,
                        (shape.queries + kOwn - 1) / kOwn * shape.heads * shape.batch, stream);
  if (status != cudaSuccess) return status;
  return launch<T, padded>(
      grad_of_keys<T, padded, kColumns>, a,
      (shape.keys + kOwn - 1) / kOwn * shape.kv_heads * shape.batch * (padded / kColumns), stream);
}

template <typename T>
cudaError_t start_attention_grad(const AttentionGradArguments& a, cudaStream_t stream) {
  const std::int64_t larger = a.shape.size > a.shape.value_size ? a.shape.size : a.shape.value_size;
  if (larger <= 64) return start<T, 64>(a, stream);
  if (larger <= 128) return start<T, 128>(a, stream);
  return start<T, 256>(a, stream);
}

}  // namespace

}  // namespace sextant
