// The walk of reductions over any dims. Where the last dim is reduced, a warp or a block has an
// output (reduce_across), 16 bytes at a time where its elements are one run; where it is kept or
// short, 32 neighbouring outputs have a block (reduce_down). Few outputs are split over several
// blocks and put together afterwards (reduction_splits.cu), in a fixed order.
//
// Both kernels exist once per operation and type, which is what this costs to compile: operations
// that differ in a few instructions, and ways to reduce that differ outside of the loop, are told
// apart when running, where memory bounds the pass anyway.
//
// An operation `Op` says:
//   using Element, W; static constexpr int kSums; static constexpr bool kIsExtremum;
//   explicit Op(const ReductionArguments&);
//   W neutral() const;
//   W of_output(int64 output) const;          // read once per output
//   static constexpr bool kHasB;              // whether it reads b beside x
//   void add(W (&sums)[kSums], W (&x)[kCount], W (&b)[kCount], W of_output, int64 second,
//            int64 step) const;               // neighbours, `step` apart in the second tensor
//   const Element *x() const, *b() const;
#pragma once

#include "backends/cuda/kernels/reductions/locate.cuh"
#include "backends/cuda/kernels/reductions/reduction.h"
#include "backends/cuda/kernels/shared/put.cuh"
#include "backends/cuda/kernels/shared/reduce.cuh"

#include <algorithm>

namespace sextant {

inline constexpr int kAcrossThreads = 256;
inline constexpr int kAcrossWarps = kAcrossThreads / kWarp;
inline constexpr int kDownWarps = 8;
inline constexpr std::int64_t kLeastAcross = 16;  // shorter rows leave most lanes without work
inline constexpr std::int64_t kEnoughBlocks = 8 * 132;
inline constexpr std::int64_t kMostGrid = 0x7FFFFFFF;

// What all reductions are given, beside their operation.
struct ReductionWalk {
  DimMap kept, reduced;
  std::int64_t splits = 1, of_split = 0;  // elements of every split but the last
  bool is_run = false;                    // the elements of an output follow each other in x
  bool has_blocks = false;                // an output has a block, not a warp (reduce_across)

