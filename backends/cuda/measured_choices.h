// What was measured on a card and decides how kernels run, once for all ranks of a job: of several
// ways that round differently all take the same, so that copies of one value have equal bits.
#pragma once

#include "backends/cuda/kernels/products/product.h"

#include <cublasLt.h>

#include <cstddef>
#include <map>
#include <mutex>
#include <string>

namespace sextant {

struct ProductChoice {
  cublasLtMatmulAlgo_t algorithm{};
  double seconds = 0;  // 0: not measured
};

struct MeasuredChoices {
  // Held while a rank measures: the others wait for what it finds.
  std::mutex mutex;
  bool has_read_file = false;
  std::map<std::string, ProductChoice> products;  // measured, here or when the file was made
  // The number of the fastest plan that a library proposes, by what the plans are for.
  std::map<std::string, std::size_t> plans;
};

}  // namespace sextant
