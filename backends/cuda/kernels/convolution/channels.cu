// Norms with a statistic per channel. A thread has a pack of 16 bytes of columns and goes down the
// rows of its chunk, several of them in flight; so what belongs to its columns is read once. Sums
// are per column, then per channel of the tile, then (a second, small launch) over tiles and
// chunks, always in the same order.
//
// Mean and squares are one pass: a column's squares are about its own first element, and what is
// put together afterwards are means and squares about means, so that nothing cancels.
#include "backends/cuda/kernels/convolution/channels.h"
#include "backends/cuda/kernels/shared/grid.h"
#include "backends/cuda/kernels/shared/put.cuh"
#include "backends/cuda/kernels/shared/reduce.cuh"

#include <algorithm>

namespace sextant {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;

// What a thread has of a tensor: its columns, and the rows of its group in the chunk.
template <typename T>
struct Own {
  static constexpr int kSize = Pack<T>::kSize;
  std::int64_t column, first_row, end_row, step_rows;
  bool has_columns;

  __device__ explicit Own(const ChannelMap& map) {
    const auto lanes = static_cast<int>(map.lanes);
    const int lane = static_cast<int>(threadIdx.x) & (lanes - 1);
    const std::int64_t begin = std::int64_t{blockIdx.y} * map.chunk_rows;
    column = (std::int64_t{blockIdx.x} * lanes + lane) * kSize;
    step_rows = kThreads / lanes;
    first_row = begin + threadIdx.x / lanes;
    end_row = min(begin + map.chunk_rows, map.rows);
    has_columns = column < map.columns;
  }

  // Calls use(column of the pack, channel) for all columns.
  template <typename Use>
  __device__ __forceinline__ void for_each_channel(const ChannelMap& map, const Use& use) const {
    const auto run = static_cast<std::uint32_t>(map.run);
#pragma unroll
    for (int j = 0; j < kSize; ++j) use(j, static_cast<std::uint32_t>(column + j) / run);
  }

