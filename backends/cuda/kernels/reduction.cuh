// The walk of reductions over any dims. Where the last dim is reduced, a warp or a block of 256 has
// an output (reduce_across), 16 bytes at a time where its elements are one run; where it is kept or
// short, 32 neighbouring outputs have a block (reduce_down). Few outputs are split over several
// blocks and put together afterwards, in a fixed order.
//
// An operation `Op` says:
//   using Element, W; static constexpr int kSums;
//   explicit Op(const ReductionArguments&);
//   W neutral() const;
//   W combine(W, W) const;
//   W of_output(int64 output) const;          // read once per output
//   static constexpr bool kHasB;              // whether it reads b beside x
//   void add(W (&sums)[kSums], W x, W b, W of_output, int64 second) const;
//   const Element *x() const, *b() const;
//   void store(int64 output, const W (&sums)[kSums]) const;
#pragma once

#include "backends/cuda/kernels/locate.cuh"
#include "backends/cuda/kernels/put.cuh"
#include "backends/cuda/kernels/reduce.cuh"
#include "backends/cuda/kernels/reduction.h"

#include <algorithm>

namespace sextant {

inline constexpr int kAcrossThreads = 256;
inline constexpr int kAcrossWarps = 4;  // of a block whose warps have an output each
inline constexpr int kDownWarps = 8;
inline constexpr std::int64_t kLeastAcross = 16;  // shorter rows leave most lanes without work
inline constexpr std::int64_t kEnoughBlocks = 8 * 132;
inline constexpr std::int64_t kMostGrid = 0x7FFFFFFF;

// What all reductions are given, beside their operation.
struct ReductionWalk {
  DimMap kept, reduced;
  std::int64_t splits = 1, of_split = 0;  // elements of every split but the last
  bool is_run = false;                    // the elements of an output follow each other in x

  __device__ std::int64_t begin() const { return std::int64_t{blockIdx.y} * of_split; }
  __device__ std::int64_t end() const {
    const std::int64_t end = begin() + of_split;
    return end < reduced.positions ? end : reduced.positions;
  }
};

template <typename Op, typename W = typename Op::W>
__device__ __forceinline__ void finish(const Op& op, const ReductionWalk& walk, void* partial,
                                       std::int64_t output, const W (&sums)[Op::kSums]) {
  if (walk.splits == 1) {
    op.store(output, sums);
    return;
  }
#pragma unroll
  for (int sum = 0; sum < Op::kSums; ++sum)
    static_cast<W*>(
        partial)[(std::int64_t{blockIdx.y} * Op::kSums + sum) * walk.kept.positions + output] =
        sums[sum];
}

template <typename Op, int kSums>
__device__ __forceinline__ void add_element(const Op& op, Located base, Located at,
                                            typename Op::W of_output,
                                            typename Op::W (&sums)[kSums]) {
  const std::int64_t i = base.first + at.first;
  typename Op::W b = 0;
  if constexpr (Op::kHasB) b = widen(op.b()[i]);
  op.add(sums, widen(op.x()[i]), b, of_output, base.second + at.second);
}

// The split of an output whose elements follow each other.
template <int kGroup, typename Op, int kSums>
__device__ __forceinline__ void add_run(const Op& op, const ReductionWalk& walk, Located base,
                                        typename Op::W of_output, int thread,
                                        typename Op::W (&sums)[kSums]) {
  using T = typename Op::Element;
  const std::int64_t step = walk.reduced.strides[1][0], begin = walk.begin();
  const auto at = [&](std::int64_t index) {
    return Located{begin + index, (begin + index) * step};
  };
  const T *x = op.x() + base.first + begin, *b = op.b() + base.first + begin;
  const auto add_one = [&](std::int64_t index, T) {
    add_element(op, base, at(index), of_output, sums);
  };
  // Packs of b lie where those of x do, or are read element by element.
  const bool lie_alike =
      (reinterpret_cast<std::uintptr_t>(x) ^ reinterpret_cast<std::uintptr_t>(b)) % 16 == 0;
  for_each_pack_of_row<4>(x, walk.end() - begin, thread, kGroup, add_one,
                          [&](std::int64_t index, const Pack<T>& of_x) {
                            Pack<T> of_b;
                            if constexpr (Op::kHasB) {
                              if (lie_alike) {
                                of_b = *reinterpret_cast<const Pack<T>*>(b + index);
                              } else {
#pragma unroll
                                for (int i = 0; i < Pack<T>::kSize; ++i)
                                  of_b.values[i] = b[index + i];
                              }
                            }
#pragma unroll
                            for (int i = 0; i < Pack<T>::kSize; ++i) {
                              typename Op::W b_value = 0;
                              if constexpr (Op::kHasB) b_value = widen(of_b.values[i]);
                              op.add(sums, widen(of_x.values[i]), b_value, of_output,
                                     base.second + at(index + i).second);
                            }
                          });
}

template <typename Op, int kGroup>
__global__ void __launch_bounds__(kGroup == kWarp ? kAcrossWarps * kWarp : kGroup)
    reduce_across(Op op, ReductionWalk walk, void* partial) {
  using W = typename Op::W;
  constexpr int kOutputs = kGroup == kWarp ? kAcrossWarps : 1;
  const int thread = static_cast<int>(threadIdx.x) % kGroup;
  for (std::int64_t output = std::int64_t{blockIdx.x} * kOutputs + threadIdx.x / kGroup;
       output < walk.kept.positions; output += std::int64_t{gridDim.x} * kOutputs) {
    const Located base = locate(walk.kept, output);
    const W of_output = op.of_output(output);
    W sums[Op::kSums];
#pragma unroll
    for (W& sum : sums) sum = op.neutral();
    if (walk.is_run) {
      add_run<kGroup>(op, walk, base, of_output, thread, sums);
    } else {
#pragma unroll 4
      for (std::int64_t element = walk.begin() + thread; element < walk.end(); element += kGroup)
        add_element(op, base, locate(walk.reduced, element), of_output, sums);
    }
    const auto combine = [&](W a, W b) { return op.combine(a, b); };
#pragma unroll
    for (W& sum : sums) sum = over_group<kGroup>(sum, combine);
    if (thread == 0) finish(op, walk, partial, output, sums);
  }
}

template <typename Op>
__global__ void __launch_bounds__(kDownWarps* kWarp)
    reduce_down(Op op, ReductionWalk walk, void* partial) {
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
          sums[sum] = op.combine(sums[sum], shared[of][sum][lane]);
      finish(op, walk, partial, output, sums);
    }
    __syncthreads();
  }
}

