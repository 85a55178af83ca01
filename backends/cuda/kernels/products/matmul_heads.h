// The products that matmuls and gradients of weights begin with, for kernels that add an epilogue
// or make several at once.
#pragma once

#include "actor/calls/kernel_context.h"
#include "backends/cuda/kernels/products/product.h"

#include <optional>

namespace sextant {

struct MatmulHead {
  Product product;
  ProductAddresses addresses;
};

// The product of a matmul, written to `y`, which has its shape and type. Nothing for what cuBLASLt
// cannot.
std::optional<MatmulHead> matmul_head(const KernelContext& matmul, const KernelOperand& y);

// False where b is no vector along the last dim.
bool add_bias(MatmulHead& head, const KernelContext& bias_add);

// dw = x^T dy, added to what is there where it accumulates. Nothing for what cuBLASLt cannot.
std::optional<MatmulHead> grad_weight_head(const KernelContext& grad_weight);
// The sum of the rows of dy as its epilogue, written to `sum`.
void add_sum(MatmulHead& head, const KernelContext& grad_weight, void* sum);

}  // namespace sextant