  // Calls use(row, packs) for all rows; kOperands packs of each are loaded kAhead rows at a time.
  // An operand that is null is not read.
  template <int kAhead, int kOperands, typename Use>
  __device__ __forceinline__ void for_each_row(const ChannelMap& map,
                                               const void* const (&operands)[kOperands],
                                               const Use& use) const {
    if (!has_columns) return;
#pragma unroll 1
    for (std::int64_t row = first_row; row < end_row; row += kAhead * step_rows) {
      uint4 loaded[kAhead][kOperands];
#pragma unroll
      for (int r = 0; r < kAhead; ++r)
        if (row + r * step_rows < end_row) {
          const std::int64_t at = (row + r * step_rows) * map.columns + column;
#pragma unroll
          for (int k = 0; k < kOperands; ++k)
            if (operands[k] != nullptr)
              loaded[r][k] =
                  *reinterpret_cast<const uint4*>(static_cast<const T*>(operands[k]) + at);
        }
#pragma unroll
      for (int r = 0; r < kAhead; ++r)
        if (row + r * step_rows < end_row)
          use((row + r * step_rows) * map.columns + column, loaded[r]);
    }
  }
};

template <typename T>
__device__ __forceinline__ void store(void* to, std::int64_t at, uint4 pack) {
  *reinterpret_cast<uint4*>(static_cast<T*>(to) + at) = pack;
}

// dy where the pack of activated elements is above 0.
template <typename T>
__device__ __forceinline__ void mask(float (&dy)[Pack<T>::kSize], uint4 activated) {
  float values[Pack<T>::kSize];
  unpack<T>(activated, values);
#pragma unroll
  for (int j = 0; j < Pack<T>::kSize; ++j) dy[j] = values[j] > 0 ? dy[j] : 0.0f;
}

// Two numbers of a part of a channel, and how many elements it has.
struct Part {
  float first = 0, second = 0, count = 0;
};

// Over the `count` parts part(0), part(1) ... by one thread, a warp or a block, in every
// thread of it. All call.
template <int kGroup, bool kIsMoments, typename PartOf>
__device__ __forceinline__ Part sum_of_parts(int count, const PartOf& part) {
  const int thread = static_cast<int>(threadIdx.x) % kGroup;
  Part sum;
#pragma unroll 4
  for (int i = thread; i < count; i += kGroup) {
    const Part of = part(i);
    sum.first += kIsMoments ? of.first * of.count : of.first;
    sum.second += of.second;
    sum.count += of.count;
  }
  const auto over_all = [](float value) {
    if constexpr (kGroup > 1) return over_group<kGroup>(value, Plus());
    return value;
  };
  sum.first = over_all(sum.first);
  sum.count = over_all(sum.count);
  if constexpr (kIsMoments) {
    sum.first /= sum.count;
#pragma unroll 4
    for (int i = thread; i < count; i += kGroup) {
      const Part of = part(i);
      const float distance = of.first - sum.first;
      if (of.count > 0) sum.second += of.count * (distance * distance);
    }
  }
  sum.second = over_all(sum.second);
  return sum;
}

__device__ __forceinline__ std::int64_t rows_of(const ChannelMap& map, std::int64_t chunk) {
  return min(map.chunk_rows, map.rows - chunk * map.chunk_rows);
}

// Numbers of all threads' columns to those of the tile's channels, to `partial`:
// [chunk][tile][slot].
template <bool kIsMoments, int kSize>
__device__ __forceinline__ void store_partial(const ChannelMap& map, const float (&first)[kSize],
                                              const float (&second)[kSize], float2* partial) {
  // [group][column]; a row one longer than the tile, so that groups lie in banks of their own.
  __shared__ float firsts[kThreads * (kSize + 1)], seconds[kThreads * (kSize + 1)];
  const auto lanes = static_cast<int>(map.lanes);
  const int width = lanes * kSize;
  const int thread = static_cast<int>(threadIdx.x);
  const int own = thread / lanes * (width + 1) + thread % lanes * kSize;
#pragma unroll
  for (int j = 0; j < kSize; ++j) {
    firsts[own + j] = first[j];
    seconds[own + j] = second[j];
  }
  __syncthreads();
  const int groups = kThreads / lanes;
  const std::int64_t begin = std::int64_t{blockIdx.x} * width;
  const std::int64_t end = min(begin + width, map.columns);
  const std::int64_t first_channel = begin / map.run;
  const auto rows = static_cast<int>(rows_of(map, blockIdx.y));
  const auto part = [&](int group, int column) {
    const int at = group * (width + 1) + column;
    const int count = (rows - group + groups - 1) / groups;
    return Part{firsts[at], seconds[at], static_cast<float>(count > 0 ? count : 0)};
  };
  float2* to = partial + (blockIdx.y * map.tiles + blockIdx.x) * map.slots;
  if (map.run == 1) {  // a channel has few numbers here: a thread adds them
    for (int column = thread; begin + column < end; column += kThreads) {
      const Part sum = sum_of_parts<1, kIsMoments>(groups, [&](int i) { return part(i, column); });
      to[column] = {sum.first, sum.second};
    }
    return;
  }
  for (std::int64_t slot = threadIdx.x / kWarp;; slot += kWarps) {
    const std::int64_t channel = first_channel + slot;
    if (channel * map.run >= end) break;
    const auto from = static_cast<int>(max(channel * map.run, begin) - begin);
    const auto columns = static_cast<int>(min((channel + 1) * map.run, end) - begin) - from;
    const Part sum = sum_of_parts<kWarp, kIsMoments>(columns * groups, [&](int i) {
      const int group = i / columns;
      return part(group, from + i - group * columns);
    });
    if (threadIdx.x % kWarp == 0) to[slot] = {sum.first, sum.second};
  }
}

// The partial numbers of a channel, put together by a block.
template <bool kIsMoments>
__device__ __forceinline__ Part whole_of(const ChannelMap& map, std::int64_t pack,
                                         std::int64_t channel, const float2* partial) {
  const std::int64_t width = map.lanes * pack;
  const std::int64_t begin = channel * map.run, end = begin + map.run;
  const std::int64_t first_tile = begin / width, tiles = (end - 1) / width - first_tile + 1;
  const auto count = static_cast<int>(map.chunks * tiles);
  return sum_of_parts<kThreads, kIsMoments>(count, [&](int i) {
    const int chunk = i / static_cast<int>(tiles);
    const std::int64_t tile = first_tile + i - chunk * tiles;
    const std::int64_t columns = min(end, (tile + 1) * width) - max(begin, tile * width);
    const std::int64_t slot = channel - tile * width / map.run;
    const float2 part = partial[(chunk * map.tiles + tile) * map.slots + slot];
    return Part{part.x, part.y, static_cast<float>(rows_of(map, chunk) * columns)};
  });
}

template <typename T>
__global__ void __launch_bounds__(kThreads, 4)
    sum_moments(const __grid_constant__ ChannelStatistics a) {
  const Own<T> own(a.map);
  constexpr int kSize = Own<T>::kSize;
  float pivots[kSize] = {}, sums[kSize] = {}, squares[kSize] = {};
  if (own.has_columns && own.first_row < own.end_row)
    unpack<T>(*reinterpret_cast<const uint4*>(static_cast<const T*>(a.x) +
                                              own.first_row * a.map.columns + own.column),
              pivots);
  own.template for_each_row<4, 1>(a.map, {a.x}, [&](std::int64_t, const uint4(&packs)[1]) {
    float values[kSize];
    unpack<T>(packs[0], values);
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      const float distance = values[j] - pivots[j];
      sums[j] += distance;
      squares[j] += distance * distance;
    }
  });
  const auto rows = own.end_row > own.first_row
                        ? (own.end_row - own.first_row + own.step_rows - 1) / own.step_rows
                        : std::int64_t{1};
  const float share = 1.0f / static_cast<float>(rows);
#pragma unroll
  for (int j = 0; j < kSize; ++j) {
    const float distance = sums[j] * share;
    squares[j] = fmaxf(squares[j] - sums[j] * distance, 0.0f);
    sums[j] = pivots[j] + distance;
  }
  store_partial<true>(a.map, sums, squares, static_cast<float2*>(a.partial));
}

