// All gradients of a norm in one pass over x and dy: for the input, with the addition behind it,
// for the weights, and the sums of the columns of what is written, which are the gradient of a bias
// in front.
//
// A group of threads holds its columns of every row it walks, so the sums of columns stay in
// registers, in f32, until it has no rows left. Then the groups of a block add theirs in shared
// memory and the block stores one row of them; a second, small launch adds the rows of all blocks.
// Every order is fixed. A count of finished blocks instead of the launch would leave one processor
// to read what all have stored, as each of them has a part of every column.
#include "backends/cuda/kernels/norms/norm.h"
#include "backends/cuda/kernels/norms/norm_rows.cuh"

#include <cstddef>
#include <cstdint>

namespace sextant {
namespace {

// More threads a row than where nothing is summed: beside its packs a thread has an f32 for each of
// their elements and each kind of sum. Calls `use.template operator()<Shape>()`; returns false
// where no shape holds a row.
template <int kSums, typename Use>
bool with_gradient_shape(std::int64_t packs, const Use& use) {
  constexpr int kBlock = kSums < 3 ? 512 : 384, kWideBlock = kSums < 3 ? 512 : 256;
  if (packs <= 32) {
    use.template operator()<RowShape<32, 0, 1, 256, 2>>();
  } else if (packs <= 64) {
    use.template operator()<RowShape<32, 1, 2, 384, 1>>();
  } else if (packs <= 128) {
    use.template operator()<RowShape<64, 1, 2, kBlock, 1>>();
  } else if (packs <= 256) {
    use.template operator()<RowShape<128, 1, 2, kBlock, 1>>();
  } else if (packs <= 384) {
    use.template operator()<RowShape<128, 2, 3, 256, 1>>();
  } else if (packs <= 512) {
    use.template operator()<RowShape<256, 1, 2, kWideBlock, 1>>();
  } else {
    if (packs > 1024 || kSums == 3) return false;
    if constexpr (kSums < 3) use.template operator()<RowShape<512, 1, 2, 512, 1>>();
  }
  return true;
}

template <typename T, typename Use>
bool with_kernel_shape(const NormGradientsArguments& a, const Use& use) {
  const NormGradInputArguments& input = a.input;
  if (input.adds_dx ||
      !has_packs<T>(input.length, {input.x, input.dy, input.gamma, input.other, input.dx}))
    return false;
  const std::int64_t packs = input.length / Pack<T>::kSize;
  const auto with_sums = [&]<int kSums>() {
    return with_gradient_shape<kSums>(
        packs, [&]<typename Shape>() { use.template operator()<Shape, kSums>(); });
  };
  switch (a.sums()) {
    case 1:
      return with_sums.template operator()<1>();
    case 2:
      return with_sums.template operator()<2>();
    default:
      return with_sums.template operator()<3>();
  }
}

// The entries of a thread's packs in a block's row of partial sums: neighbouring threads have
// neighbouring entries, whatever their columns.
template <typename T, typename Shape>
struct ColumnEntries {
  static constexpr int kSize = Pack<T>::kSize;
  static constexpr int kCount = Shape::kPacks * kSize * Shape::kThreads;  // of one sum

