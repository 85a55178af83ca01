// Pieces of softmax cross-entropy. Rows of more than 1,024 classes get a block of 256, shorter ones
// a warp (four a block). Logits are read 16 bytes at a time whatever the alignment of a row:
// vocabularies of 50,257 are common. Maximum and sum run in one pass, online: the sum so far is
// rescaled where a larger logit appears (Milakov and Gimelshein, arXiv 1805.02867).
#include "backends/cuda/kernels/lookup/loss.h"
#include "backends/cuda/kernels/shared/exponential.cuh"
#include "backends/cuda/kernels/shared/grid.h"
#include "backends/cuda/kernels/shared/put.cuh"
#include "backends/cuda/kernels/shared/reduce.cuh"

#include <algorithm>

namespace sextant {
namespace {

constexpr int kLoads = 4;
constexpr int kLongThreads = 256;
constexpr int kThreads = 256;
constexpr std::int64_t kLongRow = 1024;

template <typename W>
__device__ __forceinline__ W lowest() {
  return -static_cast<W>(INFINITY);
}

__device__ __forceinline__ std::int64_t label_of(const LabelArguments& labels, std::int64_t row) {
  return labels.is_wide ? static_cast<const std::int64_t*>(labels.labels)[row]
                        : static_cast<const std::int32_t*>(labels.labels)[row];
}

// exp(x - max) where x may be -infinity beside a maximum of -infinity: 0.
template <typename T>
__device__ __forceinline__ Wide<T> shifted(Wide<T> x, Wide<T> max) {
  return exponential<T>(x - (max == lowest<Wide<T>>() ? Wide<T>(0) : max));
}

template <typename T>
struct Online {
  using W = Wide<T>;
  W max = lowest<W>(), sum = 0;