template <typename Op>
__global__ void __launch_bounds__(kAcrossThreads)
    combine_splits(Op op, std::int64_t outputs, std::int64_t splits, const void* partial) {
  using W = typename Op::W;
  const std::int64_t output =
      std::int64_t{blockIdx.x} * (kAcrossThreads / kWarp) + threadIdx.x / kWarp;
  if (output >= outputs) return;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  W sums[Op::kSums];
#pragma unroll
  for (int sum = 0; sum < Op::kSums; ++sum) {
    sums[sum] = op.neutral();
    for (std::int64_t split = lane; split < splits; split += kWarp)
      sums[sum] = op.combine(
          sums[sum], static_cast<const W*>(partial)[(split * Op::kSums + sum) * outputs + output]);
    sums[sum] = over_warp(sums[sum], [&](W a, W b) { return op.combine(a, b); });
  }
  if (lane == 0) op.store(output, sums);
}

template <typename Op>
cudaError_t start_reduction(const ReductionArguments& a, cudaStream_t stream) {
  const Op op(a);
  ReductionWalk walk;
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
  if (!is_across)
    reduce_down<Op><<<grid_of(blocks), kDownWarps * kWarp, 0, stream>>>(op, walk, a.scratch);
  else if (count > 4 * kAcrossThreads)
    reduce_across<Op, kAcrossThreads>
        <<<grid_of(outputs), kAcrossThreads, 0, stream>>>(op, walk, a.scratch);
  else
    reduce_across<Op, kWarp>
        <<<grid_of((outputs + kAcrossWarps - 1) / kAcrossWarps), kAcrossWarps * kWarp, 0, stream>>>(
            op, walk, a.scratch);
  if (walk.splits > 1) {
    constexpr std::int64_t kOutputs = kAcrossThreads / kWarp;
    combine_splits<Op>
        <<<static_cast<unsigned>((outputs + kOutputs - 1) / kOutputs), kAcrossThreads, 0, stream>>>(
            op, outputs, walk.splits, a.scratch);
  }
  return cudaGetLastError();
}

// What most operations share: one sum, of x alone, written to out[0].
template <typename T>
struct ReductionOp {
  using Element = T;
  using W = Wide<T>;
  static constexpr int kSums = 1;
  static constexpr bool kHasB = false;

  const T *x_, *b_;
  void* out_[2];
  bool adds_[2];
  DType out_dtype_;

  explicit ReductionOp(const ReductionArguments& a)
      : x_(static_cast<const T*>(a.x)),
        b_(static_cast<const T*>(a.b)),
        out_{a.out[0], a.out[1]},
        adds_{a.adds[0], a.adds[1]},
        out_dtype_(a.out_dtype) {}
  __device__ const T* x() const { return x_; }
  __device__ const T* b() const { return b_; }
  __device__ W neutral() const { return 0; }
  __device__ W combine(W a, W b) const { return sextant::sum_of(a, b); }
  __device__ W of_output(std::int64_t) const { return 0; }
  template <int kCount>
  __device__ void store(std::int64_t output, const W (&sums)[kCount]) const {
#pragma unroll
    for (int sum = 0; sum < kCount; ++sum)
      if (out_[sum] != nullptr) put_as(out_dtype_, out_[sum], output, adds_[sum], sums[sum]);
  }
};

// Equal, or both NaN.
template <typename W>
__device__ __forceinline__ bool is_same(W a, W b) {
  return a == b || (a != a && b != b);
}

}  // namespace sextant