  static __device__ __forceinline__ int of(int u, int i, int thread) {
    return (u * kSize + i) * Shape::kThreads + thread;
  }
};
// The column of an entry of the kernel that has `threads` on a row.
__device__ __forceinline__ int column_of_entry(int entry, int threads, int size) {
  const int thread = entry % threads, element = entry / threads;
  return (element / size * threads + thread) * size + element % size;
}

// A barrier of the block. Groups of it have barriers of their own (sync_group), the first one that
// of __syncthreads, and may still be at those.
template <typename Shape>
__device__ __forceinline__ void sync_block() {
  constexpr int kOfBlock = 15;
  static_assert(Shape::kThreads == kWarp || Shape::kThreads == Shape::kBlock ||
                Shape::kRows <= kOfBlock);
  asm volatile("bar.sync %0, %1;" ::"n"(kOfBlock), "n"(Shape::kBlock) : "memory");
}

// Adds the sums of the groups of a block, one kind of sum after the other, into its row of
// `partial`: [sum][block][entry].
template <typename T, typename Shape, int kSums>
__device__ __forceinline__ void store_partial(
    const float (&sums)[kSums][Shape::kPacks][Pack<T>::kSize], float* partial) {
  using Entries = ColumnEntries<T, Shape>;
  constexpr int kCount = Entries::kCount;
  const int thread = static_cast<int>(threadIdx.x) % Shape::kThreads;
  const int group = static_cast<int>(threadIdx.x) / Shape::kThreads;
  const auto row_of = [&](int sum) {
    return partial + (std::int64_t{sum} * gridDim.x + blockIdx.x) * kCount;
  };
  const auto put_own = [&](int sum, float* row) {
#pragma unroll
    for (int u = 0; u < Shape::kPacks; ++u)
#pragma unroll
      for (int i = 0; i < Entries::kSize; ++i) row[Entries::of(u, i, thread)] = sums[sum][u][i];
  };
  if constexpr (Shape::kRows == 1) {
#pragma unroll
    for (int sum = 0; sum < kSums; ++sum) put_own(sum, row_of(sum));
  } else {
    __shared__ float of_groups[Shape::kRows][kCount];
#pragma unroll
    for (int sum = 0; sum < kSums; ++sum) {
      put_own(sum, of_groups[group]);
      sync_block<Shape>();
      float* const row = row_of(sum);
      for (int entry = static_cast<int>(threadIdx.x); entry < kCount; entry += Shape::kBlock) {
        float total = of_groups[0][entry];
#pragma unroll
        for (int g = 1; g < Shape::kRows; ++g) total += of_groups[g][entry];
        row[entry] = total;
      }
      if (sum + 1 < kSums) sync_block<Shape>();
    }
  }
}

// One kind of sum: RMS norm; two: layer norm; three: that, and the sums of dx.
template <typename T, typename Shape, int kSums>
__global__ void __launch_bounds__(Shape::kBlock, Shape::kBlocks)
    gradients_in_registers(NormGradInputArguments a, float* partial) {
  using Own = RowThread<T, Shape>;
  constexpr int kSize = Own::kSize, kPacks = Own::kPacks;
  constexpr bool kIsCentred = kSums > 1, kSumsDx = kSums > 2;
  static_assert(Shape::kHoldsAll);
  const Own own(a.length);
  const float share = 1 / static_cast<float>(a.length);
  SharedRow<T, Shape> gamma(own, a.gamma);
  float sums[kSums][kPacks][kSize] = {};  // of dy h; of dy; of dx
  struct Row {
    float mean = 0, rstd = 0;
    uint4 x[kPacks], dy[kPacks], other[kPacks];
  };
  const auto load = [&](Row& to, std::int64_t row) {
    if constexpr (kIsCentred) to.mean = static_cast<const float*>(a.mean)[row];
    to.rstd = static_cast<const float*>(a.rstd)[row];
    own.load(to.x, a.x, row);
    own.load(to.dy, a.dy, row);
    if (a.other != nullptr) own.load(to.other, a.other, row);
  };
  for_each_row<Shape, Row>(a.rows, load, [&](std::int64_t row, Row& now, int turn) {
    // dy, its product with gamma, and h of pack u
    const auto compute = [&](int u, float(&d)[kSize], float(&g)[kSize], float(&h)[kSize]) {
      float factors[kSize];
      unpack<T>(now.dy[u], d);
      unpack<T>(now.x[u], h);
      unpack<T>(gamma.pack(u), factors);
#pragma unroll
      for (int i = 0; i < kSize; ++i) {
        g[i] = d[i] * factors[i];
        h[i] = (h[i] - now.mean) * now.rstd;
      }
    };
    float averages[kIsCentred ? 2 : 1] = {};  // of g h, of g
    own.for_each([&](int u) {
      float d[kSize], g[kSize], h[kSize], of_gh = 0, of_g = 0;
      compute(u, d, g, h);
#pragma unroll
      for (int i = 0; i < kSize; ++i) {
        of_gh += g[i] * h[i];
        of_g += g[i];
        sums[0][u][i] += d[i] * h[i];
        if constexpr (kIsCentred) sums[1][u][i] += d[i];
      }
      averages[0] += of_gh;
      if constexpr (kIsCentred) averages[1] += of_g;
    });
    sum_over_group<Shape::kThreads, Shape::kBlock>(averages, turn);
#pragma unroll
    for (float& average : averages) average *= share;
    hold_packed(now.x);
    hold_packed(now.dy);
    gamma.hold();
    uint4* dx = own.first(a.dx, row);
    own.for_each([&](int u) {
      float d[kSize], g[kSize], h[kSize], values[kSize], terms[kSize];
      compute(u, d, g, h);
#pragma unroll
      for (int i = 0; i < kSize; ++i) {
        if constexpr (kIsCentred) g[i] -= averages[1];
        values[i] = now.rstd * (g[i] - h[i] * averages[0]);
      }
      if (a.other != nullptr) {
        unpack<T>(now.other[u], terms);
#pragma unroll
        for (int i = 0; i < kSize; ++i) values[i] += terms[i];
      }
      const uint4 written = to_pack<T>(values);
      dx[u * Own::kStep] = written;
      if constexpr (kSumsDx) {
        unpack<T>(written, values);  // as whoever reads them sees them
#pragma unroll
        for (int i = 0; i < kSize; ++i) sums[2][u][i] += values[i];
      }
    });
  });
  store_partial<T, Shape, kSums>(sums, partial);
}

// What adds the rows of partial sums: a block has a warp's width of the entries of all sums, its
// warps have the rows by turns.
constexpr int kAddThreads = 512;

struct PartialSums {
  const float* partial = nullptr;
  int blocks = 0;                  // rows of each sum
  int entries = 0;                 // of a row
  int threads = 0, pack_size = 0;  // what entries mean (column_of_entry)
  std::int64_t length = 0;
};
struct SumSinks {
  float* out[3];
  bool adds[3];
};

__global__ void __launch_bounds__(kAddThreads) add_partial_sums(PartialSums of, SumSinks sinks) {
  constexpr int kWarps = kAddThreads / kWarp;
  __shared__ float parts[kWarps][kWarp];
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int sum = static_cast<int>(blockIdx.y);
  const int entry = static_cast<int>(blockIdx.x) * kWarp + lane;  // rows have whole warps of them
  const float* const first = of.partial + std::int64_t{sum} * of.blocks * of.entries + entry;
  float total = 0;
#pragma unroll 8
  for (int row = warp; row < of.blocks; row += kWarps)
    total += first[std::int64_t{row} * of.entries];
  parts[warp][lane] = total;
  __syncthreads();
  if (warp != 0) return;
  total = parts[0][lane];
#pragma unroll
  for (int w = 1; w < kWarps; ++w) total += parts[w][lane];
  const int column = column_of_entry(entry, of.threads, of.pack_size);
  if (column < of.length) put(sinks.out[sum] + column, sinks.adds[sum], total);
}

SumSinks sinks_of(const NormGradientsArguments& a) {
  SumSinks sinks = {};
  int sum = 0;
  const auto add = [&](void* out, bool adds) {
    sinks.out[sum] = static_cast<float*>(out);
    sinks.adds[sum++] = adds;
  };
  add(a.dgamma, a.adds_dgamma);
  if (a.input.is_centred) add(a.dbeta, a.adds_dbeta);
  if (a.dx_sum != nullptr) add(a.dx_sum, a.adds_dx_sum);
  return sinks;
}

template <typename T, typename Shape>
std::size_t partial_bytes(std::int64_t sums, unsigned blocks) {
  return static_cast<std::size_t>(sums) * blocks * ColumnEntries<T, Shape>::kCount * sizeof(float);
}

// In company more blocks than run at once, unless there is no room for a row of sums of each.
template <typename T, typename Shape>
unsigned blocks_of(const NormGradientsArguments& a) {
  const unsigned most = Shape::blocks(a.input.rows, a.input.in_company);
  if (partial_bytes<T, Shape>(a.sums(), most) <= a.scratch_bytes) return most;
  return Shape::blocks(a.input.rows, false);
}

template <typename T, typename Shape, int kSums>
void start(const NormGradientsArguments& a, cudaStream_t stream) {
  using Entries = ColumnEntries<T, Shape>;
  static_assert(Entries::kCount % kWarp == 0);
  const unsigned blocks = blocks_of<T, Shape>(a);
  auto* partial = static_cast<float*>(a.scratch);
  gradients_in_registers<T, Shape, kSums><<<blocks, Shape::kBlock, 0, stream>>>(a.input, partial);
  const PartialSums sums = {.partial = partial,
                            .blocks = static_cast<int>(blocks),
                            .entries = Entries::kCount,
                            .threads = Shape::kThreads,
                            .pack_size = Entries::kSize,
                            .length = a.input.length};
  add_partial_sums<<<dim3(Entries::kCount / kWarp, kSums), kAddThreads, 0, stream>>>(sums,
                                                                                     sinks_of(a));
}

}  // namespace

bool has_norm_gradients(const NormGradientsArguments& arguments) {
  if (arguments.input.rows == 0 || arguments.input.length == 0) return false;
  if (arguments.dx_sum != nullptr && !arguments.input.is_centred) return false;
  bool fits = false;
  with_floating_type(arguments.input.dtype, [&]<typename T>() {
    if constexpr (sizeof(T) <= sizeof(float))
      with_kernel_shape<T>(arguments, [&]<typename Shape, int kSums>() {
        fits = partial_bytes<T, Shape>(kSums, blocks_of<T, Shape>(arguments)) <=
               arguments.scratch_bytes;
      });
    return cudaSuccess;
  });
  return fits;
}

cudaError_t enqueue_norm_gradients(const NormGradientsArguments& arguments, cudaStream_t stream) {
  return with_floating_type(arguments.input.dtype, [&]<typename T>() {
    bool has_shape = false;
    if constexpr (sizeof(T) <= sizeof(float))
      has_shape = with_kernel_shape<T>(arguments, [&]<typename Shape, int kSums>() {
        start<T, Shape, kSums>(arguments, stream);
      });
    return has_shape ? cudaGetLastError() : cudaErrorInvalidValue;
  });
}

}  // namespace sextant
