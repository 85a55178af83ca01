// Gradient of attention for any dtype and shape, always in the same order: delta per row, then one
// kernel whose blocks own queries (dq) and one whose blocks own keys (dk, dv) and go through the
// query heads of their group.
#include "backends/cuda/kernels/attention/attention_rows.cuh"
#include "backends/cuda/kernels/shared/reduce.cuh"

#include <algorithm>

namespace sextant {
namespace {

using namespace attention_rows;

__device__ float exponential(float x) { return expf(x); }
__device__ double exponential(double x) { return exp(x); }

// One warp per row.
template <typename T>
__global__ void __launch_bounds__(kThreads) delta_of_rows(AttentionGradArguments a) {
  using W = Wide<T>;
  const std::int64_t rows = a.shape.batch * a.shape.queries * a.shape.heads;
  const std::int64_t row = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  if (row >= rows) return;
  const std::int64_t size = a.shape.value_size;
  W sum = 0;
  for (std::int64_t d = threadIdx.x % 32; d < size; d += 32)
    sum += widen(static_cast<const T*>(a.o)[row * size + d]) *
           widen(static_cast<const T*>(a.d_o)[row * size + d]);
  sum = over_warp(sum, Plus());
  if (threadIdx.x % 32 == 0) static_cast<W*>(a.delta)[row] = sum;
}

// One operand on one side: rows of the first, with their stride.
template <typename T>
struct Rows {
  const T* from;
  std::int64_t stride, valid;

  __device__ void load(Wide<T>* tile, int rows, const Chunks& chunks, int chunk) const {
    load_rows(tile, from, stride, valid, rows, chunks, chunk);
  }
};

// Rows of q and d_o, or of k and v.
template <typename T>
struct Side {
  Rows<T> first, second;

  __device__ static Side of_queries(const AttentionGradArguments& a, std::int64_t b, std::int64_t s,
                                    std::int64_t h) {
    const AttentionShape& shape = a.shape;
    const std::int64_t row = shape.row(b, s, h), valid = shape.queries - s;
    return {{static_cast<const T*>(a.q) + row * shape.size, shape.heads * shape.size, valid},
            {static_cast<const T*>(a.d_o) + row * shape.value_size, shape.heads * shape.value_size,
             valid}};
  }
  __device__ static Side of_keys(const AttentionGradArguments& a, std::int64_t b, std::int64_t t,
                                 std::int64_t kv) {
    const AttentionShape& shape = a.shape;
    const std::int64_t row = shape.key_row(b, t, kv), valid = shape.keys - t;
    return {{static_cast<const T*>(a.k) + row * shape.size, shape.kv_heads * shape.size, valid},
            {static_cast<const T*>(a.v) + row * shape.value_size, shape.kv_heads * shape.value_size,
             valid}};
  }
};

// Probability and gradient of the score of one pair.
template <typename T>
struct Pair {
  Wide<T> p = 0, ds = 0;

  // `score` without scale; `dp` is d_o v.
  __device__ Pair(const AttentionGradArguments& a, std::int64_t b, std::int64_t s, std::int64_t h,
                  std::int64_t t, Wide<T> score, Wide<T> dp) {
    const AttentionShape& shape = a.shape;
    if (s >= shape.queries || t < shape.first_seen(s) || t >= shape.last_seen(s)) return;
    const std::int64_t row = shape.row(b, s, h);
    p = exponential(score * static_cast<Wide<T>>(shape.scale) -
                    static_cast<const Wide<T>*>(a.lse)[row]);
    ds = p * (dp - static_cast<const Wide<T>*>(a.delta)[row]);
  }
};

// Tiles of both operands of both sides.
template <typename T>
struct Tiles {
  Chunks heads, values;
  Wide<T>*own_first, *own_second, *other_first, *other_second;

  __device__ Tiles(unsigned char* memory, const AttentionShape& shape)
      : heads(shape.size), values(shape.value_size) {
    own_first = reinterpret_cast<Wide<T>*>(memory);
    own_second = own_first + heads.tile_elements(kOwn<T>);
    other_first = own_second + values.tile_elements(kOwn<T>);
    other_second = other_first + heads.tile_elements(kOthers);
  }
  static std::size_t bytes(const AttentionShape& shape) {
    const Chunks heads(shape.size), values(shape.value_size);
    return (heads.tile_elements(kOwn<T>) + values.tile_elements(kOwn<T>) +
            heads.tile_elements(kOthers) + values.tile_elements(kOthers)) *
           sizeof(Wide<T>);
  }

