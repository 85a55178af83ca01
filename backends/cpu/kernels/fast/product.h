// One product of row-major matrices, as libraries take it.
#pragma once

#include <cstdint>

namespace sextant {

// c [m, n] = alpha a [m, k] b [k, n] + beta c; leading extents are at least 1, m and n too.
template <typename T>
struct Product {
  struct Operand {
    const T* data = nullptr;
    std::int64_t leading = 1;
    bool transposed = false;
  };
  std::int64_t m = 0, n = 0, k = 0;
  T alpha = 1;
  Operand a, b;
  T beta = 0;
  T* c = nullptr;
  std::int64_t leading_c = 1;
};

}  // namespace sextant
