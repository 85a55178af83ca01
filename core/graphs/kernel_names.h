// The names that operators give their kernels in Work::kernel (core/graphs/work.h).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

// All but matmuls, whose names are "matmul:MxNxK".
const std::vector<std::string>& kernel_families();

// Extents of a name "matmul:MxNxK"; nothing for other names. Throws Error(kBadInput) for one that
// does not parse.
struct MatmulExtents {
  double m = 0, n = 0, k = 0;
};
std::optional<MatmulExtents> matmul_extents(std::string_view kernel);

// Throws Error(kBadInput) for a name that no operator gives, with the nearest.
void require_kernel_name(std::string_view kernel);

}  // namespace sextant
