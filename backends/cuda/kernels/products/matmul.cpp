// `matmul`, `matmul_grad_weight` and `batch_matmul`: through cuBLASLt where it knows the types, by
// the general kernel where it does not and for sums over nothing.
#include "backends/cuda/cuda_context.h"
#include "backends/cuda/cuda_kernel.h"
#include "backends/cuda/kernels/products/matmul_sizes.h"
#include "backends/cuda/kernels/shared/families.h"
#include "backends/cuda/kernels/shared/launch.h"
#include "backends/cuda/kernels/shared/tables.h"

#include <algorithm>

namespace sextant {
namespace {

// A call y = X W; the operands are in the order of the factors.
struct Matmul {
  MatmulSizes sizes;
  const KernelOperand& x;
  const KernelOperand& w;
  const KernelOperand& y;
  bool accumulate = false;
};

std::unique_ptr<CudaKernel> make_any(const Matmul& call) {
  const MatmulSizes& sizes = call.sizes;
  const std::int64_t k = sizes.k, m = sizes.m, n = sizes.n;
  return cuda_launch(
      enqueue_matmul_any,
      MatmulAnyArguments{.x = {call.x.data, call.x.local.dtype, sizes.x_size(),
                               sizes.x_transposed ? 1 : k, sizes.x_transposed ? m : 1},
                         .w = {call.w.data, call.w.local.dtype, sizes.w_size(),
                               sizes.w_transposed ? k : 1, sizes.w_transposed ? 1 : n},
                         .y = call.y.data,
                         .y_dtype = call.y.local.dtype,
                         .count = sizes.count,
                         .m = m,
                         .n = n,
                         .k = k,
                         .accumulate = call.accumulate});
}

// Nothing where cuBLASLt cannot. Long batches take several calls.
std::unique_ptr<CudaKernel> make_library(const Matmul& call, CudaContext& device) {
  const DType in = call.x.local.dtype, out = call.y.local.dtype;
  if (call.sizes.is_empty() || !has_product(in, out)) return nullptr;
  std::vector<std::unique_ptr<CudaKernel>> kernels;
  for (std::int64_t first = 0; first < call.sizes.count; first += kMostInBatch) {
    MatmulSizes sizes = call.sizes;
    sizes.count = std::min(kMostInBatch, call.sizes.count - first);
    const std::int64_t in_bytes = first * size_of(in).value;
    std::byte* const y = call.y.data + first * sizes.m * sizes.n * size_of(out).value;
    kernels.push_back(make_product(product_of(sizes, in, out),
                                   {.a = call.w.data + in_bytes * sizes.w_size(),
                                    .b = call.x.data + in_bytes * sizes.x_size(),
                                    .c = call.accumulate ? y : nullptr,
                                    .d = y},
                                   device));
    if (kernels.back() == nullptr) return nullptr;
  }
  return in_sequence(std::move(kernels));
}

std::unique_ptr<CudaKernel> make(const Matmul& call, CudaContext& device) {
  if (!is_floating(call.x.local.dtype) || call.w.local.dtype != call.x.local.dtype ||
      !is_floating(call.y.local.dtype))
    return nullptr;
  if (auto kernel = make_library(call, device)) return kernel;
  return make_any(call);
}

std::unique_ptr<CudaKernel> make_matmul(const KernelContext& call, CudaContext& device) {
  const KernelOperand &x = call.in[0], &w = call.in[1], &y = call.out[0];
  return make({matmul_sizes(x.local, y.local, call.attributes()), x, w, y, call.accumulate[0]},
              device);
}

std::unique_ptr<CudaKernel> make_grad_weight(const KernelContext& call, CudaContext& device) {
  const KernelOperand &x = call.in[0], &dy = call.in[1], &dw = call.out[0];
  const auto [sizes, swapped] = grad_weight_sizes(x.local, dy.local, call.attributes());
  return make({sizes, swapped ? dy : x, swapped ? x : dy, dw, call.accumulate[0]}, device);
}

std::unique_ptr<CudaKernel> make_batch_matmul(const KernelContext& call, CudaContext& device) {
  const KernelOperand &x = call.in[0], &w = call.in[1], &y = call.out[0];
  return make(
      {batch_matmul_sizes(x.local, y.local, call.attributes()), x, w, y, call.accumulate[0]},
      device);
}

}  // namespace

void add_cuda_matmul(CudaKernelTable& table) {
  table.add("matmul", make_matmul);
  table.add("matmul_grad_weight", make_grad_weight);
  table.add("batch_matmul", make_batch_matmul);
}

}  // namespace sextant
