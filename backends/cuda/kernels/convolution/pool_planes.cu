// Maxima over windows of planes, and their gradient: a block has a band of the rows of one plane in
// shared memory. The gradient notes for each window where the first of its largest elements lies,
// then every position adds the gradients of the windows that lie there: no atomics, the same order
// in every run. Of tensors that lie channels-last a thread has packs of eight channels, and a block
// of the gradient notes taps.
#include "backends/cuda/kernels/convolution/windows.h"
#include "backends/cuda/kernels/shared/elements.cuh"
#include "backends/cuda/kernels/shared/grid.h"

#include <algorithm>

namespace sextant {
namespace {

constexpr int kThreads = 256;
constexpr int kMostShared = 40 << 10;  // five blocks on a processor

// Windows along one dim; kernel 1, stride 1 where there is none.
struct Line {
  int kernel = 1, stride = 1, padding = 0, dilation = 1, x = 1, y = 1;
  // Offsets of the boxes: window w begins at `first` + w x stride.
  int first = 0;

  __host__ __device__ int begin(int window) const { return first + window * stride; }
  // Windows that read a position, a superset: lo to hi - 1.
  __host__ __device__ int lo(int position) const {
    const int span = dilation * (kernel - 1), past = position - first - span;
    return past <= 0 ? 0 : (past + stride - 1) / stride;
  }
  __host__ __device__ int hi(int position) const {
    const int past = position - first;
    if (past < 0) return 0;
    const int hi = past / stride + 1;
    return hi < y ? hi : y;
  }
};

struct Planes {
  const void* x = nullptr;
  const void* dy = nullptr;
  void* to = nullptr;
  std::int64_t planes = 0;
  Line rows, columns;
  int band = 0;                // rows of `to` of a block
  int most_x = 0, most_y = 0;  // rows of x and of windows that a band touches at most
  int bands = 0;
  // Channels-last: packs of eight channels, and how many of them a block has.
  std::int64_t samples = 0;
  int packs = 0, packs_of_block = 1;
};

// Bytes of so many elements, in whole packs.
__host__ __device__ inline int rounded(int elements, int size) {
  const int pack = 16 / size;
  return (elements + pack - 1) / pack * pack * size;
}

// Of numbers that are not negative; signed division is longer.
__device__ __forceinline__ int quotient(int a, int b) {
  return static_cast<int>(static_cast<unsigned>(a) / static_cast<unsigned>(b));
}

// Copies `count` elements, 16 bytes at a time where both ends allow it.
template <typename T>
__device__ __forceinline__ void copy(T* to, const T* from, int count) {
  constexpr int kSize = Pack<T>::kSize;
  const auto bits = reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from);
  const int packs = bits % 16 == 0 ? count / kSize : 0;
  for (int i = static_cast<int>(threadIdx.x); i < packs; i += kThreads)
    reinterpret_cast<uint4*>(to)[i] = reinterpret_cast<const uint4*>(from)[i];
  for (int i = packs * kSize + static_cast<int>(threadIdx.x); i < count; i += kThreads)
    to[i] = from[i];
}

// Calls use(tap, row, column) for the taps of a window inside the plane, in their order.
template <typename Use>
__device__ __forceinline__ void for_each_place(const Planes& p, int row, int column,
                                               const Use& use) {
  const int top = p.rows.begin(row), left = p.columns.begin(column);
  for (int i = 0; i < p.rows.kernel; ++i) {
    const int h = top + i * p.rows.dilation;
    if (h < 0 || h >= p.rows.x) continue;
    for (int j = 0; j < p.columns.kernel; ++j) {
      const int w = left + j * p.columns.dilation;
      if (w >= 0 && w < p.columns.x) use(i * p.columns.kernel + j, h, w);
    }
  }
}

// Calls use(position in `x`, value) for the taps of a window; `x` begins with row `first_row`.
template <typename T, typename Use>
__device__ __forceinline__ void for_each_tap(const Planes& p, const T* x, int first_row, int row,
                                             int column, const Use& use) {
  for_each_place(p, row, column, [&](int, int h, int w) {
    const int at = (h - first_row) * p.columns.x + w;
    use(at, widen(x[at]));
  });
}

// Rows of the plane that windows lo to hi - 1 read.
__device__ __forceinline__ int2 rows_read(const Planes& p, int lo, int hi) {
  const int first = max(p.rows.begin(lo), 0);
  const int end = p.rows.begin(hi - 1) + p.rows.dilation * (p.rows.kernel - 1) + 1;
  return {first, max(first, min(end, p.rows.x))};
}

extern __shared__ uint4 shared_words[];

template <typename T>
__global__ void __launch_bounds__(kThreads) max_of_planes(const __grid_constant__ Planes p) {
  T* x = reinterpret_cast<T*>(shared_words);
  T* y = x + rounded(p.most_x * p.columns.x, sizeof(T)) / sizeof(T);
  const std::int64_t plane = blockIdx.x / p.bands;
  const int lo = static_cast<int>(blockIdx.x % p.bands) * p.band, hi = min(lo + p.band, p.rows.y);
  const int2 rows = rows_read(p, lo, hi);
  const T* from = static_cast<const T*>(p.x) + plane * p.rows.x * p.columns.x;
  copy(x, from + rows.x * p.columns.x, (rows.y - rows.x) * p.columns.x);
  __syncthreads();
  const int count = (hi - lo) * p.columns.y;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) {
    const int row = quotient(i, p.columns.y), column = i - row * p.columns.y;
    Wide<T> largest = -static_cast<Wide<T>>(INFINITY);
    for_each_tap(p, x, rows.x, lo + row, column, [&](int, Wide<T> value) {
      if (value > largest || value != value) largest = value;
    });
    y[i] = narrow<T>(largest);
  }
  __syncthreads();
  copy(static_cast<T*>(p.to) + (plane * p.rows.y + lo) * p.columns.y, y, count);
}

