// `scaled_matmul`, alone and with a sum behind it: through cuBLASLt, which on Hopper takes operands
// of 8 bits only with what is summed over contiguous in both (transposed A, plain B in its order)
// and with extents of whole 16 bytes; by the general kernel elsewhere.
//
// Sums of forward products, whose operands are both e4m3 and whose results have 16 bits, may stay
// in the tensor cores' registers; those of gradients are carried to f32 on the way, as Transformer
// Engine, XLA and torchao have it.
#include "backends/cuda/cuda_check.h"
#include "backends/cuda/cuda_context.h"
#include "backends/cuda/cuda_kernel.h"
#include "backends/cuda/kernels/products/product.h"
#include "backends/cuda/kernels/products/scaled_any.h"
#include "backends/cuda/kernels/shared/families.h"
#include "backends/cuda/kernels/shared/launch.h"
#include "backends/cuda/kernels/shared/member_calls.h"
#include "core/base/check.h"

#include <fmt/core.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace sextant {
namespace {

constexpr std::int64_t kStep = 16;

struct ScaledSizes {
  std::int64_t m = 0, n = 0, k = 1;
};

ScaledSizes sizes_of(const KernelContext& call) {
  const Shape& b = call.in[1].local.shape;
  const Shape& y = call.out[0].local.shape;
  ScaledSizes sizes;
  for (std::size_t dim = 1; dim < b.rank(); ++dim) sizes.k *= b[dim];
  sizes.n = b[0];
  sizes.m = sizes.n == 0 ? 0 : y.elements() / sizes.n;
  return sizes;
}

bool suits_library(const ScaledSizes& sizes, DType out) {
  const bool is_whole = sizes.m % kStep == 0 && sizes.n % kStep == 0 && sizes.k % kStep == 0;
  return is_whole && sizes.m * sizes.n * sizes.k > 0 &&
         (out == DType::kF32 || out == DType::kBF16 || out == DType::kF16);
}

// Row-major y is column-major y^T = b a^T: b comes first.
std::unique_ptr<CudaKernel> make_library(const KernelContext& call, const KernelOperand& y,
                                         const void* added, CudaContext& device) {
  const ScaledSizes sizes = sizes_of(call);
  const DType out = y.local.dtype;
  if (!suits_library(sizes, out)) return nullptr;
  const KernelOperand &a = call.in[0], &b = call.in[1];
  const bool is_forward = a.local.dtype == DType::kE4M3 && b.local.dtype == DType::kE4M3;
  const Product product = {.m = sizes.n,
                           .n = sizes.m,
                           .k = sizes.k,
                           .transpose_a = true,
                           .in = b.local.dtype,
                           .b_in = a.local.dtype,
                           .out = out,
                           .fast_sums = is_forward && size_of(out).value == 2};
  return make_product(product,
                      {.a = b.data,
                       .b = a.data,
                       .c = added,
                       .d = y.data,
                       .a_scale = data_of<const float>(call.in[3]),
                       .b_scale = data_of<const float>(call.in[2])},
                      device);
}

// Ada and Hopper are the first to multiply 8 bits. The general kernel would take minutes where a
// user asked for speed.
void require_8_bit_units(const KernelContext& call) {
  int device = 0, major = 0, minor = 0;
  SEXTANT_CUDA(cudaGetDevice(&device));
  SEXTANT_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  SEXTANT_CUDA(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
  require(
      10 * major + minor >= 89, ErrorCode::kDevice,
      "operator '{}' ({}): this card has no products of 8 bits: its compute capability is {}.{}, "
      "wanted 8.9 or more",
      call.actor->name, call.actor->kind, major, minor);
}

// Once for all products of these sizes.
void tell_slow(const ScaledSizes& sizes, CudaContext& device) {
  const std::string text = fmt::format(
      "products of {} x {} x {} in 8 bits go slowly: cuBLASLt wants what a device has of them in "
      "multiples of {}",
      sizes.m, sizes.n, sizes.k, kStep);
  std::shared_ptr<void>& told = device.shared(text);
  if (told != nullptr || sizes.m * sizes.n * sizes.k == 0) return;
  told = std::make_shared<bool>(true);
  device.note(text);
}

std::unique_ptr<CudaKernel> make_scaled(const KernelContext& call, CudaContext& device) {
  require_8_bit_units(call);
  const KernelOperand& y = call.out[0];
  if (auto kernel = make_library(call, y, call.accumulate[0] ? y.data : nullptr, device))
    return kernel;
  const ScaledSizes sizes = sizes_of(call);
  tell_slow(sizes, device);
  return cuda_launch(enqueue_scaled_any,
                     ScaledAnyArguments{.a = call.in[0].data,
                                        .b = call.in[1].data,
                                        .a_dtype = call.in[0].local.dtype,
                                        .b_dtype = call.in[1].local.dtype,
                                        .a_scale = data_of<const float>(call.in[2]),
                                        .b_scale = data_of<const float>(call.in[3]),
                                        .y = y.data,
                                        .y_dtype = y.local.dtype,
                                        .m = sizes.m,
                                        .n = sizes.n,
                                        .k = sizes.k,
                                        .accumulate = call.accumulate[0]});
}

// Nothing where what is added is stretched, or where somebody else reads the product.
std::unique_ptr<CudaKernel> make_scaled_add(const KernelContext& call, CudaContext& device) {
  MemberCalls members(call);
  const KernelContext &product = members[0], &add = members[1];
  const KernelOperand& other = add.in[add.in[0].data != nullptr ? 0 : 1];
  if (product.out[0].data != nullptr || product.out[0].local != add.out[0].local ||
      other.local != add.out[0].local || add.accumulate[0])
    return nullptr;
  return make_library(product, add.out[0], other.data, device);
}

}  // namespace

void add_cuda_scaled_matmul(CudaKernelTable& table) {
  table.add("scaled_matmul", make_scaled);
  table.add("scaled_matmul_add", make_scaled_add);
}

}  // namespace sextant
