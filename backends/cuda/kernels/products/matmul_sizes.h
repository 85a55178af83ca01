// The products that operators ask for, in cuBLASLt's terms and in those of the general kernel.
#pragma once

#include "backends/cuda/kernels/products/matmul_any.h"
#include "backends/cuda/kernels/products/product.h"

#include <cstdint>

namespace sextant {

// y[m, n] = X[m, k] W[k, n] per element of a batch, y row-major. A factor may be stored transposed.
struct MatmulSizes {
  std::int64_t count = 1, m = 0, n = 0, k = 0;
  bool x_transposed = false, w_transposed = false;

  bool is_empty() const { return count == 0 || m == 0 || n == 0 || k == 0; }
  std::int64_t x_size() const { return m * k; }
  std::int64_t w_size() const { return k * n; }
};

// `x` and `w` are operands of matmul: leading dims of x are rows.
MatmulSizes matmul_sizes(const TensorType& x, const TensorType& y, const Attributes& attributes);
// dw = x^T dy; where it is wanted transposed it is dy^T x.
struct GradWeightSizes {
  MatmulSizes sizes;
  bool swapped = false;  // dy is the first factor
};
GradWeightSizes grad_weight_sizes(const TensorType& x, const TensorType& dy,
                                  const Attributes& attributes);
MatmulSizes batch_matmul_sizes(const TensorType& x, const TensorType& y,
                               const Attributes& attributes);

// Row-major y is column-major y^T = W^T X^T: cuBLASLt gets w first. Not for empty ones, nor for
// more than kMostInBatch.
inline constexpr std::int64_t kMostInBatch = 65535;
Product product_of(const MatmulSizes& sizes, DType in, DType out);
// Whether cuBLASLt multiplies these types.
bool has_product(DType in, DType out);

}  // namespace sextant