template <typename T>
__global__ void __launch_bounds__(kThreads) max_grad_of_planes(const __grid_constant__ Planes p) {
  using W = Wide<T>;
  T* x = reinterpret_cast<T*>(shared_words);  // then dx
  T* dy = x + rounded(p.most_x * p.columns.x, sizeof(T)) / sizeof(T);
  auto* places =
      reinterpret_cast<int*>(dy + rounded(p.most_y * p.columns.y, sizeof(T)) / sizeof(T));
  // Of every column and row of the band, which windows may read it.
  auto* of_columns =
      reinterpret_cast<int2*>(places + rounded(p.most_y * p.columns.y, sizeof(int)) / sizeof(int));
  int2* of_rows = of_columns + p.columns.x;
  const std::int64_t plane = blockIdx.x / p.bands;
  const int begin = static_cast<int>(blockIdx.x % p.bands) * p.band;
  const int end = min(begin + p.band, p.rows.x);
  const int lo = p.rows.lo(begin), hi = p.rows.hi(end - 1);
  const int windows = max(hi - lo, 0) * p.columns.y;
  int first_row = begin;
  if (windows > 0) {
    const int2 rows = rows_read(p, lo, hi);
    first_row = min(rows.x, begin);
    const T* from = static_cast<const T*>(p.x) + plane * p.rows.x * p.columns.x;
    copy(x, from + first_row * p.columns.x, (rows.y - first_row) * p.columns.x);
    copy(dy, static_cast<const T*>(p.dy) + (plane * p.rows.y + lo) * p.columns.y, windows);
  }
  for (int i = static_cast<int>(threadIdx.x); i < p.columns.x; i += kThreads)
    of_columns[i] = {p.columns.lo(i), p.columns.hi(i)};
  for (int i = static_cast<int>(threadIdx.x); i < end - begin; i += kThreads)
    of_rows[i] = {p.rows.lo(begin + i) - lo, p.rows.hi(begin + i) - lo};
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < windows; i += kThreads) {
    const int row = quotient(i, p.columns.y), column = i - row * p.columns.y;
    int place = -1;
    W largest = 0;
    for_each_tap(p, x, first_row, lo + row, column, [&](int at, W value) {
      if (place < 0 || value > largest || (value != value && largest == largest)) {
        place = at;
        largest = value;
      }
    });
    places[i] = place;
  }
  __syncthreads();
  const int skipped = (begin - first_row) * p.columns.x;
  const int count = (end - begin) * p.columns.x;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) {
    const int row = quotient(i, p.columns.x), column = i - row * p.columns.x;
    const int2 by_row = of_rows[row], by_column = of_columns[column];
    W sum = 0;
    for (int r = by_row.x; r < by_row.y; ++r)
      for (int c = by_column.x; c < by_column.y; ++c) {
        const int window = r * p.columns.y + c;
        if (places[window] == skipped + i) sum += widen(dy[window]);
      }
    x[i] = narrow<T>(sum);
  }
  __syncthreads();
  copy(static_cast<T*>(p.to) + (plane * p.rows.x + begin) * p.columns.x, x, count);
}

