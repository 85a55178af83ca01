// Products through CBLAS on the calling thread. OpenBLAS keeps a buffer of 32 MiB per thread, of
// which a product touches a few MiB; no plan counts it.
#pragma once

#include "backends/cpu/kernels/fast/product.h"

namespace sextant {

// True when the program was built with a BLAS; the first call makes OpenBLAS fit the processor.
bool has_blas_product();

void blas_product(const Product<float>& product);
void blas_product(const Product<double>& product);

}  // namespace sextant