  __device__ __forceinline__ void raise(W candidate) {
    if (!(candidate > max)) return;
    sum *= shifted<T>(max, candidate);
    max = candidate;
  }
  __device__ __forceinline__ void add(W x) {
    raise(x);
    sum += shifted<T>(x, max);
  }
  // All at once: few rows rise more than a few times.
  template <int kCount>
  __device__ __forceinline__ void add(const Pack<T> (&packs)[kCount]) {
    W largest = lowest<W>();
#pragma unroll
    for (const Pack<T>& pack : packs) {
      W of_pack = widen(pack.values[0]);
#pragma unroll
      for (int i = 1; i < Pack<T>::kSize; ++i) of_pack = Fmax()(of_pack, widen(pack.values[i]));
      largest = Fmax()(largest, of_pack);
    }
    raise(largest);
    const W base = max == lowest<W>() ? W(0) : max;
    W of_packs[kCount] = {};
#pragma unroll
    for (int p = 0; p < kCount; ++p)
#pragma unroll
      for (const T value : packs[p].values)
        of_packs[p] += coarse_exponential<T>(widen(value) - base);
#pragma unroll
    for (const W of_pack : of_packs) sum += of_pack;
  }
};

enum class Wanted { kMax, kSum, kBoth };

template <typename T, int kGroup, Wanted kWanted>
__global__ void __launch_bounds__(kGroup == kWarp ? 128 : kGroup)
    row_statistics(RowStatisticsArguments a) {
  using W = Wide<T>;
  constexpr int kRows = kGroup == kWarp ? 4 : 1;
  const int thread = static_cast<int>(threadIdx.x) % kGroup;
  for (std::int64_t row = std::int64_t{blockIdx.x} * kRows + threadIdx.x / kGroup; row < a.rows;
       row += std::int64_t{gridDim.x} * kRows) {
    const T* x = static_cast<const T*>(a.x) + row * a.classes;
    if constexpr (kWanted == Wanted::kMax) {
      W max = lowest<W>();
      for_each_of_row<kLoads>(x, a.classes, thread, kGroup,
                              [&](std::int64_t, W value) { max = Fmax()(max, value); });
      max = over_group<kGroup>(max, Fmax());
      if (thread == 0) put(static_cast<W*>(a.max) + row, a.adds_max, max);
    } else if constexpr (kWanted == Wanted::kSum) {
      const W max = static_cast<const W*>(a.given_max)[row];
      W sum = 0;
      for_each_of_row<kLoads>(x, a.classes, thread, kGroup,
                              [&](std::int64_t, W value) { sum += exponential<T>(value - max); });
      sum = over_group<kGroup>(sum, Plus());
      if (thread == 0) put(static_cast<W*>(a.sum) + row, a.adds_sum, sum);
    } else {
      Online<T> own;
      for_each_batch_of_row<kLoads>(
          x, a.classes, thread, kGroup, [&](std::int64_t, T value) { own.add(widen(value)); },
          [&](std::int64_t, const auto& packs) { own.add(packs); });
      const W max = over_group<kGroup>(own.max, Fmax());
      W sum = over_group<kGroup>(own.sum * shifted<T>(own.max, max), Plus());
      // exp(-infinity - -infinity), as without the shortcut.
      if (max == lowest<W>() && a.classes > 0) sum = static_cast<W>(NAN);
      if (thread == 0) {
        put(static_cast<W*>(a.max) + row, a.adds_max, max);
        put(static_cast<W*>(a.sum) + row, a.adds_sum, sum);
      }
    }
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads) pick(PickArguments a) {
  using W = Wide<T>;
  const std::int64_t stride = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t row = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; row < a.rows;
       row += stride) {
    const std::int64_t label = label_of(a.labels, row), column = label - a.labels.first;
    const bool is_here = label != a.labels.ignored && column >= 0 && column < a.labels.classes;
    const W value =
        is_here ? widen(static_cast<const T*>(a.x)[row * a.labels.classes + column]) : W(0);
    put(static_cast<W*>(a.picked) + row, a.adds, value);
  }
}

template <typename W>
__device__ void store_losses(const CrossEntropyArguments& a, double2 sums) {
  if (threadIdx.x > 0) return;
  put(static_cast<W*>(a.loss), a.adds_loss, static_cast<W>(sums.x));
  put(static_cast<W*>(a.tokens), a.adds_tokens, static_cast<W>(sums.y));
}

template <typename W>
__global__ void __launch_bounds__(1024) cross_entropy(CrossEntropyArguments a) {
  double2 sums = {0.0, 0.0};
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
#pragma unroll 4
  for (std::int64_t row = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; row < a.rows;
       row += stride) {
    const W loss = log(static_cast<const W*>(a.sum)[row]) + static_cast<const W*>(a.max)[row] -
                   static_cast<const W*>(a.picked)[row];
    const std::int64_t label = label_of(a.labels, row);
    if (label == a.labels.ignored) continue;
    if (label < 0 || label >= a.labels.classes) *a.fault = 1;
    sums.x += static_cast<double>(loss);
    sums.y += 1.0;
  }
  sums = sum_over_block<1024>(sums);
  if (gridDim.x == 1)
    store_losses<W>(a, sums);
  else if (threadIdx.x == 0)
    reinterpret_cast<double2*>(a.scratch)[blockIdx.x] = sums;
}

template <typename W>
__global__ void __launch_bounds__(1024) add_losses(CrossEntropyArguments a, int blocks) {
  double2 sums = {0.0, 0.0};
  if (static_cast<int>(threadIdx.x) < blocks)
    sums = reinterpret_cast<const double2*>(a.scratch)[threadIdx.x];
  store_losses<W>(a, sum_over_block<1024>(sums));
}

// Where x and dx lie alike towards 16 bytes, packs are read and written; else single elements.
template <typename T, int kGroup>
__global__ void __launch_bounds__(kGroup == kWarp ? 128 : kGroup)
    cross_entropy_grad(CrossEntropyGradArguments a, bool lie_alike) {
  using W = Wide<T>;
  constexpr int kRows = kGroup == kWarp ? 4 : 1;
  const int thread = static_cast<int>(threadIdx.x) % kGroup;
  const std::int64_t classes = a.labels.classes;
  const W dloss = *static_cast<const W*>(a.dloss);
  const W of_each = dloss * static_cast<W>(a.share_each);
  const W of_label = dloss * static_cast<W>(a.share_label);
  for (std::int64_t row = std::int64_t{blockIdx.x} * kRows + threadIdx.x / kGroup; row < a.rows;
       row += std::int64_t{gridDim.x} * kRows) {
    const std::int64_t label = label_of(a.labels, row), column = label - a.labels.first;
    const bool counts = label != a.labels.ignored;
    if (!counts && a.adds) continue;
    const T* x = static_cast<const T*>(a.x) + row * classes;
    T* dx = static_cast<T*>(a.dx) + row * classes;
    const W max = static_cast<const W*>(a.max)[row];
    const W scale = dloss / static_cast<const W*>(a.sum)[row];
    const auto gradient = [&](std::int64_t index, T logit) {
      if (!counts) return W(0);
      W value = exponential<T>(widen(logit) - max) * scale - of_each;
      if (index == column) value -= of_label;
      return value;
    };
    const auto do_one = [&](std::int64_t index, T logit) {
      put(dx + index, a.adds, gradient(index, logit));
    };
    const auto do_pack = [&](std::int64_t index, const Pack<T>& logits) {
      auto* out = reinterpret_cast<Pack<T>*>(dx + index);
      Pack<T> result;
      if (a.adds) result = *out;
#pragma unroll
      for (int i = 0; i < Pack<T>::kSize; ++i)
        put(&result.values[i], a.adds, gradient(index + i, logits.values[i]));
      *out = result;
    };
    if (lie_alike)
      for_each_pack_of_row<kLoads>(x, classes, thread, kGroup, do_one, do_pack);
    else
      for (std::int64_t index = thread; index < classes; index += kGroup) do_one(index, x[index]);
  }
}

template <typename T, int kGroup>
void start_row_statistics(const RowStatisticsArguments& a, cudaStream_t stream) {
  const unsigned blocks = row_blocks(a.rows, kGroup == kWarp ? 4 : 1);
  const int threads = kGroup == kWarp ? 128 : kGroup;
  if (a.sum == nullptr)
    row_statistics<T, kGroup, Wanted::kMax><<<blocks, threads, 0, stream>>>(a);
  else if (a.max == nullptr)
    row_statistics<T, kGroup, Wanted::kSum><<<blocks, threads, 0, stream>>>(a);
  else
    row_statistics<T, kGroup, Wanted::kBoth><<<blocks, threads, 0, stream>>>(a);
}

template <typename W>
cudaError_t start_cross_entropy(const CrossEntropyArguments& a, cudaStream_t stream) {
  const auto blocks =
      static_cast<int>(std::clamp<std::int64_t>((a.rows + 1023) / 1024, 1, kCrossEntropyBlocks));
  cross_entropy<W><<<blocks, 1024, 0, stream>>>(a);
  if (blocks > 1) add_losses<W><<<1, 1024, 0, stream>>>(a, blocks);
  return cudaGetLastError();
}

}  // namespace

cudaError_t enqueue_row_statistics(const RowStatisticsArguments& arguments, cudaStream_t stream) {
  if (arguments.rows == 0) return cudaSuccess;
  return with_floating_type(arguments.dtype, [&]<typename T>() {
    if (arguments.classes > kLongRow)
      start_row_statistics<T, kLongThreads>(arguments, stream);
    else
      start_row_statistics<T, kWarp>(arguments, stream);
    return cudaGetLastError();
  });
}

cudaError_t enqueue_pick(const PickArguments& arguments, cudaStream_t stream) {
  if (arguments.rows == 0) return cudaSuccess;
  return with_floating_type(arguments.dtype, [&]<typename T>() {
    pick<T><<<row_blocks(arguments.rows, kThreads), kThreads, 0, stream>>>(arguments);
    return cudaGetLastError();
  });
}

cudaError_t enqueue_cross_entropy(const CrossEntropyArguments& arguments, cudaStream_t stream) {
  if (arguments.dtype == DType::kF64) return start_cross_entropy<double>(arguments, stream);
  return start_cross_entropy<float>(arguments, stream);
}

cudaError_t enqueue_cross_entropy_grad(const CrossEntropyGradArguments& arguments,
                                       cudaStream_t stream) {
  if (arguments.rows == 0 || arguments.labels.classes == 0) return cudaSuccess;
  const bool lie_alike = reinterpret_cast<std::uintptr_t>(arguments.x) % 16 ==
                         reinterpret_cast<std::uintptr_t>(arguments.dx) % 16;
  return with_floating_type(arguments.dtype, [&]<typename T>() {
    if (arguments.labels.classes > kLongRow)
      cross_entropy_grad<T, kLongThreads>
          <<<row_blocks(arguments.rows, 1), kLongThreads, 0, stream>>>(arguments, lie_alike);
    else
      cross_entropy_grad<T, kWarp>
          <<<row_blocks(arguments.rows, 4), 128, 0, stream>>>(arguments, lie_alike);
    return cudaGetLastError();
  });
}

}  // namespace sextant