constexpr int kChannels = 8;  // of a pack

template <typename T>
__global__ void __launch_bounds__(kThreads) max_of_channels(const __grid_constant__ Planes p) {
  const std::int64_t positions = std::int64_t{p.rows.y} * p.columns.y * p.packs;
  const std::int64_t stride = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
       i < p.samples * positions; i += stride) {
    const std::int64_t sample = i / positions;
    const auto at = static_cast<int>(i - sample * positions);
    const int position = quotient(at, p.packs), pack = at - position * p.packs;
    const int row = quotient(position, p.columns.y), column = position - row * p.columns.y;
    const auto* x =
        static_cast<const uint4*>(p.x) + sample * p.rows.x * p.columns.x * p.packs + pack;
    float largest[kChannels];
#pragma unroll
    for (float& value : largest) value = -INFINITY;
    for_each_place(p, row, column, [&](int, int h, int w) {
      float values[kChannels];
      unpack<T>(x[(std::int64_t{h} * p.columns.x + w) * p.packs], values);
#pragma unroll
      for (int j = 0; j < kChannels; ++j)
        if (values[j] > largest[j] || values[j] != values[j]) largest[j] = values[j];
    });
    static_cast<uint4*>(p.to)[i] = to_pack<T>(largest);
  }
}

// Of a window of eight channels, the tap of the first of its largest elements, a byte of each.
template <typename T>
__device__ __forceinline__ uint2 first_taps(const Planes& p, const uint4* x, int row, int column) {
  float largest[kChannels] = {};
  unsigned taps[kChannels];
#pragma unroll
  for (unsigned& tap : taps) tap = 255;
  for_each_place(p, row, column, [&](int tap, int h, int w) {
    float values[kChannels];
    unpack<T>(x[(std::int64_t{h} * p.columns.x + w) * p.packs], values);
#pragma unroll
    for (int j = 0; j < kChannels; ++j)
      if (taps[j] == 255 || values[j] > largest[j] ||
          (values[j] != values[j] && largest[j] == largest[j])) {
        taps[j] = static_cast<unsigned>(tap);
        largest[j] = values[j];
      }
  });
  uint2 bytes = {};
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    bytes.x |= taps[j] << (8 * j);
    bytes.y |= taps[4 + j] << (8 * j);
  }
  return bytes;
}

