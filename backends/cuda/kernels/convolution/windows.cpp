// Which operators work on windows: convolutions, pools, their gradients.
#include "backends/cuda/kernels/convolution/windows.h"

#include "backends/cuda/cuda_kernel.h"
#include "backends/cuda/kernels/convolution/conv_cudnn.h"
#include "backends/cuda/kernels/shared/families.h"
#include "backends/cuda/kernels/shared/launch.h"
#include "core/base/check.h"
#include "core/operators/layers/windows.h"

#include <cstddef>
#include <vector>

namespace sextant {
namespace {

using Made = std::unique_ptr<CudaKernel>;

CudaWindows windows_of(const Windows& windows, const KernelOperand& x, const KernelOperand& y) {
  require(windows.rank() <= static_cast<std::size_t>(kMostSpatialDims), ErrorCode::kInternal,
          "{} spatial dims", windows.rank());
  CudaWindows made;
  made.rank = static_cast<int>(windows.rank());
  for (std::size_t dim = 0; dim < windows.rank(); ++dim) {
    const Interval& in_x = x.box.dims[kFirstSpatialDim + dim];
    const Interval& in_y = y.box.dims[kFirstSpatialDim + dim];
    made.dims[dim] = {windows.kernel[dim],   windows.stride[dim], windows.padding[dim],
                      windows.dilation[dim], in_x.offset,         in_x.extent,
                      in_y.offset,           in_y.extent};
    made.x_positions *= in_x.extent;
    made.y_positions *= in_y.extent;
    made.taps *= windows.kernel[dim];
  }
  return made;
}

// The three tensors of a convolution; one of them is the output.
CudaConv conv_of(const KernelContext& call, const KernelOperand& x, const KernelOperand& w,
                 const KernelOperand& y) {
  const Shape &xs = x.local.shape, &ws = w.local.shape, &ys = y.local.shape;
  CudaConv conv;
  conv.windows =
      windows_of(Windows(call.actor->kind, call.attributes(), spatial_extents(ws)), x, y);
  conv.n = xs[0];
  conv.channels = xs[1];
  conv.outputs = ws[0];
  // Of parts without channels or outputs there are no products; what they leave is zero.
  const bool is_empty = ws[1] == 0 || ws[0] == 0 || xs[1] == 0;
  if (!is_empty) {
    conv.groups = xs[1] / ws[1];
    require(conv.groups * ws[1] == xs[1] && conv.groups > 0 && ws[0] % conv.groups == 0 &&
                ys[1] == ws[0],
            ErrorCode::kInternal, "channels of x {}, w {} and y {} do not belong together",
            to_string(xs), to_string(ws), to_string(ys));
  }
  conv.to = call.out[0].data;
  conv.type = call.in[0].local.dtype;
  conv.to_type = call.out[0].local.dtype;
  conv.accumulate = call.accumulate[0];
  conv.x_channels_last = x.channels_last;
  conv.y_channels_last = y.channels_last;
  return conv;
}

bool has_one_input_type(const KernelContext& call) {
  return call.in[0].local.dtype == call.in[1].local.dtype;
}

// It reads row-major tensors.
Made own_kernel(cudaError_t (*enqueue)(const CudaConv&, cudaStream_t), const CudaConv& conv) {
  if (conv.x_channels_last || conv.y_channels_last) return nullptr;
  return cuda_launch(enqueue, conv);
}

Made make_conv(const KernelContext& call, CudaContext& device) {
  if (!has_one_input_type(call)) return nullptr;
  CudaConv conv = conv_of(call, call.in[0], call.in[1], call.out[0]);
  conv.outputs = call.out[0].local.shape[1];
  conv.x = call.in[0].data;
  conv.w = call.in[1].data;
  if (auto kernel = make_cudnn_conv(conv, CudaConvMade::kY, device)) return kernel;
  return own_kernel(enqueue_conv, conv);
}

Made make_conv_grad_input(const KernelContext& call, CudaContext& device) {
  if (!has_one_input_type(call)) return nullptr;
  CudaConv conv = conv_of(call, call.out[0], call.in[1], call.in[0]);
  conv.y = call.in[0].data;
  conv.w = call.in[1].data;
  if (auto kernel = make_cudnn_conv(conv, CudaConvMade::kX, device)) return kernel;
  return own_kernel(enqueue_conv_grad_input, conv);
}

Made make_conv_grad_weight(const KernelContext& call, CudaContext& device) {
  if (!has_one_input_type(call)) return nullptr;
  CudaConv conv = conv_of(call, call.in[0], call.out[0], call.in[1]);
  conv.x = call.in[0].data;
  conv.y = call.in[1].data;
  if (auto kernel = make_cudnn_conv(conv, CudaConvMade::kW, device)) return kernel;
  return own_kernel(enqueue_conv_grad_weight, conv);
}

CudaPool pool_of(const KernelContext& call, const KernelOperand& x, const KernelOperand& y) {
  const std::vector<std::int64_t>& kernel = call.attributes().integers("kernel");
  CudaPool pool;
  pool.windows = windows_of(Windows(call.actor->kind, call.attributes(), kernel, kernel), x, y);
  pool.samples = x.local.shape[0];
  pool.planes = x.local.shape[0] * x.local.shape[1];
  pool.channels_last = x.channels_last;
  pool.to = call.out[0].data;
  pool.type = call.in[0].local.dtype;
  pool.to_type = call.out[0].local.dtype;
  pool.count_padding = call.attributes().boolean_or("count_padding", false);
  pool.accumulate = call.accumulate[0];
  return pool;
}

// The faster kernel, or else `general`, which knows row-major tensors alone.
Made max_kernel(const CudaPool& pool, cudaError_t (*general)(const CudaPool&, cudaStream_t)) {
  if (is_max_of_planes(pool)) return cuda_launch(enqueue_max_of_planes, pool);
  return pool.channels_last ? nullptr : cuda_launch(general, pool);
}

Made make_max_pool(const KernelContext& call, CudaContext& /*device*/) {
  CudaPool pool = pool_of(call, call.in[0], call.out[0]);
  pool.x = call.in[0].data;
  return max_kernel(pool, enqueue_max_pool);
}

// A mean counts the positions inside the global tensor.
void set_global_extents(const KernelOperand& x, CudaPool& pool) {
  for (int dim = 0; dim < pool.windows.rank; ++dim)
    pool.windows.dims[dim].x_global =
        x.layout->global.shape[kFirstSpatialDim + static_cast<std::size_t>(dim)];
}

Made make_avg_pool(const KernelContext& call, CudaContext& /*device*/) {
  CudaPool pool = pool_of(call, call.in[0], call.out[0]);
  set_global_extents(call.in[0], pool);
  pool.x = call.in[0].data;
  return cuda_launch(enqueue_avg_pool, pool);
}

Made make_max_pool_grad(const KernelContext& call, CudaContext& /*device*/) {
  if (!has_one_input_type(call)) return nullptr;
  CudaPool pool = pool_of(call, call.in[0], call.in[1]);
  pool.x = call.in[0].data;
  pool.dy = call.in[1].data;
  return max_kernel(pool, enqueue_max_pool_grad);
}

Made make_avg_pool_grad(const KernelContext& call, CudaContext& /*device*/) {
  CudaPool pool = pool_of(call, call.out[0], call.in[0]);
  set_global_extents(call.out[0], pool);
  pool.dy = call.in[0].data;
  return cuda_launch(enqueue_avg_pool_grad, pool);
}

}  // namespace

void add_cuda_windows(CudaKernelTable& table) {
  constexpr auto kTakes = CudaKernelTable::Takes::kChannelsLast;
  table.add("conv", make_conv, kTakes);
  table.add("conv_grad_input", make_conv_grad_input, kTakes);
  table.add("conv_grad_weight", make_conv_grad_weight, kTakes);
  table.add("max_pool", make_max_pool, kTakes);
  table.add("avg_pool", make_avg_pool);
  table.add("max_pool_grad", make_max_pool_grad, kTakes);
  table.add("avg_pool_grad", make_avg_pool_grad);
}

}  // namespace sextant