__device__ __forceinline__ void put_one(float* to, std::int64_t at, float value) {
  if (to != nullptr) to[at] = value;
}

// Of so many elements, from those about their mean.
__device__ __forceinline__ float squares_about(float squares, float mean, float about,
                                               float elements) {
  const float distance = mean - about;
  return squares + elements * distance * distance;
}

__global__ void __launch_bounds__(kThreads) move_squares(const ChannelSquares a) {
  const std::int64_t channel = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (channel < a.channels)
    a.squares[channel] = squares_about(a.own_squares[channel], a.own_mean[channel],
                                       a.about[channel], static_cast<float>(a.elements));
}

__global__ void __launch_bounds__(kThreads)
    finish_moments(const __grid_constant__ ChannelStatistics a, std::int64_t pack) {
  const std::int64_t channel = blockIdx.x;
  const Part sum = whole_of<true>(a.map, pack, channel, static_cast<const float2*>(a.partial));
  if (threadIdx.x != 0) return;
  put_one(a.own_mean, channel, sum.first);
  put_one(a.own_squares, channel, sum.second);
  float squares = sum.second;
  if (a.about != nullptr)
    squares = squares_about(sum.second, sum.first, a.about[channel],
                            static_cast<float>(a.map.rows * a.map.run));
  const float variance = squares * static_cast<float>(a.scale);
  const float shifted = variance + static_cast<float>(a.epsilon);
  put_one(a.mean, channel, sum.first * static_cast<float>(a.share));
  put_one(a.squares, channel, squares);
  put_one(a.variance, channel, variance);
  put_one(a.shifted, channel, shifted);
  put_one(a.rstd, channel, 1.0f / sqrtf(shifted));
}

