// Element-wise operations with values per group: 256 threads a block. Where the last dim allows, a
// thread has the elements of 16 bytes and finds their groups once.
#include "backends/cuda/kernels/reductions/grouped.h"
#include "backends/cuda/kernels/reductions/locate.cuh"
#include "backends/cuda/kernels/shared/exponential.cuh"
#include "backends/cuda/kernels/shared/grid.h"
#include "backends/cuda/kernels/shared/put.cuh"

#include <algorithm>

namespace sextant {
namespace {

constexpr int kThreads = 256;

template <typename T>
struct Softmax {
  using W = Wide<T>;
  const T *x, *max;
  const W* sum;
  explicit Softmax(const GroupedArguments& a)
      : x(static_cast<const T*>(a.x)),
        max(static_cast<const T*>(a.max)),
        sum(static_cast<const W*>(a.sum)) {}
  __device__ W of(W value, W, Located at) const {
    const W share = exponential<T>(value - widen(max[at.first]));
    // An exact division costs more than the memory; two units of 2^-24 vanish in 16 bits.
    if constexpr (sizeof(T) == 2)
      return __fdividef(share, sum[at.first]);
    else
      return share / sum[at.first];
  }
};

template <typename T>
struct SoftmaxGrad {
  using W = Wide<T>;
  const T *x, *dy;
  const W* dot;
  explicit SoftmaxGrad(const GroupedArguments& a)
      : x(static_cast<const T*>(a.x)),
        dy(static_cast<const T*>(a.dy)),
        dot(static_cast<const W*>(a.dot)) {}
  __device__ W of(W y, W d, Located at) const { return y * (d - dot[at.first]); }
};

template <typename T>
struct Normalize {
  using W = Wide<T>;
  const T *x, *gamma, *beta;
  const W *mean, *rstd;
  explicit Normalize(const GroupedArguments& a)
      : x(static_cast<const T*>(a.x)),
        gamma(static_cast<const T*>(a.gamma)),
        beta(static_cast<const T*>(a.beta)),
        mean(static_cast<const W*>(a.mean)),
        rstd(static_cast<const W*>(a.rstd)) {}
  __device__ W of(W value, W, Located at) const {
    const W centred = mean != nullptr ? value - mean[at.first] : value;
    const W scaled = centred * rstd[at.first] * widen(gamma[at.second]);
    return beta != nullptr ? scaled + widen(beta[at.second]) : scaled;
  }
};

template <typename T>
struct NormalizeGrad {
  using W = Wide<T>;
  const T *x, *dy, *gamma;
  const W *mean, *rstd, *sum_g, *sum_gx;
  W share;
  bool of_weights;
  explicit NormalizeGrad(const GroupedArguments& a)
      : x(static_cast<const T*>(a.x)),
        dy(static_cast<const T*>(a.dy)),
        gamma(static_cast<const T*>(a.gamma)),
        mean(static_cast<const W*>(a.mean)),
        rstd(static_cast<const W*>(a.rstd)),
        sum_g(static_cast<const W*>(a.sum_g)),
        sum_gx(static_cast<const W*>(a.sum_gx)),
        share(static_cast<W>(1.0 / a.elements_of_group)),
        of_weights(a.has_sums_of_weights) {}
  __device__ W of(W value, W d, Located at) const {
    const W centred = mean != nullptr ? value - mean[at.first] : value;
    const W average = sum_g != nullptr ? sum_g[at.first] * share : W(0);
    const W r = rstd[at.first], factor = widen(gamma[at.second]);
    const W slope = centred * r * (sum_gx[at.first] * share);
    return of_weights ? r * factor * (d - average - slope) : r * (d * factor - average - r * slope);
  }
};

// dy: the second operand of the elements, or none.
template <typename T, typename F, int kWidth, bool kHasDy>
__global__ void __launch_bounds__(kThreads)
    grouped(F f, const T* dy, const __grid_constant__ DimMap map, T* out, bool adds) {
  using W = Wide<T>;
  struct alignas(sizeof(T) * kWidth) Part {
    T values[kWidth];
  };
  const std::int64_t stride = std::int64_t{gridDim.x} * kThreads * kWidth;
  for (std::int64_t i = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) * kWidth;
       i < map.positions; i += stride) {
    const Part x = *reinterpret_cast<const Part*>(f.x + i);
    Part second, result;
    if constexpr (kHasDy) second = *reinterpret_cast<const Part*>(dy + i);
    if (adds) result = *reinterpret_cast<const Part*>(out + i);
    Located at = locate(map, i);
#pragma unroll
    for (int j = 0; j < kWidth; ++j) {
      W d = 0;
      if constexpr (kHasDy) d = widen(second.values[j]);
      put(&result.values[j], adds, f.of(widen(x.values[j]), d, at));
      at.first += map.strides[0][0];
      at.second += map.strides[1][0];
    }
    *reinterpret_cast<Part*>(out + i) = result;
  }
}

__device__ __forceinline__ double as_double(DType dtype, const void* data, std::int64_t i) {
  switch (dtype) {
    case DType::kF64:
      return static_cast<const double*>(data)[i];
    case DType::kF32:
      return static_cast<const float*>(data)[i];
    case DType::kBF16:
      return widen(static_cast<const __nv_bfloat16*>(data)[i]);
    case DType::kF16:
      return widen(static_cast<const __half*>(data)[i]);
    case DType::kI64:
    case DType::kI32:
    case DType::kBool:
    case DType::kE4M3:
    case DType::kE5M2:
    case DType::kU8:
      break;
  }
  return 0;
}

// dy may be wider than x, so its type is read when running; few elements need it.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    extremum_grad(const __grid_constant__ GroupedArguments a) {
  using W = Wide<T>;
  const std::int64_t stride = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < a.map.positions;
       i += stride) {
    const std::int64_t group = locate(a.map, i).first;
    const W x = widen(static_cast<const T*>(a.x)[i]), y = widen(static_cast<const T*>(a.y)[group]);
    double value = 0;
    if (x == y || (x != x && y != y))
      value = as_double(a.dy_dtype, a.dy, group) /
              static_cast<double>(static_cast<const W*>(a.count)[group]);
    put_as(a.dy_dtype, a.out, i, a.adds, value);
  }
}

