// Operands and attributes of operators as products.
#include "backends/cuda/kernels/products/matmul_heads.h"

#include "backends/cuda/kernels/products/matmul_sizes.h"

namespace sextant {

std::optional<MatmulHead> matmul_head(const KernelContext& matmul, const KernelOperand& y) {
  const KernelOperand &x = matmul.in[0], &w = matmul.in[1];
  const MatmulSizes sizes = matmul_sizes(x.local, y.local, matmul.attributes());
  const DType in = x.local.dtype, out = y.local.dtype;
  if (sizes.is_empty() || w.local.dtype != in || matmul.out[0].local.dtype != out ||
      !has_product(in, out))
    return std::nullopt;
  return MatmulHead{product_of(sizes, in, out), {.a = w.data, .b = x.data, .d = y.data}};
}

bool add_bias(MatmulHead& head, const KernelContext& bias_add) {
  const KernelOperand& bias = bias_add.in[1];
  if (bias.local != TensorType{Shape{head.product.m}, head.product.out}) return false;
  head.product.epilogue = ProductEpilogue::kBias;
  head.addresses.bias = bias.data;
  return true;
}

std::optional<MatmulHead> grad_weight_head(const KernelContext& grad_weight) {
  const KernelOperand &x = grad_weight.in[0], &dy = grad_weight.in[1], &dw = grad_weight.out[0];
  const auto [sizes, swapped] = grad_weight_sizes(x.local, dy.local, grad_weight.attributes());
  const DType in = x.local.dtype, out = dw.local.dtype;
  if (sizes.is_empty() || dy.local.dtype != in || !has_product(in, out)) return std::nullopt;
  return MatmulHead{product_of(sizes, in, out),
                    {.a = swapped ? x.data : dy.data,
                     .b = swapped ? dy.data : x.data,
                     .c = grad_weight.accumulate[0] ? dw.data : nullptr,
                     .d = dw.data}};
}

// dy, where it is the second factor of the row-major product, is the first of the column-major.
void add_sum(MatmulHead& head, const KernelContext& grad_weight, void* sum) {
  const bool swapped =
      grad_weight_sizes(grad_weight.in[0].local, grad_weight.in[1].local, grad_weight.attributes())
          .swapped;
  head.product.epilogue = swapped ? ProductEpilogue::kSumOfB : ProductEpilogue::kSumOfA;
  head.addresses.bias = sum;
}

}  // namespace sextant