template <typename T>
__global__ void __launch_bounds__(kThreads) normalize(const __grid_constant__ ChannelNorm a) {
  const Own<T> own(a.map);
  if (!own.has_columns) return;
  constexpr int kSize = Own<T>::kSize;
  float means[kSize], factors[kSize], terms[kSize];
  own.for_each_channel(a.map, [&](int j, std::uint32_t channel) {
    means[j] = a.mean[channel];
    factors[j] = a.rstd[channel] * widen(static_cast<const T*>(a.gamma)[channel]);
    terms[j] = widen(static_cast<const T*>(a.beta)[channel]);
  });
  own.template for_each_row<4, 2>(a.map, {a.x, a.other},
                                  [&](std::int64_t at, const uint4(&packs)[2]) {
                                    float values[kSize];
                                    unpack<T>(packs[0], values);
#pragma unroll
                                    for (int j = 0; j < kSize; ++j)
                                      values[j] = (values[j] - means[j]) * factors[j] + terms[j];
                                    if (a.other != nullptr) {
                                      float others[kSize];
                                      unpack<T>(packs[1], others);
#pragma unroll
                                      for (int j = 0; j < kSize; ++j) values[j] += others[j];
                                    }
                                    if (a.has_relu) {
#pragma unroll
                                      for (float& value : values)
                                        value = value > 0 || value != value ? value : 0.0f;
                                    }
                                    store<T>(a.y, at, to_pack<T>(values));
                                  });
}

template <typename T>
__global__ void __launch_bounds__(kThreads, 3)
    sum_gradients(const __grid_constant__ ChannelGradSums a) {
  const Own<T> own(a.map);
  constexpr int kSize = Own<T>::kSize;
  float means[kSize] = {}, products[kSize] = {}, sums[kSize] = {};
  if (own.has_columns)
    own.for_each_channel(a.map, [&](int j, std::uint32_t channel) { means[j] = a.mean[channel]; });
  own.template for_each_row<2, 3>(a.map, {a.x, a.dy, a.activated},
                                  [&](std::int64_t at, const uint4(&packs)[3]) {
                                    float x[kSize], g[kSize];
                                    unpack<T>(packs[0], x);
                                    unpack<T>(packs[1], g);
                                    if (a.activated != nullptr) mask<T>(g, packs[2]);
                                    if (a.g != nullptr) store<T>(a.g, at, to_pack<T>(g));
#pragma unroll
                                    for (int j = 0; j < kSize; ++j) {
                                      products[j] += g[j] * (x[j] - means[j]);
                                      sums[j] += g[j];
                                    }
                                  });
  store_partial<false>(a.map, products, sums, static_cast<float2*>(a.partial));
}

__global__ void __launch_bounds__(kThreads)
    finish_gradients(const __grid_constant__ ChannelGradSums a, std::int64_t pack) {
  const std::int64_t channel = blockIdx.x;
  const Part sum = whole_of<false>(a.map, pack, channel, static_cast<const float2*>(a.partial));
  if (threadIdx.x != 0) return;
  if (a.dgamma != nullptr) put(a.dgamma + channel, a.adds_dgamma, sum.first * a.rstd[channel]);
  if (a.dbeta != nullptr) put(a.dbeta + channel, a.adds_dbeta, sum.second);
}

template <typename T>
__global__ void __launch_bounds__(kThreads, 3)
    grad_input(const __grid_constant__ ChannelGradInput a) {
  const Own<T> own(a.map);
  if (!own.has_columns) return;
  constexpr int kSize = Own<T>::kSize;
  const auto share = static_cast<float>(1.0 / a.count);
  float means[kSize], factors[kSize], averages[kSize], slopes[kSize];
  own.for_each_channel(a.map, [&](int j, std::uint32_t channel) {
    const float rstd = a.rstd[channel];
    means[j] = a.mean[channel];
    factors[j] = rstd * widen(static_cast<const T*>(a.gamma)[channel]);
    averages[j] = a.dbeta[channel] * share;
    slopes[j] = rstd * (a.dgamma[channel] * share);
  });
  own.template for_each_row<2, 3>(
      a.map, {a.x, a.dy, a.activated}, [&](std::int64_t at, const uint4(&packs)[3]) {
        float x[kSize], g[kSize];
        unpack<T>(packs[0], x);
        unpack<T>(packs[1], g);
        if (a.activated != nullptr) mask<T>(g, packs[2]);
#pragma unroll
        for (int j = 0; j < kSize; ++j)
          g[j] = factors[j] * (g[j] - averages[j] - (x[j] - means[j]) * slopes[j]);
        store<T>(a.dx, at, to_pack<T>(g));
      });
}

