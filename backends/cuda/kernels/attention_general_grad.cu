// Gradient of attention for any dtype and shape, always in the same order: delta per row, then one
// kernel whose blocks own queries (dq) and one whose blocks own keys (dk, dv) and go through the
// query heads of their group.
#include "backends/cuda/kernels/attention_rows.cuh"

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
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xFFFFFFFFU, sum, offset);
  if (threadIdx.x % 32 == 0) static_cast<W*>(a.delta)[row] = sum;
}

// Rows of q and d_o, or of k and v, of one tile.
template <typename T>
struct Tiles {
  Wide<T>*first, *second;

  __device__ void load_queries(const AttentionGradArguments& a, std::int64_t b, std::int64_t s,
                               std::int64_t h, int rows) const {
    const AttentionShape& shape = a.shape;
    const std::int64_t row = shape.row(b, s, h), valid = shape.queries - s;
    load_rows(first, static_cast<const T*>(a.q) + row * shape.size, shape.heads * shape.size, valid,
              rows, static_cast<int>(shape.size));
    load_rows(second, static_cast<const T*>(a.d_o) + row * shape.value_size,
              shape.heads * shape.value_size, valid, rows, static_cast<int>(shape.value_size));
  }
  __device__ void load_keys(const AttentionGradArguments& a, std::int64_t b, std::int64_t t,
                            std::int64_t kv, int rows) const {
    const AttentionShape& shape = a.shape;
    const std::int64_t row = shape.key_row(b, t, kv), valid = shape.keys - t;
    load_rows(first, static_cast<const T*>(a.k) + row * shape.size, shape.kv_heads * shape.size,
              valid, rows, static_cast<int>(shape.size));
    load_rows(second, static_cast<const T*>(a.v) + row * shape.value_size,
              shape.kv_heads * shape.value_size, valid, rows, static_cast<int>(shape.value_size));
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

template <typename T>
struct Memory {
  Tiles<T> own, other;

  __device__ Memory(unsigned char* memory, const AttentionShape& shape) {
    own.first = reinterpret_cast<Wide<T>*>(memory);
    own.second = own.first + tile_elements(kOwn<T>, shape.size);
    other.first = own.second + tile_elements(kOwn<T>, shape.value_size);
    other.second = other.first + tile_elements(kOthers, shape.size);
  }
  static std::size_t bytes(const AttentionShape& shape) {
    return (tile_elements(kOwn<T>, shape.size) + tile_elements(kOwn<T>, shape.value_size) +
            tile_elements(kOthers, shape.size) + tile_elements(kOthers, shape.value_size)) *
           sizeof(Wide<T>);
  }
};

template <typename T>
__global__ void __launch_bounds__(kThreads) grad_of_queries(AttentionGradArguments a) {
  using W = Wide<T>;
  constexpr int rows = kRows<T>;
  extern __shared__ __align__(16) unsigned char memory[];
  const AttentionShape& shape = a.shape;
  const Memory<T> tiles(memory, shape);
  const int size = static_cast<int>(shape.size), value_size = static_cast<int>(shape.value_size);
  const int warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
  const std::int64_t count = (shape.queries + kOwn<T> - 1) / kOwn<T>;
  const std::int64_t first = (count - 1 - blockIdx.x % count) * kOwn<T>;
  const std::int64_t h = blockIdx.x / count % shape.heads, b = blockIdx.x / count / shape.heads;
  const std::int64_t kv = shape.kv_head_of(h);
  const std::int64_t end = first + kOwn<T> < shape.queries ? first + kOwn<T> : shape.queries;
  tiles.own.load_queries(a, b, first, h, kOwn<T>);
  W sums[rows][kColumns] = {};
  const std::int64_t last_key = shape.last_seen(end - 1);
  for (std::int64_t t = shape.first_seen(first); t < last_key; t += kOthers) {
    __syncthreads();
    tiles.other.load_keys(a, b, t, kv, kOthers);
    __syncthreads();
    W ds[rows], dp[rows];
    dot_rows(tiles.own.first + warp * rows * stride_of(size), tiles.other.first, size, ds);
    dot_rows(tiles.own.second + warp * rows * stride_of(value_size), tiles.other.second, value_size,
             dp);
#pragma unroll
    for (int r = 0; r < rows; ++r)
      ds[r] = Pair<T>(a, b, first + warp * rows + r, h, t + lane, ds[r], dp[r]).ds;
    add_products(ds, tiles.other.first, size, sums);
  }
#pragma unroll
  for (int r = 0; r < rows; ++r) {
    const std::int64_t s = first + warp * rows + r;
    if (s < end)
      store_row<T>(a.dq, shape.row(b, s, h) * size, sums[r], static_cast<W>(shape.scale), size,
                   a.has_wide_out, a.accumulate_dq);
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads) grad_of_keys(AttentionGradArguments a) {
  using W = Wide<T>;
  constexpr int rows = kRows<T>;
  extern __shared__ __align__(16) unsigned char memory[];
  const AttentionShape& shape = a.shape;
  const Memory<T> tiles(memory, shape);
  const int size = static_cast<int>(shape.size), value_size = static_cast<int>(shape.value_size);
  const int warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
  // The first keys are seen by most: they go first.
  const std::int64_t count = (shape.keys + kOwn<T> - 1) / kOwn<T>;
  const std::int64_t first = blockIdx.x % count * kOwn<T>;
  const std::int64_t kv = blockIdx.x / count % shape.kv_heads,
                     b = blockIdx.x / count / shape.kv_heads;
  const std::int64_t end = first + kOwn<T> < shape.keys ? first + kOwn<T> : shape.keys;
  tiles.own.load_keys(a, b, first, kv, kOwn<T>);
  W dk[rows][kColumns] = {}, dv[rows][kColumns] = {};
  const std::int64_t last_head = shape.last_head_of(kv);
  const std::int64_t last_query = shape.last_seeing(first, end - first);
  for (std::int64_t h = shape.first_head_of(kv); h < last_head; ++h) {
    for (std::int64_t s = shape.first_seeing(first); s < last_query; s += kOthers) {
      __syncthreads();
      tiles.other.load_queries(a, b, s, h, kOthers);
      __syncthreads();
      W p[rows], ds[rows];
      dot_rows(tiles.own.first + warp * rows * stride_of(size), tiles.other.first, size, p);
      dot_rows(tiles.own.second + warp * rows * stride_of(value_size), tiles.other.second,
               value_size, ds);
#pragma unroll
      for (int r = 0; r < rows; ++r) {
        const Pair<T> pair(a, b, s + lane, h, first + warp * rows + r, p[r], ds[r]);
        p[r] = pair.p;
        ds[r] = pair.ds;
      }
      add_products(ds, tiles.other.first, size, dk);
      add_products(p, tiles.other.second, value_size, dv);
    }
  }
#pragma unroll
  for (int r = 0; r < rows; ++r) {
    const std::int64_t t = first + warp * rows + r;
    if (t >= end) continue;
    const std::int64_t row = shape.key_row(b, t, kv);
    store_row<T>(a.dk, row * size, dk[r], static_cast<W>(shape.scale), size, a.has_wide_out,
                 a.accumulate_dk);
    store_row<T>(a.dv, row * value_size, dv[r], W(1), value_size, a.has_wide_out, a.accumulate_dv);
  }
}

template <typename T>
cudaError_t start(void (*kernel)(AttentionGradArguments), const AttentionGradArguments& a,
                  std::int64_t blocks, cudaStream_t stream) {
  if (blocks == 0) return cudaSuccess;
  const std::size_t bytes = Memory<T>::bytes(a.shape);
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
  return with_floating_type(a.dtype, [&]<typename T>() {
    const std::int64_t query_blocks =
        (shape.queries + kOwn<T> - 1) / kOwn<T> * shape.heads * shape.batch;
    const std::int64_t key_blocks =
        (shape.keys + kOwn<T> - 1) / kOwn<T> * shape.kv_heads * shape.batch;
    const cudaError_t status = start<T>(grad_of_queries<T>, a, query_blocks, stream);
    return status != cudaSuccess ? status : start<T>(grad_of_keys<T>, a, key_blocks, stream);
  });
}

}  // namespace sextant
