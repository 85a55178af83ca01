// Row-major matrix products for float and double, through oneDNN (float) or CBLAS.
#pragma once

#include "backends/cpu/kernels/shared/workspace.h"

#include <cstdint>

namespace sextant {

// True when the program was built with a BLAS. The first call, or the first product, chooses its
// kernels where it has not: it sets a variable of the environment for a moment and starts the
// library anew, which is safe only while no other thread reads the one or uses the other. `main`
// calls it first.
bool has_gemm();

template <typename T>
struct MatrixView {
  const T* data = nullptr;
  std::int64_t leading = 0;  // elements from row to row, as stored
  bool transposed = false;   // the product uses the transpose of what is stored
};

// c [m, n] = alpha a [m, k] b [k, n] + beta c, on the calling thread alone. Any extent may be 0.
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, float alpha, MatrixView<float> a,
          MatrixView<float> b, float beta, float* c, std::int64_t leading_c);
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, double alpha, MatrixView<double> a,
          MatrixView<double> b, double beta, double* c, std::int64_t leading_c);

// Pieces of an extent, a power of two: as many as leave each piece `least` of the extent and 32
// MFLOP. They depend on the product alone, so its bits do not depend on the number of threads.
std::int64_t gemm_pieces(std::int64_t extent, double flops);

// c = a b + beta c as above, the longer side of c in pieces on the team.
template <typename T>
void gemm(Workspace& workspace, std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<T> a,
          MatrixView<T> b, T beta, T* c, std::int64_t leading_c) {
  const double flops =
      2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  const bool by_rows = m > n;
  const std::int64_t extent = by_rows ? m : n;
  const std::int64_t pieces = gemm_pieces(extent, flops);
  workspace.run(pieces, [&](std::int64_t piece, std::int64_t) {
    const std::int64_t first = extent * piece / pieces,
                       length = extent * (piece + 1) / pieces - first;
    if (by_rows) {
      const MatrixView<T> rows{a.data + first * (a.transposed ? 1 : a.leading), a.leading,
                               a.transposed};
      gemm(length, n, k, T{1}, rows, b, beta, c + first * leading_c, leading_c);
    } else {
      const MatrixView<T> columns{b.data + first * (b.transposed ? b.leading : 1), b.leading,
                                  b.transposed};
      gemm(m, length, k, T{1}, a, columns, beta, c + first, leading_c);
    }
  });
}

}  // namespace sextant