template <typename Use>
cudaError_t with_narrow_type(DType dtype, const Use& use) {
  switch (dtype) {
    case DType::kF32:
      return use.template operator()<float>();
    case DType::kBF16:
      return use.template operator()<__nv_bfloat16>();
    case DType::kF16:
      return use.template operator()<__half>();
    default:
      return cudaErrorInvalidValue;
  }
}

dim3 grid_of(const ChannelMap& map) {
  return dim3(static_cast<unsigned>(map.tiles), static_cast<unsigned>(map.chunks));
}
unsigned blocks_of_channels(const ChannelMap& map) {
  return blocks_for(map.channels(), 1, kGridLimit);
}

}  // namespace

// Tiles narrow where there are rows for several groups of a block, so that few parts are left to
// put together; chunks long enough that those cost little, and two waves of blocks.
ChannelMap::ChannelMap(std::int64_t rows, std::int64_t columns, std::int64_t run, std::int64_t pack)
    : rows(rows), columns(columns), run(run) {
  constexpr std::int64_t kManyRows = 1024, kLeastRows = 16, kWantedBlocks = 8 * kProcessors;
  const std::int64_t packs = columns / pack, most_lanes = rows >= kManyRows ? kWarp : kThreads;
  while (lanes < most_lanes && lanes < packs) lanes *= 2;
  const std::int64_t width = lanes * pack;
  tiles = (columns + width - 1) / width;
  slots = std::min((width - 1) / run + 2, channels());
  const std::int64_t groups = kThreads / lanes;
  const std::int64_t most = std::max<std::int64_t>(1, rows / (kLeastRows * groups));
  chunks = std::clamp<std::int64_t>(tiles == 0 ? 1 : kWantedBlocks / tiles, 1, most);
  chunk_rows = (rows + chunks - 1) / chunks;
  chunks = (rows + chunk_rows - 1) / chunk_rows;
}

cudaError_t enqueue_channel_statistics(const ChannelStatistics& arguments, cudaStream_t stream) {
  return with_narrow_type(arguments.dtype, [&]<typename T>() {
    sum_moments<T><<<grid_of(arguments.map), kThreads, 0, stream>>>(arguments);
    finish_moments<<<blocks_of_channels(arguments.map), kThreads, 0, stream>>>(arguments,
                                                                               Pack<T>::kSize);
    return cudaGetLastError();
  });
}

cudaError_t enqueue_channel_squares(const ChannelSquares& arguments, cudaStream_t stream) {
  move_squares<<<blocks_for(arguments.channels, kThreads, kGridLimit), kThreads, 0, stream>>>(
      arguments);
  return cudaGetLastError();
}

cudaError_t enqueue_channel_norm(const ChannelNorm& arguments, cudaStream_t stream) {
  return with_narrow_type(arguments.dtype, [&]<typename T>() {
    normalize<T><<<grid_of(arguments.map), kThreads, 0, stream>>>(arguments);
    return cudaGetLastError();
  });
}

cudaError_t enqueue_channel_grad_sums(const ChannelGradSums& arguments, cudaStream_t stream) {
  return with_narrow_type(arguments.dtype, [&]<typename T>() {
    sum_gradients<T><<<grid_of(arguments.map), kThreads, 0, stream>>>(arguments);
    finish_gradients<<<blocks_of_channels(arguments.map), kThreads, 0, stream>>>(arguments,
                                                                                 Pack<T>::kSize);
    return cudaGetLastError();
  });
}

cudaError_t enqueue_channel_grad_input(const ChannelGradInput& arguments, cudaStream_t stream) {
  return with_narrow_type(arguments.dtype, [&]<typename T>() {
    grad_input<T><<<grid_of(arguments.map), kThreads, 0, stream>>>(arguments);
    return cudaGetLastError();
  });
}

}  // namespace sextant
