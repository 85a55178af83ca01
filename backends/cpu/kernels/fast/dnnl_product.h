// Products in float through oneDNN on the calling thread. It allocates a few MiB while a product
// runs, which no plan counts.
#pragma once

#include "backends/cpu/kernels/fast/product.h"

namespace sextant {

// True when the program was built with oneDNN.
bool has_dnnl_product();

void dnnl_product(const Product<float>& product);

}  // namespace sextant
