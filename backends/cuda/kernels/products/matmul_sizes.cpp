// Sizes read off operands.
#include "backends/cuda/kernels/products/matmul_sizes.h"

namespace sextant {
namespace {

std::int64_t last(const Shape& shape) { return shape[shape.rank() - 1]; }

// Product of all extents but the last `trailing`; elements / last would divide by zero.
std::int64_t leading(const Shape& shape, std::size_t trailing) {
  std::int64_t product = 1;
  for (std::size_t dim = 0; dim + trailing < shape.rank(); ++dim) product *= shape[dim];
  return product;
}

}  // namespace

MatmulSizes matmul_sizes(const TensorType& x, const TensorType& y, const Attributes& attributes) {
  return {.count = 1,
          .m = leading(x.shape, 1),
          .n = last(y.shape),
          .k = last(x.shape),
          .w_transposed = attributes.boolean_or("transpose_w", false)};
}

GradWeightSizes grad_weight_sizes(const TensorType& x, const TensorType& dy,
                                  const Attributes& attributes) {
  const bool swapped = attributes.boolean_or("transpose_w", false);
  const std::int64_t k = last(x.shape), n = last(dy.shape);
  return {.sizes = {.count = 1,
                    .m = swapped ? n : k,
                    .n = swapped ? k : n,
                    .k = leading(x.shape, 1),
                    .x_transposed = true},
          .swapped = swapped};
}

MatmulSizes batch_matmul_sizes(const TensorType& x, const TensorType& y,
                               const Attributes& attributes) {
  const std::size_t rank = y.shape.rank();
  const bool transposed = attributes.boolean_or("transpose_x", false);
  return {.count = leading(y.shape, 2),
          .m = y.shape[rank - 2],
          .n = y.shape[rank - 1],
          .k = x.shape[transposed ? rank - 2 : rank - 1],
          .x_transposed = transposed,
          .w_transposed = attributes.boolean_or("transpose_w", false)};
}

Product product_of(const MatmulSizes& sizes, DType in, DType out) {
  return {.m = sizes.n,
          .n = sizes.m,
          .k = sizes.k,
          .transpose_a = sizes.w_transposed,
          .transpose_b = sizes.x_transposed,
          .in = in,
          .out = out,
          .count = static_cast<std::int32_t>(sizes.count)};
}

bool has_product(DType in, DType out) {
  switch (in) {
    case DType::kF64:
    case DType::kF32:
      return out == in;
    case DType::kBF16:
    case DType::kF16:
      return out == in || out == DType::kF32;
    case DType::kE4M3:
    case DType::kE5M2:
    case DType::kU8:
    case DType::kI64:
    case DType::kI32:
    case DType::kBool:
      return false;
  }
  return false;
}

}  // namespace sextant