  // Own rows stay where one chunk is all.
  __device__ void begin(const Side<T>& own) const {
    if (heads.count == 1) own.first.load(own_first, kOwn<T>, heads, 0);
    if (values.count == 1) own.second.load(own_second, kOwn<T>, values, 0);
  }
  // Products of rows of both operands, over all chunks.
  template <int rows>
  __device__ void multiply(const Side<T>& own, const Side<T>& other, Wide<T> (&first)[rows],
                           Wide<T> (&second)[rows]) const {
    const int parts = heads.count > values.count ? heads.count : values.count;
#pragma unroll
    for (int r = 0; r < rows; ++r) first[r] = second[r] = 0;
    for (int part = 0; part < parts; ++part) {
      __syncthreads();
      if (part < heads.count) {
        if (heads.count > 1) own.first.load(own_first, kOwn<T>, heads, part);
        other.first.load(other_first, kOthers, heads, part);
      }
      if (part < values.count) {
        if (values.count > 1) own.second.load(own_second, kOwn<T>, values, part);
        other.second.load(other_second, kOthers, values, part);
      }
      __syncthreads();
      if (part < heads.count) add_dots(own_first, other_first, heads, first);
      if (part < values.count) add_dots(own_second, other_second, values, second);
    }
  }
  // The chunk of the other side that is weighted next, where multiply left another.
  __device__ void bring(const Side<T>& other, int chunk) const {
    if (heads.count == 1 && values.count == 1) return;
    __syncthreads();
    if (chunk < heads.count) other.first.load(other_first, kOthers, heads, chunk);
    if (chunk < values.count) other.second.load(other_second, kOthers, values, chunk);
    __syncthreads();
  }
};

template <typename T>
__global__ void __launch_bounds__(kThreads) grad_of_queries(AttentionGradArguments a) {
  using W = Wide<T>;
  constexpr int rows = kRows<T>;
  extern __shared__ __align__(16) unsigned char memory[];
  const AttentionShape& shape = a.shape;
  const Tiles<T> tiles(memory, shape);
  const int warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
  const int chunk = static_cast<int>(blockIdx.x % tiles.heads.count);
  const std::int64_t block = blockIdx.x / tiles.heads.count;
  const std::int64_t count = (shape.queries + kOwn<T> - 1) / kOwn<T>;
  const std::int64_t first = (count - 1 - block % count) * kOwn<T>;
  const std::int64_t h = block / count % shape.heads, b = block / count / shape.heads;
  const std::int64_t kv = shape.kv_head_of(h);
  const std::int64_t end = first + kOwn<T> < shape.queries ? first + kOwn<T> : shape.queries;
  const auto own = Side<T>::of_queries(a, b, first, h);
  tiles.begin(own);
  W sums[rows][kColumns] = {};
  const std::int64_t last_key = shape.last_seen(end - 1);
  for (std::int64_t t = shape.first_seen(first); t < last_key; t += kOthers) {
    const auto other = Side<T>::of_keys(a, b, t, kv);
    W ds[rows], dp[rows];
    tiles.multiply(own, other, ds, dp);
#pragma unroll
    for (int r = 0; r < rows; ++r)
      ds[r] = Pair<T>(a, b, first + warp * rows + r, h, t + lane, ds[r], dp[r]).ds;
    tiles.bring(other, chunk);
    add_products(ds, tiles.other_first, tiles.heads, sums);
  }
#pragma unroll
  for (int r = 0; r < rows; ++r) {
    const std::int64_t s = first + warp * rows + r;
    if (s < end)
      store_row<T>(a.dq, shape.row(b, s, h) * shape.size, sums[r], static_cast<W>(shape.scale),
                   tiles.heads, chunk, a.has_wide_out, a.accumulate_dq);
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads) grad_of_keys(AttentionGradArguments a) {
  using W = Wide<T>;
  constexpr int rows = kRows<T>;
  extern __shared__ __align__(16) unsigned char memory[];
  const AttentionShape& shape = a.shape;
  const Tiles<T> tiles(memory, shape);
  const int warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
  const int parts = tiles.heads.count > tiles.values.count ? tiles.heads.count : tiles.values.count;
  const int chunk = static_cast<int>(blockIdx.x % parts);
  // The first keys are seen by most: they go first.
  const std::int64_t block = blockIdx.x / parts;
  const std::int64_t count = (shape.keys + kOwn<T> - 1) / kOwn<T>;
  const std::int64_t first = block % count * kOwn<T>;
  const std::int64_t kv = block / count % shape.kv_heads, b = block / count / shape.kv_heads;
  const std::int64_t end = first + kOwn<T> < shape.keys ? first + kOwn<T> : shape.keys;
  const auto own = Side<T>::of_keys(a, b, first, kv);
  tiles.begin(own);
  W dk[rows][kColumns] = {}, dv[rows][kColumns] = {};
  const std::int64_t last_head = shape.last_head_of(kv);
  const std::int64_t last_query = shape.last_seeing(first, end - first);
  for (std::int64_t h = shape.first_head_of(kv); h < last_head; ++h) {
    for (std::int64_t s = shape.first_seeing(first); s < last_query; s += kOthers) {
      const auto other = Side<T>::of_queries(a, b, s, h);
      W p[rows], ds[rows];
      tiles.multiply(own, other, p, ds);
#pragma unroll
      for (int r = 0; r < rows; ++r) {
        const Pair<T> pair(a, b, s + lane, h, first + warp * rows + r, p[r], ds[r]);
        p[r] = pair.p;
        ds[r] = pair.ds;
      }
      tiles.bring(other, chunk);
      if (chunk < tiles.heads.count) add_products(ds, tiles.other_first, tiles.heads, dk);
      if (chunk < tiles.values.count) add_products(p, tiles.other_second, tiles.values, dv);
    }
  }
#pragma unroll
  for (int r = 0; r < rows; ++r) {
    const std::int64_t t = first + warp * rows + r;
    if (t >= end) continue;
    const std::int64_t row = shape.key_row(b, t, kv);
    if (chunk < tiles.heads.count)
      store_row<T>(a.dk, row * shape.size, dk[r], static_cast<W>(shape.scale), tiles.heads, chunk,
                   a.has_wide_out, a.accumulate_dk);
    if (chunk < tiles.values.count)
      store_row<T>(a.dv, row * shape.value_size, dv[r], W(1), tiles.values, chunk, a.has_wide_out,
                   a.accumulate_dv);
  }
}

template <typename T>
cudaError_t start(void (*kernel)(AttentionGradArguments), const AttentionGradArguments& a,
                  std::int64_t blocks, cudaStream_t stream) {
  if (blocks == 0) return cudaSuccess;
  const std::size_t bytes = Tiles<T>::bytes(a.shape);
  const cudaError_t status = cudaFuncSetAttribute(
      kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  if (status != cudaSuccess) return status;
  kernel<<<static_cast<unsigned>(blocks), kThreads, bytes, stream>>>(a);
  return cudaGetLastError();
}

}  // namespace

cudaError_t enqueue_attention_delta(const AttentionGradArguments& a, cudaStream_t stream) {
  const std::int64_t rows = a.shape.batch * a.shape.queries * a.shape.heads;
  if (rows == 0) return cudaSuccess;
  return with_floating_type(a.dtype, [&]<typename T>() {
    delta_of_rows<T>
        <<<static_cast<unsigned>((rows + kWarps - 1) / kWarps), kThreads, 0, stream>>>(a);
    return cudaGetLastError();
  });
}

cudaError_t enqueue_attention_grad(const AttentionGradArguments& a, cudaStream_t stream) {
  const cudaError_t status = enqueue_attention_delta(a, stream);
  if (status != cudaSuccess) return status;
  const AttentionShape& shape = a.shape;
  const Chunks heads(shape.size), values(shape.value_size);
  return with_floating_type(a.dtype, [&]<typename T>() {
    const std::int64_t query_blocks =
        (shape.queries + kOwn<T> - 1) / kOwn<T> * shape.heads * shape.batch * heads.count;
    const std::int64_t key_blocks = (shape.keys + kOwn<T> - 1) / kOwn<T> * shape.kv_heads *
                                    shape.batch * std::max(heads.count, values.count);
    const cudaError_t status = start<T>(grad_of_queries<T>, a, query_blocks, stream);
    return status != cudaSuccess ? status : start<T>(grad_of_keys<T>, a, key_blocks, stream);
  });
}

}  // namespace sextant
