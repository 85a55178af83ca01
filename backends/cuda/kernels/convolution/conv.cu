// Direct convolutions: a thread per element of y or dx, a block per element of dw. General rather
// than fast: any number of spatial dims, groups, strides, dilations, parts.
#include "backends/cuda/kernels/convolution/windows.cuh"
#include "backends/cuda/kernels/shared/elements.cuh"
#include "backends/cuda/kernels/shared/grid.h"
#include "backends/cuda/kernels/shared/numbers.cuh"
#include "backends/cuda/kernels/shared/reduce.cuh"

namespace sextant {
namespace {

constexpr int kThreads = 256;

template <typename T>
__global__ void __launch_bounds__(kThreads) conv(const __grid_constant__ CudaConv c) {
  const CudaWindows& windows = c.windows;
  const std::int64_t per_group = c.channels / c.groups, outputs = c.outputs / c.groups;
  const std::int64_t count = c.n * c.outputs * windows.y_positions;
  const std::int64_t stride = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += stride) {
    const std::int64_t plane = i / windows.y_positions, y = i - plane * windows.y_positions;
    const std::int64_t sample = plane / c.outputs, output = plane - sample * c.outputs;
    const std::int64_t channel = sample * c.channels + output / outputs * per_group;
    const T* x = static_cast<const T*>(c.x) + channel * windows.x_positions;
    const T* w = static_cast<const T*>(c.w) + output * per_group * windows.taps;
    Wide<T> sum = 0;
    for (std::int64_t tap = 0; tap < windows.taps; ++tap) {
      const std::int64_t at = position_read(windows, y, tap);
      if (at < 0) continue;
      for (std::int64_t k = 0; k < per_group; ++k)
        sum += widen(x[k * windows.x_positions + at]) * widen(w[k * windows.taps + tap]);
    }
    put_number(c.to_type, c.to, i, sum, c.accumulate);
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads) conv_grad_input(const __grid_constant__ CudaConv c) {
  const CudaWindows& windows = c.windows;
  const std::int64_t per_group = c.channels / c.groups, outputs = c.outputs / c.groups;
  const std::int64_t count = c.n * c.channels * windows.x_positions;
  const std::int64_t stride = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += stride) {
    const std::int64_t plane = i / windows.x_positions, x = i - plane * windows.x_positions;
    const std::int64_t sample = plane / c.channels, channel = plane - sample * c.channels;
    const std::int64_t group = channel / per_group, in_group = channel - group * per_group;
    const T* dy =
        static_cast<const T*>(c.y) + (sample * c.outputs + group * outputs) * windows.y_positions;
    const T* w =
        static_cast<const T*>(c.w) + (group * outputs * per_group + in_group) * windows.taps;
    Wide<T> sum = 0;
    for (std::int64_t tap = 0; tap < windows.taps; ++tap) {
      const std::int64_t at = window_reading(windows, x, tap);
      if (at < 0) continue;
      for (std::int64_t o = 0; o < outputs; ++o)
        sum +=
            widen(dy[o * windows.y_positions + at]) * widen(w[o * per_group * windows.taps + tap]);
    }
    put_number(c.to_type, c.to, i, sum, c.accumulate);
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads) conv_grad_weight(const __grid_constant__ CudaConv c) {
  const CudaWindows& windows = c.windows;
  const std::int64_t per_group = c.channels / c.groups, outputs = c.outputs / c.groups;
  const std::int64_t count = c.outputs * per_group * windows.taps;
  for (std::int64_t i = blockIdx.x; i < count; i += gridDim.x) {
    const std::int64_t pair = i / windows.taps, tap = i - pair * windows.taps;
    const std::int64_t output = pair / per_group, in_group = pair - output * per_group;
    const std::int64_t channel = output / outputs * per_group + in_group;
    Wide<T> sum = 0;
    for (std::int64_t y = threadIdx.x; y < windows.y_positions; y += kThreads) {
      const std::int64_t at = position_read(windows, y, tap);
      if (at < 0) continue;
      for (std::int64_t sample = 0; sample < c.n; ++sample)
        sum += widen(static_cast<const T*>(
                   c.x)[(sample * c.channels + channel) * windows.x_positions + at]) *
               widen(static_cast<const T*>(
                   c.y)[(sample * c.outputs + output) * windows.y_positions + y]);
    }
    sum = over_group<kThreads>(sum, Plus());
    if (threadIdx.x == 0) put_number(c.to_type, c.to, i, sum, c.accumulate);
  }
}

__global__ void __launch_bounds__(kThreads) put_result(CudaConvResult x) {
  const std::int64_t stride = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < x.elements;
       i += stride)
    put_number(x.to_type, x.to, i, load_number<float>(x.from_type, x.from, i), x.accumulate);
}

template <CudaConvMade which>
struct Start {
  const CudaConv& c;
  cudaStream_t stream;
  template <typename T>
  cudaError_t operator()() const {
    const auto blocks_of = [](std::int64_t count) { return blocks_for(count, kThreads); };
    if constexpr (which == CudaConvMade::kY)
      conv<T><<<blocks_of(c.n * c.outputs * c.windows.y_positions), kThreads, 0, stream>>>(c);
    else if constexpr (which == CudaConvMade::kX)
      conv_grad_input<T>
          <<<blocks_of(c.n * c.channels * c.windows.x_positions), kThreads, 0, stream>>>(c);
    else
      conv_grad_weight<T>
          <<<limited(c.outputs * (c.channels / c.groups) * c.windows.taps), kThreads, 0, stream>>>(
              c);
    return cudaGetLastError();
  }
};

}  // namespace

cudaError_t enqueue_conv(const CudaConv& conv, cudaStream_t stream) {
  if (conv.n * conv.outputs * conv.windows.y_positions == 0) return cudaSuccess;
  return with_floating_type(conv.type, Start<CudaConvMade::kY>{conv, stream});
}

cudaError_t enqueue_conv_grad_input(const CudaConv& conv, cudaStream_t stream) {
  if (conv.n * conv.channels * conv.windows.x_positions == 0) return cudaSuccess;
  return with_floating_type(conv.type, Start<CudaConvMade::kX>{conv, stream});
}

cudaError_t enqueue_conv_grad_weight(const CudaConv& conv, cudaStream_t stream) {
  if (conv.outputs * (conv.channels / conv.groups) * conv.windows.taps == 0) return cudaSuccess;
  return with_floating_type(conv.type, Start<CudaConvMade::kW>{conv, stream});
}

cudaError_t enqueue_conv_result(const CudaConvResult& result, cudaStream_t stream) {
  if (result.elements == 0) return cudaSuccess;
  put_result<<<blocks_for(result.elements, kThreads), kThreads, 0, stream>>>(result);
  return cudaGetLastError();
}

}  // namespace sextant
