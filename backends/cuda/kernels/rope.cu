// Rotary positions: a block has one position, computes its angles once and turns all heads of all
// samples by them, 16 bytes of either half at a time where the halves allow it.
#include "backends/cuda/kernels/divisor.h"
#include "backends/cuda/kernels/elements.cuh"
#include "backends/cuda/kernels/rope.h"

#include <algorithm>

namespace sextant {
namespace {

constexpr int kMostThreads = 256;
constexpr double kHalfTurns = 0.31830988618379067153776752674503;  // 1 / pi

// An angle in radians. Whole turns are taken off in f64, so that positions of any size keep their
// place on the circle.
__device__ __forceinline__ void turn_by(double angle, float& cosine, float& sine) {
  const double half_turns = angle * kHalfTurns;
  sincospif(static_cast<float>(half_turns - 2 * rint(0.5 * half_turns)), &sine, &cosine);
}
__device__ __forceinline__ void turn_by(double angle, double& cosine, double& sine) {
  sincos(angle, &sine, &cosine);
}

// The two halves of a pack of pairs.
template <typename T, int kPack>
struct Pairs {
  Values<T, kPack> low, high;

  __device__ static Pairs read(const void* from, std::int64_t at, int half) {
    const T* const low = static_cast<const T*>(from) + at;
    return {*reinterpret_cast<const Values<T, kPack>*>(low),
            *reinterpret_cast<const Values<T, kPack>*>(low + half)};
  }
  __device__ void write(void* to, std::int64_t at, int half) const {
    T* const first = static_cast<T*>(to) + at;
    *reinterpret_cast<Values<T, kPack>*>(first) = low;
    *reinterpret_cast<Values<T, kPack>*>(first + half) = high;
  }
};

// Where a pack of one position begins and its first pair.
struct Place {
  std::int64_t at = 0;
  int pair = 0;
};

// Packs of one position, of all samples and heads.
struct Places {
  std::int64_t positions = 0, heads = 0, size = 0;
  Divisor packs_of_head, heads_of_sample;
  int pack = 1;

  __device__ __forceinline__ Place of(std::int64_t position, std::uint32_t index) const {
    const std::uint32_t head = packs_of_head.quotient(index);
    const std::uint32_t sample = heads_of_sample.quotient(head);
    const int pair = static_cast<int>(index - head * packs_of_head.by) * pack;
    const std::int64_t row = (sample * positions + position) * heads;
    return {(row + head - sample * heads_of_sample.by) * size + pair, pair};
  }
};

template <typename T, int kPack>
__global__ void __launch_bounds__(kMostThreads, 6)
    rope(RopeArguments a, Places places, std::uint32_t count) {
  using W = Wide<T>;
  extern __shared__ __align__(16) unsigned char memory[];
  const int half = static_cast<int>(a.size / 2);
  W* const cosine = reinterpret_cast<W*>(memory);
  W* const sine = cosine + half;
  const std::int64_t position = blockIdx.x;
  const std::uint32_t stride = gridDim.y * blockDim.x;
  std::uint32_t index = blockIdx.y * blockDim.x + threadIdx.x;
  Place here = places.of(position, index);
  // The first pairs are on their way while the angles are computed.
  Pairs<T, kPack> x;
  if (index < count) x = Pairs<T, kPack>::read(a.x, here.at, half);
  const auto global = static_cast<double>(a.first + position);
  for (int i = static_cast<int>(threadIdx.x); i < half; i += static_cast<int>(blockDim.x))
    turn_by((a.inverse ? -global : global) * a.turns[i], cosine[i], sine[i]);
  __syncthreads();
  while (index < count) {
    Pairs<T, kPack> y;
    if (a.accumulate) y = Pairs<T, kPack>::read(a.y, here.at, half);
#pragma unroll
    for (int j = 0; j < kPack; ++j) {
      const W c = cosine[here.pair + j], s = sine[here.pair + j];
      const W u = widen(x.low.values[j]), v = widen(x.high.values[j]);
      W low = u * c - v * s, high = v * c + u * s;
      if (a.accumulate) {
        low += widen(y.low.values[j]);
        high += widen(y.high.values[j]);
      }
      y.low.values[j] = narrow<T>(low);
      y.high.values[j] = narrow<T>(high);
    }
    index += stride;
    const Place next = places.of(position, index);
    if (index < count) x = Pairs<T, kPack>::read(a.x, next.at, half);
    y.write(a.y, here.at, half);
    here = next;
  }
}

template <typename T, int kPack>
cudaError_t start(const RopeArguments& a, cudaStream_t stream) {
  const std::int64_t count = a.batch * a.heads * (a.size / 2 / kPack);
  const std::int64_t threads = std::clamp<std::int64_t>((count + 31) / 32 * 32, 64, kMostThreads);
  // A second block for the same position only where there are few positions.
  const std::int64_t wanted = (count + threads - 1) / threads;
  const std::int64_t share = std::max<std::int64_t>(1, 4096 / a.positions);
  const dim3 grid(static_cast<unsigned>(a.positions),
                  static_cast<unsigned>(std::min({wanted, share, std::int64_t{4096}})));
  const std::size_t bytes = static_cast<std::size_t>(a.size) * sizeof(Wide<T>);
  const cudaError_t status = cudaFuncSetAttribute(
      rope<T, kPack>, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  if (status != cudaSuccess) return status;
  const Places places{.positions = a.positions,
                      .heads = a.heads,
                      .size = a.size,
                      .packs_of_head = Divisor(a.size / 2 / kPack),
                      .heads_of_sample = Divisor(a.heads),
                      .pack = kPack};
  rope<T, kPack><<<grid, static_cast<unsigned>(threads), bytes, stream>>>(
      a, places, static_cast<std::uint32_t>(count));
  return cudaGetLastError();
}

bool is_aligned(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0; }

}  // namespace

cudaError_t enqueue_rope(const RopeArguments& a, cudaStream_t stream) {
  if (a.batch * a.positions * a.heads * a.size == 0) return cudaSuccess;
  return with_floating_type(a.dtype, [&]<typename T>() {
    constexpr int kPack = 16 / sizeof(T);
    const bool packed = a.size / 2 % kPack == 0 && is_aligned(a.x) && is_aligned(a.y);
    return packed ? start<T, kPack>(a, stream) : start<T, 1>(a, stream);
  });
}

}  // namespace sextant
