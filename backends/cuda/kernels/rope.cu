// Rotary positions: a block has one position, computes its angles once and turns all heads of all
// samples by them, 16 bytes of either half at a time where the halves allow it.
#include "backends/cuda/kernels/elements.cuh"
#include "backends/cuda/kernels/rope.h"

#include <algorithm>

namespace sextant {
namespace {

constexpr int kThreads = 256;
constexpr double kTurn = 6.283185307179586476925286766559;

// Whole turns are taken off in f64, so that positions of any size keep their place on the circle.
__device__ void turn_of(double angle, float& cosine, float& sine) {
  sincosf(static_cast<float>(angle - kTurn * rint(angle / kTurn)), &sine, &cosine);
}
__device__ void turn_of(double angle, double& cosine, double& sine) {
  sincos(angle, &sine, &cosine);
}

template <typename T, int kSize>
struct alignas(kSize * sizeof(T)) Values {
  T values[kSize];
};

template <typename T, int kPack>
__global__ void __launch_bounds__(kThreads) rope(RopeArguments a) {
  using W = Wide<T>;
  extern __shared__ __align__(16) unsigned char memory[];
  const int half = static_cast<int>(a.size / 2);
  W* const cosine = reinterpret_cast<W*>(memory);
  W* const sine = cosine + half;
  const std::int64_t position = blockIdx.x;
  for (int i = static_cast<int>(threadIdx.x); i < half; i += kThreads) {
    const double angle = static_cast<double>(a.first + position) *
                         pow(a.theta, -2.0 * i / static_cast<double>(a.size));
    turn_of(a.inverse ? -angle : angle, cosine[i], sine[i]);
  }
  __syncthreads();
  const int packs = half / kPack;
  const std::int64_t count = a.batch * a.heads * packs;
  for (std::int64_t at = std::int64_t{blockIdx.y} * kThreads + threadIdx.x; at < count;
       at += std::int64_t{gridDim.y} * kThreads) {
    const int i = static_cast<int>(at % packs) * kPack;
    const std::int64_t h = at / packs % a.heads, b = at / packs / a.heads;
    const std::int64_t low = ((b * a.positions + position) * a.heads + h) * a.size + i;
    using Pack = Values<T, kPack>;
    const Pack x = *reinterpret_cast<const Pack*>(static_cast<const T*>(a.x) + low);
    const Pack z = *reinterpret_cast<const Pack*>(static_cast<const T*>(a.x) + low + half);
    Pack* const to_x = reinterpret_cast<Pack*>(static_cast<T*>(a.y) + low);
    Pack* const to_z = reinterpret_cast<Pack*>(static_cast<T*>(a.y) + low + half);
    Pack y_x, y_z;
    if (a.accumulate) {
      y_x = *to_x;
      y_z = *to_z;
    }
#pragma unroll
    for (int j = 0; j < kPack; ++j) {
      const W c = cosine[i + j], s = sine[i + j], u = widen(x.values[j]), v = widen(z.values[j]);
      W p = u * c - v * s, q = v * c + u * s;
      if (a.accumulate) {
        p += widen(y_x.values[j]);
        q += widen(y_z.values[j]);
      }
      y_x.values[j] = narrow<T>(p);
      y_z.values[j] = narrow<T>(q);
    }
    *to_x = y_x;
    *to_z = y_z;
  }
}

template <typename T, int kPack>
cudaError_t start(const RopeArguments& a, cudaStream_t stream) {
  const std::int64_t count = a.batch * a.heads * (a.size / 2 / kPack);
  // A second block for the same position only where there are few positions.
  const std::int64_t wanted = (count + kThreads - 1) / kThreads;
  const std::int64_t share = std::max<std::int64_t>(1, 4096 / a.positions);
  const dim3 grid(static_cast<unsigned>(a.positions),
                  static_cast<unsigned>(std::min({wanted, share, std::int64_t{4096}})));
  const std::size_t bytes = static_cast<std::size_t>(a.size) * sizeof(Wide<T>);
  const cudaError_t status = cudaFuncSetAttribute(
      rope<T, kPack>, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  if (status != cudaSuccess) return status;
  rope<T, kPack><<<grid, kThreads, bytes, stream>>>(a);
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
