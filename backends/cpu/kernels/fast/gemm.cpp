// CBLAS calls. OpenBLAS is told once to use the calling thread only.
#include "backends/cpu/kernels/fast/gemm.h"

#ifdef SEXTANT_HAS_BLAS

#include <cblas.h>

#include <algorithm>

// Missing in a BLAS that is not OpenBLAS; such a one chooses its threads itself.
extern "C" void openblas_set_num_threads(int) __attribute__((weak));

namespace sextant {
namespace {

void use_one_thread() {
  static const bool done = [] {
    if (openblas_set_num_threads != nullptr) openblas_set_num_threads(1);
    return true;
  }();
  static_cast<void>(done);
}

CBLAS_TRANSPOSE transpose_of(bool transposed) { return transposed ? CblasTrans : CblasNoTrans; }

// CBLAS wants leading extents of at least one, also of empty matrices.
int leading(std::int64_t value) { return static_cast<int>(std::max<std::int64_t>(value, 1)); }

}  // namespace

bool has_gemm() { return true; }

void gemm(std::int64_t m, std::int64_t n, std::int64_t k, float alpha, MatrixView<float> a,
          MatrixView<float> b, float beta, float* c, std::int64_t leading_c) {
  use_one_thread();
  if (m == 0 || n == 0) return;
  cblas_sgemm(CblasRowMajor, transpose_of(a.transposed), transpose_of(b.transposed),
              static_cast<int>(m), static_cast<int>(n), static_cast<int>(k), alpha, a.data,
              leading(a.leading), b.data, leading(b.leading), beta, c, leading(leading_c));
}

void gemm(std::int64_t m, std::int64_t n, std::int64_t k, double alpha, MatrixView<double> a,
          MatrixView<double> b, double beta, double* c, std::int64_t leading_c) {
  use_one_thread();
  if (m == 0 || n == 0) return;
  cblas_dgemm(CblasRowMajor, transpose_of(a.transposed), transpose_of(b.transposed),
              static_cast<int>(m), static_cast<int>(n), static_cast<int>(k), alpha, a.data,
              leading(a.leading), b.data, leading(b.leading), beta, c, leading(leading_c));
}

}  // namespace sextant

#else

#include "core/base/check.h"

namespace sextant {

bool has_gemm() { return false; }

void gemm(std::int64_t, std::int64_t, std::int64_t, float, MatrixView<float>, MatrixView<float>,
          float, float*, std::int64_t) {
  fail(ErrorCode::kInternal, "built without BLAS");
}

void gemm(std::int64_t, std::int64_t, std::int64_t, double, MatrixView<double>, MatrixView<double>,
          double, double*, std::int64_t) {
  fail(ErrorCode::kInternal, "built without BLAS");
}

}  // namespace sextant

#endif