template <typename T>
__global__ void __launch_bounds__(kThreads) max_grad_of_channels(const __grid_constant__ Planes p) {
  auto* taps = reinterpret_cast<uint2*>(shared_words);  // [window][pack]
  const int groups = (p.packs + p.packs_of_block - 1) / p.packs_of_block;
  const int group = static_cast<int>(blockIdx.x % groups);
  const unsigned rest = blockIdx.x / groups;
  const std::int64_t sample = rest / p.bands;
  const int begin = static_cast<int>(rest % p.bands) * p.band;
  const int end = min(begin + p.band, p.rows.x);
  const int first = group * p.packs_of_block, packs = min(p.packs_of_block, p.packs - first);
  const int lo = p.rows.lo(begin), hi = p.rows.hi(end - 1);
  const int windows = max(hi - lo, 0) * p.columns.y;
  const auto* x =
      static_cast<const uint4*>(p.x) + sample * p.rows.x * p.columns.x * p.packs + first;
  const auto* dy =
      static_cast<const uint4*>(p.dy) + sample * p.rows.y * p.columns.y * p.packs + first;
  auto* dx = static_cast<uint4*>(p.to) + sample * p.rows.x * p.columns.x * p.packs + first;
  for (int i = static_cast<int>(threadIdx.x); i < windows * packs; i += kThreads) {
    const int window = quotient(i, packs), pack = i - window * packs;
    const int row = quotient(window, p.columns.y), column = window - row * p.columns.y;
    taps[i] = first_taps<T>(p, x + pack, lo + row, column);
  }
  __syncthreads();
  const int count = (end - begin) * p.columns.x * packs;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) {
    const int position = quotient(i, packs), pack = i - position * packs;
    const int row = quotient(position, p.columns.x), column = position - row * p.columns.x;
    const int r_end = p.rows.hi(begin + row), c_end = p.columns.hi(column);
    float sums[kChannels] = {};
    for (int r = p.rows.lo(begin + row); r < r_end; ++r)
      for (int c = p.columns.lo(column); c < c_end; ++c) {
        // Pools have no dilation, so every window between reads the position.
        const unsigned tap = static_cast<unsigned>(
            (begin + row - p.rows.begin(r)) * p.columns.kernel + column - p.columns.begin(c));
        const uint2 bytes = taps[((r - lo) * p.columns.y + c) * packs + pack];
        float values[kChannels];
        unpack<T>(dy[(std::int64_t{r} * p.columns.y + c) * p.packs + pack], values);
#pragma unroll
        for (int j = 0; j < kChannels; ++j)
          if (((j < 4 ? bytes.x : bytes.y) >> (8 * (j % 4)) & 255) == tap) sums[j] += values[j];
      }
    dx[(std::int64_t{begin + row} * p.columns.x + column) * p.packs + pack] = to_pack<T>(sums);
  }
}

// In int, so that positions are cheap.
bool set_line(const CudaWindowDim& dim, Line& line) {
  constexpr std::int64_t kMost = 1 << 20;
  const std::int64_t first = dim.y_offset * dim.stride - dim.padding - dim.x_offset;
  for (const std::int64_t extent : {dim.kernel, dim.stride, dim.padding, dim.dilation, dim.x_extent,
                                    dim.y_extent, first < 0 ? -first : first})
    if (extent > kMost) return false;
  line.kernel = static_cast<int>(dim.kernel);
  line.stride = static_cast<int>(dim.stride);
  line.dilation = static_cast<int>(dim.dilation);
  line.x = static_cast<int>(dim.x_extent);
  line.y = static_cast<int>(dim.y_extent);
  line.first = static_cast<int>(first);
  return true;
}

// Bytes of shared memory of a block, of the forward pass or the gradient.
int shared_bytes(const Planes& p, bool is_grad, int size) {
  const int x = rounded(p.most_x * p.columns.x, size), y = rounded(p.most_y * p.columns.y, size);
  if (!is_grad) return x + y;
  const int ranges = (p.columns.x + p.band) * static_cast<int>(sizeof(int2));
  return x + y + rounded(p.most_y * p.columns.y, sizeof(int)) + ranges;
}

// Rows that a band of so many rows touches.
void set_band(Planes& p, bool is_grad, int band) {
  const int span = p.rows.dilation * (p.rows.kernel - 1) + 1;
  p.band = band;
  p.most_y = is_grad ? std::min((band - 1 + span - 1) / p.rows.stride + 1, p.rows.y) : band;
  const int read = (p.most_y - 1) * p.rows.stride + span;
  p.most_x = std::min(is_grad ? std::max(read, band) + span : read, p.rows.x);
}

// The largest band that fits, in even shares; false where none does.
bool fit_band(Planes& p, bool is_grad, int size) {
  const int all = is_grad ? p.rows.x : p.rows.y;
  for (int shares = 1; shares <= all; ++shares) {
    set_band(p, is_grad, (all + shares - 1) / shares);
    if (shared_bytes(p, is_grad, size) > kMostShared) continue;
    p.bands = (all + p.band - 1) / p.band;
    return true;
  }
  return false;
}

