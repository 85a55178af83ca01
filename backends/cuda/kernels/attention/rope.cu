// Rotary positions: a block has one position, computes its angles once and turns all heads of all
// samples by them, 16 bytes of either half at a time where the halves allow it.
#include "backends/cuda/kernels/attention/rope.h"
#include "backends/cuda/kernels/shared/elements.cuh"

#include <algorithm>

namespace sextant {
namespace {

constexpr int kMostThreads = 256;
constexpr double kHalfTurns = 0.31830988618379067153776752674503;  // 1 / pi

// The angle of pair i at a position, of theta^(-2 i / size) per position, scaled. Whole turns are
// taken off in f64, so that positions of any size keep their place on the circle.
__device__ void turn_of(const RopeArguments& a, double position, int i, float& cosine,
                        float& sine) {
  const double exponent = a.log2_theta * (-2.0 * i) / static_cast<double>(a.size);
  const double half_turns = position * a.scaling.scaled(exp2(exponent)) * kHalfTurns;
  sincospif(static_cast<float>(half_turns - 2 * rint(0.5 * half_turns)), &sine, &cosine);
}
__device__ void turn_of(const RopeArguments& a, double position, int i, double& cosine,
                        double& sine) {
  const double frequency = pow(a.theta, -2.0 * i / static_cast<double>(a.size));
  sincos(position * a.scaling.scaled(frequency), &sine, &cosine);
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

template <typename T, int kPack>
__global__ void __launch_bounds__(kMostThreads) rope(RopeArguments a) {
  using W = Wide<T>;
  extern __shared__ __align__(16) unsigned char memory[];
  const int half = static_cast<int>(a.size / 2), packs = half / kPack;
  W* const cosine = reinterpret_cast<W*>(memory);
  W* const sine = cosine + half;
  const std::int64_t position = blockIdx.x, count = a.batch * a.heads * packs;
  const std::int64_t stride = std::int64_t{gridDim.y} * blockDim.x;
  std::int64_t at = std::int64_t{blockIdx.y} * blockDim.x + threadIdx.x;
  const auto offset = [&](std::int64_t pack) {
    const std::int64_t head = pack / packs, b = head / a.heads;
    return ((b * a.positions + position) * a.heads + head - b * a.heads) * a.size +
           pack % packs * kPack;
  };
  // The first pairs are on their way while the angles are computed.
  Pairs<T, kPack> x;
  if (at < count) x = Pairs<T, kPack>::read(a.x, offset(at), half);
  const auto global = static_cast<double>(a.first + position);
  for (int i = static_cast<int>(threadIdx.x); i < half; i += static_cast<int>(blockDim.x))
    turn_of(a, a.inverse ? -global : global, i, cosine[i], sine[i]);
  __syncthreads();
  for (; at < count; at += stride) {
    const int i = static_cast<int>(at % packs) * kPack;
    const std::int64_t here = offset(at);
    Pairs<T, kPack> y;
    if (a.accumulate) y = Pairs<T, kPack>::read(a.y, here, half);
#pragma unroll
    for (int j = 0; j < kPack; ++j) {
      const W c = cosine[i + j], s = sine[i + j];
      const W u = widen(x.low.values[j]), v = widen(x.high.values[j]);
      W low = u * c - v * s, high = v * c + u * s;
      if (a.accumulate) {
        low += widen(y.low.values[j]);
        high += widen(y.high.values[j]);
      }
      y.low.values[j] = narrow<T>(low);
      y.high.values[j] = narrow<T>(high);
    }
    if (at + stride < count) x = Pairs<T, kPack>::read(a.x, offset(at + stride), half);
    y.write(a.y, here, half);
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
  rope<T, kPack><<<grid, static_cast<unsigned>(threads), bytes, stream>>>(a);
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