// A pack stays in one run of the last dim.
template <typename T>
bool has_packs(const DimMap& map, std::initializer_list<const void*> operands) {
  if (map.dims == 0 || map.extents[0] % Pack<T>::kSize != 0) return false;
  return std::all_of(operands.begin(), operands.end(), [](const void* data) {
    return reinterpret_cast<std::uintptr_t>(data) % 16 == 0;
  });
}

template <typename T, typename F, bool kHasDy>
cudaError_t start(const GroupedArguments& a, cudaStream_t stream) {
  constexpr int kSize = Pack<T>::kSize;
  const auto* dy = static_cast<const T*>(a.dy);
  auto* out = static_cast<T*>(a.out);
  const F f(a);
  if (has_packs<T>(a.map, {a.x, a.dy, a.out}))
    grouped<T, F, kSize, kHasDy>
        <<<blocks_for(a.map.positions / kSize, kThreads), kThreads, 0, stream>>>(f, dy, a.map, out,
                                                                                 a.adds);
  else
    grouped<T, F, 1, kHasDy>
        <<<blocks_for(a.map.positions, kThreads), kThreads, 0, stream>>>(f, dy, a.map, out, a.adds);
  return cudaGetLastError();
}

}  // namespace

cudaError_t enqueue_grouped(const GroupedArguments& arguments, cudaStream_t stream) {
  if (arguments.map.positions == 0) return cudaSuccess;
  return with_floating_type(arguments.dtype, [&]<typename T>() {
    switch (arguments.op) {
      case GroupedOp::kSoftmax:
        return start<T, Softmax<T>, false>(arguments, stream);
      case GroupedOp::kSoftmaxGrad:
        return start<T, SoftmaxGrad<T>, true>(arguments, stream);
      case GroupedOp::kNormalize:
        return start<T, Normalize<T>, false>(arguments, stream);
      case GroupedOp::kNormalizeGrad:
        return start<T, NormalizeGrad<T>, true>(arguments, stream);
      case GroupedOp::kExtremumGrad:
        extremum_grad<T>
            <<<blocks_for(arguments.map.positions, kThreads), kThreads, 0, stream>>>(arguments);
        return cudaGetLastError();
    }
    return cudaErrorInvalidValue;
  });
}

}  // namespace sextant