// Bytes of the taps of a band's windows. Fewer packs of a block where not even one row fits.
bool fit_taps(Planes& p) {
  const auto bytes = [&] {
    return p.most_y * p.columns.y * p.packs_of_block * static_cast<int>(sizeof(uint2));
  };
  for (p.packs_of_block = std::min(p.packs, 8); p.packs_of_block > 0; p.packs_of_block /= 2)
    for (int shares = 1; shares <= p.rows.x; ++shares) {
      set_band(p, true, (p.rows.x + shares - 1) / shares);
      if (bytes() > kMostShared) continue;
      p.bands = (p.rows.x + p.band - 1) / p.band;
      return true;
    }
  return false;
}

template <typename T>
cudaError_t start_planes(const Planes& p, bool is_grad, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(p.planes * p.bands);
  const int bytes = shared_bytes(p, is_grad, static_cast<int>(sizeof(T)));
  if (is_grad)
    max_grad_of_planes<T><<<blocks, kThreads, bytes, stream>>>(p);
  else
    max_of_planes<T><<<blocks, kThreads, bytes, stream>>>(p);
  return cudaGetLastError();
}

template <typename T>
cudaError_t start_channels(const Planes& p, bool is_grad, cudaStream_t stream) {
  const std::int64_t groups = (p.packs + p.packs_of_block - 1) / p.packs_of_block;
  const int bytes = p.most_y * p.columns.y * p.packs_of_block * static_cast<int>(sizeof(uint2));
  if (is_grad)
    max_grad_of_channels<T>
        <<<static_cast<unsigned>(p.samples * p.bands * groups), kThreads, bytes, stream>>>(p);
  else
    max_of_channels<T><<<blocks_for(p.samples * p.rows.y * p.columns.y * p.packs, kThreads),
                         kThreads, 0, stream>>>(p);
  return cudaGetLastError();
}

bool plan_channels(const CudaPool& pool, bool is_grad, Planes& p) {
  const std::int64_t channels = pool.samples == 0 ? 0 : pool.planes / pool.samples;
  constexpr std::int64_t kMostTaps = 255, kMostItems = std::int64_t{1} << 30;
  if (channels % kChannels != 0 || pool.windows.taps >= kMostTaps ||
      (pool.type != DType::kBF16 && pool.type != DType::kF16) ||
      channels * std::max(pool.windows.x_positions, pool.windows.y_positions) > kMostItems)
    return false;
  p.samples = pool.samples;
  p.packs = static_cast<int>(channels / kChannels);
  if (is_grad && !fit_taps(p)) return false;
  return !is_grad || p.samples * p.bands * p.packs <= kGridLimit;
}

bool plan(const CudaPool& pool, Planes& p) {
  const CudaWindows& windows = pool.windows;
  const bool is_grad = pool.dy != nullptr;
  if (windows.rank < 1 || windows.rank > 2 || pool.accumulate || pool.to_type != pool.type)
    return false;
  if (windows.x_positions == 0 || windows.y_positions == 0) return false;
  if (!set_line(windows.dims[windows.rank - 1], p.columns)) return false;
  if (windows.rank == 2 && !set_line(windows.dims[0], p.rows)) return false;
  p.x = pool.x;
  p.dy = pool.dy;
  p.to = pool.to;
  p.planes = pool.planes;
  if (pool.channels_last) return plan_channels(pool, is_grad, p);
  return fit_band(p, is_grad, static_cast<int>(size_of(pool.type).value)) &&
         p.planes * p.bands <= kGridLimit;
}

}  // namespace

bool is_max_of_planes(const CudaPool& pool) {
  Planes p;
  return plan(pool, p);
}

cudaError_t enqueue_max_of_planes(const CudaPool& pool, cudaStream_t stream) {
  Planes p;
  const bool is_grad = pool.dy != nullptr;
  if (!plan(pool, p)) return cudaErrorInvalidValue;
  if (p.planes == 0) return cudaSuccess;
  if (pool.channels_last)
    return pool.type == DType::kBF16 ? start_channels<__nv_bfloat16>(p, is_grad, stream)
                                     : start_channels<__half>(p, is_grad, stream);
  return with_floating_type(pool.type,
                            [&]<typename T>() { return start_planes<T>(p, is_grad, stream); });
}

}  // namespace sextant