  __device__ std::int64_t begin() const { return std::int64_t{blockIdx.y} * of_split; }
  __device__ std::int64_t end() const {
    const std::int64_t end = begin() + of_split;
    return end < reduced.positions ? end : reduced.positions;
  }
};

// Sums, or the larger one.
template <bool kIsExtremum, typename W>
__device__ __forceinline__ W combined(W a, W b) {
  if constexpr (kIsExtremum)
    return Larger()(a, b);
  else
    return sum_of(a, b);
}

// A minimum is the maximum of values in the opposite order.
template <typename W>
__device__ __forceinline__ W opposite(W value) {
  if constexpr (std::is_same_v<W, std::int64_t>)
    return ~value;
  else
    return -value;
}

// A call: seven types of outputs, once per kernel inlined, were a third of its code.
template <typename W>
__device__ __noinline__ void put_result(const ReductionResult& result, int sum, std::int64_t output,
                                        W value) {
  if (result.out[sum] == nullptr) return;
  if (result.is_opposite) value = opposite(value);
  if constexpr (!std::is_same_v<W, std::int64_t>)
    if (result.divisor != 1) value /= static_cast<W>(result.divisor);
  put_as(result.dtype, result.out[sum], output, result.adds[sum], value);
}

template <int kSums, typename W>
__device__ __forceinline__ void finish(const ReductionResult& result, const ReductionWalk& walk,
                                       void* partial, std::int64_t output, const W (&sums)[kSums]) {
#pragma unroll
  for (int sum = 0; sum < kSums; ++sum) {
    const std::int64_t at = (std::int64_t{blockIdx.y} * kSums + sum) * walk.kept.positions + output;
    if (walk.splits == 1)
      put_result(result, sum, output, sums[sum]);
    else
      static_cast<W*>(partial)[at] = sums[sum];
  }
}

template <typename Op, int kSums>
__device__ __forceinline__ void add_element(const Op& op, Located base, Located at,
                                            typename Op::W of_output,
                                            typename Op::W (&sums)[kSums]) {
  const std::int64_t i = base.first + at.first;
  typename Op::W x[1] = {widen(op.x()[i])}, b[1] = {};
  if constexpr (Op::kHasB) b[0] = widen(op.b()[i]);
  op.add(sums, x, b, of_output, base.second + at.second, 0);
}

// The split of an output whose elements follow each other.
template <typename Op, int kSums>
__device__ __forceinline__ void add_run(const Op& op, const ReductionWalk& walk, Located base,
                                        typename Op::W of_output, int thread, int threads,
                                        typename Op::W (&sums)[kSums]) {
  using T = typename Op::Element;
  using W = typename Op::W;
  constexpr int kSize = Pack<T>::kSize;
  const std::int64_t step = walk.reduced.strides[1][0], begin = walk.begin();
  const T *x = op.x() + base.first + begin, *b = op.b() + base.first + begin;
  const auto add_one = [&](std::int64_t index, T) {
    add_element(op, base, {begin + index, (begin + index) * step}, of_output, sums);
  };
  // Packs of b lie where those of x do, or are read element by element.
  const bool lie_alike =
      (reinterpret_cast<std::uintptr_t>(x) ^ reinterpret_cast<std::uintptr_t>(b)) % 16 == 0;
  for_each_pack_of_row<4>(x, walk.end() - begin, thread, threads, add_one,
                          [&](std::int64_t index, const Pack<T>& of_x) {
                            W x_values[kSize], b_values[kSize] = {};
#pragma unroll
                            for (int i = 0; i < kSize; ++i) x_values[i] = widen(of_x.values[i]);
                            if constexpr (Op::kHasB) {
                              Pack<T> of_b;
                              if (lie_alike) {
                                of_b = *reinterpret_cast<const Pack<T>*>(b + index);
                              } else {
#pragma unroll
                                for (int i = 0; i < kSize; ++i) of_b.values[i] = b[index + i];
                              }
#pragma unroll
                              for (int i = 0; i < kSize; ++i) b_values[i] = widen(of_b.values[i]);
                            }
                            op.add(sums, x_values, b_values, of_output,
                                   base.second + (begin + index) * step, step);
                          });
}

template <typename Op>
__global__ void __launch_bounds__(kAcrossThreads)
    reduce_across(const Op op, const __grid_constant__ ReductionWalk walk,
                  const __grid_constant__ ReductionResult result, void* partial) {
  using W = typename Op::W;
  const auto combine = [](W a, W b) { return combined<Op::kIsExtremum>(a, b); };
  const int threads = walk.has_blocks ? kAcrossThreads : kWarp;
  const int of_block = kAcrossThreads / threads;
  const int thread = static_cast<int>(threadIdx.x) & (threads - 1);
  for (std::int64_t output = std::int64_t{blockIdx.x} * of_block + threadIdx.x / threads;
       output < walk.kept.positions; output += std::int64_t{gridDim.x} * of_block) {
    const Located base = locate(walk.kept, output);
    const W of_output = op.of_output(output);
    W sums[Op::kSums];
#pragma unroll
    for (W& sum : sums) sum = op.neutral();
    if (walk.is_run) {
      add_run(op, walk, base, of_output, thread, threads, sums);
    } else {
#pragma unroll 4
      for (std::int64_t element = walk.begin() + thread; element < walk.end(); element += threads)
        add_element(op, base, locate(walk.reduced, element), of_output, sums);
    }
#pragma unroll
    for (W& sum : sums)
      sum = walk.has_blocks ? over_group<kAcrossThreads>(sum, combine) : over_warp(sum, combine);
    if (thread == 0) finish(result, walk, partial, output, sums);
  }
}

template <typename Op>
__global__ void __launch_bounds__(kDownWarps* kWarp)
    reduce_down(const Op op, const __grid_constant__ ReductionWalk walk,
                const __grid_constant__ ReductionResult result, void* partial) {
  using W = typename Op::W;
  __shared__ W shared[kDownWarps][Op::kSums][kWarp];
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const std::int64_t outputs = walk.kept.positions;
  for (std::int64_t tile = std::int64_t{blockIdx.x} * kWarp; tile < outputs;
       tile += std::int64_t{gridDim.x} * kWarp) {
    const std::int64_t output = tile + lane;
    W sums[Op::kSums];
#pragma unroll
    for (W& sum : sums) sum = op.neutral();
    if (output < outputs) {
      const Located base = locate(walk.kept, output);
      const W of_output = op.of_output(output);
      const std::int64_t end = walk.end();
#pragma unroll 4
      for (std::int64_t element = walk.begin() + warp; element < end; element += kDownWarps) {
        add_element(op, base, locate(walk.reduced, element), of_output, sums);
      }
    }
#pragma unroll
    for (int sum = 0; sum < Op::kSums; ++sum) shared[warp][sum][lane] = sums[sum];
    __syncthreads();
    if (warp == 0 && output < outputs) {
      for (int of = 1; of < kDownWarps; ++of)
#pragma unroll
        for (int sum = 0; sum < Op::kSums; ++sum)
          sums[sum] = combined<Op::kIsExtremum>(sums[sum], shared[of][sum][lane]);
      finish(result, walk, partial, output, sums);
    }
    __syncthreads();
  }
}

template <typename Op>
cudaError_t start_reduction(const ReductionArguments& a, cudaStream_t stream) {
  const Op op(a);
  ReductionWalk walk;
  const ReductionResult result = {
      {a.out[0], a.out[1]}, {a.adds[0], a.adds[1]}, a.out_dtype, a.divisor, a.is_opposite};
  walk.kept = a.kept;
  walk.reduced = a.reduced;
  const std::int64_t outputs = a.kept.positions, count = a.reduced.positions;
  if (outputs == 0) return cudaSuccess;
  const bool is_across =
      a.reduced.dims > 0 && count >= kLeastAcross && (a.reduced.strides[0][0] == 1 || outputs == 1);
  walk.is_run = a.reduced.dims == 1 && a.reduced.strides[0][0] == 1;
  // Blocks without splits, and the least that a split is worth.
  const std::int64_t blocks = is_across ? outputs : (outputs + kWarp - 1) / kWarp;
  const std::int64_t least = is_across ? kAcrossThreads * 16 : kDownWarps * 8;
  walk.splits =
      std::max<std::int64_t>(1, std::min((kEnoughBlocks + blocks - 1) / blocks, count / least));
  walk.of_split = (count + walk.splits - 1) / walk.splits;
  const auto along = static_cast<unsigned>(walk.splits);
  const auto grid_of = [&](std::int64_t wanted) {
    return dim3(static_cast<unsigned>(std::min(wanted, kMostGrid)), along);
  };
  walk.has_blocks = count > 4 * kAcrossThreads;
  const std::int64_t of_block = walk.has_blocks ? 1 : kAcrossWarps;
  if (!is_across)
    reduce_down<Op>
        <<<grid_of(blocks), kDownWarps * kWarp, 0, stream>>>(op, walk, result, a.scratch);
  else
    reduce_across<Op><<<grid_of((outputs + of_block - 1) / of_block), kAcrossThreads, 0, stream>>>(
        op, walk, result, a.scratch);
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) return error;
  if (walk.splits == 1) return cudaSuccess;
  return enqueue_combine_splits(
      {result, a.dtype, Op::kSums, Op::kIsExtremum, outputs, walk.splits, a.scratch}, stream);
}

// What most operations share: one sum, of x alone.
template <typename T>
struct ReductionOp {
  using Element = T;
  using W = Wide<T>;
  static constexpr int kSums = 1;
  static constexpr bool kHasB = false, kIsExtremum = false;

  const T *x_, *b_;

  explicit ReductionOp(const ReductionArguments& a)
      : x_(static_cast<const T*>(a.x)), b_(static_cast<const T*>(a.b)) {}
  __device__ const T* x() const { return x_; }
  __device__ const T* b() const { return b_; }
  __device__ W neutral() const { return 0; }
  __device__ W of_output(std::int64_t) const { return 0; }
};

}  // namespace sextant
