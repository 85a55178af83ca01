// The checked-in list of what CUDA has no kernel for.
#pragma once

#include <map>
#include <string>

namespace sextant {

// "matmul" or "matmul f64" or "matmul f64 accumulated" -> reason, of missing_kernels.txt.
const std::map<std::string, std::string>& missing_kernels();

// Parts of errors by which kernels refuse calls, of lines "refusal 'TEXT': reason".
const std::map<std::string, std::string>& stated_limits();

}  // namespace sextant
