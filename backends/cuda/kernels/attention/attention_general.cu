// Attention for any dtype and shape: a block has rows of queries of one head, goes through the keys
// that any of them sees, and keeps largest score, sum of exponentials and output per row.
#include "backends/cuda/kernels/attention/attention_rows.cuh"
#include "backends/cuda/kernels/shared/reduce.cuh"

namespace sextant {
namespace {

using namespace attention_rows;

__device__ float exponential(float x) { return expf(x); }
__device__ double exponential(double x) { return exp(x); }
__device__ float logarithm(float x) { return logf(x); }
__device__ double logarithm(double x) { return log(x); }

// One row of a warp while it meets tiles of keys.
template <typename W>
struct Row {
  W largest = -static_cast<W>(INFINITY);
  W sum = 0;
  std::int64_t first = 0, last = 0;  // keys it sees

  // Score of this lane's key to its probability so far; earlier sums shrink by `shrink`. A score
  // that is not a number makes the row none.
  __device__ W meet(W score, std::int64_t key, W& shrink) {
    shrink = 1;
    const bool sees = key >= first && key < last;
    if (!__any_sync(0xFFFFFFFFU, sees)) return 0;
    const W seen = sees ? score : -static_cast<W>(INFINITY);
    const W now = Fmax()(largest, over_warp(seen, Fmax()));
    shrink = exponential(largest - now);
    largest = now;
    const W p = exponential(seen - now);
    sum = sum * shrink + over_warp(p, Plus());
    return p;
  }
};

template <typename T>
__global__ void __launch_bounds__(kThreads) attention_of_rows(AttentionArguments a) {
  using W = Wide<T>;
  constexpr int rows = kRows<T>;
  extern __shared__ __align__(16) unsigned char memory[];
  const AttentionShape& shape = a.shape;
  const Chunks heads(shape.size), values(shape.value_size);
  W* const own = reinterpret_cast<W*>(memory);
  W* const other = own + heads.tile_elements(kOwn<T>);
  const int warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);

  const int chunk = static_cast<int>(blockIdx.x % values.count);
  // The last queries see most: they go first.
  const std::int64_t block = blockIdx.x / values.count;
  const std::int64_t tiles = (shape.queries + kOwn<T> - 1) / kOwn<T>;
  const std::int64_t first = (tiles - 1 - block % tiles) * kOwn<T>;
  const std::int64_t h = block / tiles % shape.heads, b = block / tiles / shape.heads;
  const std::int64_t kv = shape.kv_head_of(h);
  const std::int64_t end = first + kOwn<T> < shape.queries ? first + kOwn<T> : shape.queries;
  const auto load_own = [&](int part) {
    load_rows(own, static_cast<const T*>(a.q) + shape.row(b, first, h) * shape.size,
              shape.heads * shape.size, end - first, kOwn<T>, heads, part);
  };
  if (heads.count == 1) load_own(0);

  Row<W> row[rows];
  W sums[rows][kColumns] = {};
#pragma unroll
  for (int r = 0; r < rows; ++r) {
    const std::int64_t s = first + warp * rows + r;
    row[r].first = s < end ? shape.first_seen(s) : 0;
    row[r].last = s < end ? shape.last_seen(s) : 0;
  }
  const std::int64_t last_key = shape.last_seen(end - 1);
  for (std::int64_t t = shape.first_seen(first); t < last_key; t += kOthers) {
    W p[rows] = {};
    for (int part = 0; part < heads.count; ++part) {
      __syncthreads();
      if (heads.count > 1) load_own(part);
      load_rows(other, static_cast<const T*>(a.k) + shape.key_row(b, t, kv) * shape.size,
                shape.kv_heads * shape.size, shape.keys - t, kOthers, heads, part);
      __syncthreads();
      add_dots(own, other, heads, p);
    }
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      W shrink;
      p[r] = row[r].meet(p[r] * static_cast<W>(shape.scale), t + lane, shrink);
#pragma unroll
      for (int i = 0; i < kColumns; ++i) sums[r][i] *= shrink;
    }
    __syncthreads();
    load_rows(other, static_cast<const T*>(a.v) + shape.key_row(b, t, kv) * shape.value_size,
              shape.kv_heads * shape.value_size, shape.keys - t, kOthers, values, chunk);
    __syncthreads();
    add_products(p, other, values, sums);
  }

#pragma unroll
  for (int r = 0; r < rows; ++r) {
    const std::int64_t s = first + warp * rows + r;
    if (s >= end) continue;
    const std::int64_t at = shape.row(b, s, h);
    store_row<T>(a.o, at * shape.value_size, sums[r], row[r].sum == 0 ? W(0) : 1 / row[r].sum,
                 values, chunk, a.has_wide_out, a.accumulate_o);
    if (lane == 0 && chunk == 0)
      put<W>(a.lse, at, row[r].largest + logarithm(row[r].sum), a.accumulate_lse);
  }
}

}  // namespace

cudaError_t enqueue_attention(const AttentionArguments& a, cudaStream_t stream) {
  const AttentionShape& shape = a.shape;
  return with_floating_type(a.dtype, [&]<typename T>() {
    const Chunks heads(shape.size), values(shape.value_size);
    const std::int64_t blocks =
        (shape.queries + kOwn<T> - 1) / kOwn<T> * shape.heads * shape.batch * values.count;
    if (blocks == 0) return cudaSuccess;
    const Chunks& larger = heads.width > values.width ? heads : values;
    const std::size_t bytes =
        (heads.tile_elements(kOwn<T>) + larger.tile_elements(kOthers)) * sizeof(Wide<T>);
    const cudaError_t status = cudaFuncSetAttribute(
        attention_of_rows<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
    if (status != cudaSuccess) return status;
    attention_of_rows<T><<<static_cast<unsigned>(blocks), kThreads, bytes, stream>>>(a);
    return cudaGetLastError();
  });
}

}  // namespace sextant
