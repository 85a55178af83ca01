// Chooses the library of a product: oneDNN for float where it is there, else CBLAS. oneDNN goes by
// what the processor can do, OpenBLAS by a list of models that a newer one is not on.
#include "backends/cpu/kernels/fast/gemm.h"

#include "backends/cpu/kernels/fast/blas_product.h"
#include "backends/cpu/kernels/fast/dnnl_product.h"
#include "core/base/check.h"

#include <algorithm>

namespace sextant {
namespace {

constexpr std::int64_t kLeastOfExtent = 256, kMostPieces = 64;
constexpr double kLeastFlops = 32e6;

// Libraries want leading extents of at least one, also of empty matrices.
template <typename T>
Product<T> product_of(std::int64_t m, std::int64_t n, std::int64_t k, T alpha, MatrixView<T> a,
                      MatrixView<T> b, T beta, T* c, std::int64_t leading_c) {
  const auto leading = [](std::int64_t value) { return std::max<std::int64_t>(value, 1); };
  return {m,
          n,
          k,
          alpha,
          {a.data, leading(a.leading), a.transposed},
          {b.data, leading(b.leading), b.transposed},
          beta,
          c,
          leading(leading_c)};
}

}  // namespace

// Products in double and everything else that has no other library need CBLAS.
bool has_gemm() { return has_blas_product(); }

std::int64_t gemm_pieces(std::int64_t extent, double flops) {
  std::int64_t pieces = 1;
  while (pieces < kMostPieces && extent >= 2 * pieces * kLeastOfExtent &&
         flops >= static_cast<double>(2 * pieces) * kLeastFlops)
    pieces *= 2;
  return pieces;
}

void gemm(std::int64_t m, std::int64_t n, std::int64_t k, float alpha, MatrixView<float> a,
          MatrixView<float> b, float beta, float* c, std::int64_t leading_c) {
  if (m == 0 || n == 0) return;
  const Product<float> product = product_of(m, n, k, alpha, a, b, beta, c, leading_c);
  if (k > 0 && has_dnnl_product())
    dnnl_product(product);
  else
    blas_product(product);
}

void gemm(std::int64_t m, std::int64_t n, std::int64_t k, double alpha, MatrixView<double> a,
          MatrixView<double> b, double beta, double* c, std::int64_t leading_c) {
  if (m == 0 || n == 0) return;
  blas_product(product_of(m, n, k, alpha, a, b, beta, c, leading_c));
}

}  // namespace sextant
