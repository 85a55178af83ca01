// Row-major matrix product through CBLAS, for float and double. Single-threaded: ranks are threads.
#pragma once

#include <cstdint>

namespace sextant {

// True when the program was built with a BLAS.
bool has_gemm();

template <typename T>
struct MatrixView {
  const T* data = nullptr;
  std::int64_t leading = 0;  // elements from row to row, as stored
  bool transposed = false;   // the product uses the transpose of what is stored
};

// c [m, n] = alpha a [m, k] b [k, n] + beta c. Any extent may be 0.
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, float alpha, MatrixView<float> a,
          MatrixView<float> b, float beta, float* c, std::int64_t leading_c);
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, double alpha, MatrixView<double> a,
          MatrixView<double> b, double beta, double* c, std::int64_t leading_c);

}  // namespace sextant
