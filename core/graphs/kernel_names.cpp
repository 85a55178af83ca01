// Names of kernels: families, and matmuls with their extents.
#include "core/graphs/kernel_names.h"

#include "core/base/check.h"
#include "core/base/nearest.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>

namespace sextant {

namespace {

constexpr std::string_view kMatmulPrefix = "matmul:";

MatmulExtents parse_extents(std::string_view kernel) {
  std::array<std::int64_t, 3> extents{};
  const char* at = kernel.data() + kMatmulPrefix.size();
  const char* const end = kernel.data() + kernel.size();
  bool good = true;
  for (std::size_t i = 0; i < extents.size() && good; ++i) {
    const auto [next, error] = std::from_chars(at, end, extents[i]);
    const bool last = i + 1 == extents.size();
    good = error == std::errc() && extents[i] >= 0 && (last ? next == end : next != end);
    good = good && (last || *next == 'x');
    at = last ? next : next + 1;
  }
  require(good, ErrorCode::kBadInput, "kernel key '{}' is not 'matmul:MxNxK'", kernel);
  return {static_cast<double>(extents[0]), static_cast<double>(extents[1]),
          static_cast<double>(extents[2])};
}

}  // namespace

const std::vector<std::string>& kernel_families() {
  static const std::vector<std::string> families = {"attention", "copy",     "elementwise",
                                                    "embedding", "none",     "normalization",
                                                    "optimizer", "reduction"};
  return families;
}

std::optional<MatmulExtents> matmul_extents(std::string_view kernel) {
  if (!kernel.starts_with(kMatmulPrefix)) return std::nullopt;
  return parse_extents(kernel);
}

void require_kernel_name(std::string_view kernel) {
  if (matmul_extents(kernel)) return;
  const std::vector<std::string>& known = kernel_families();
  if (std::find(known.begin(), known.end(), kernel) != known.end()) return;
  fail(ErrorCode::kBadInput, "no operator has a kernel '{}'{}; known: matmul:MxNxK, {}", kernel,
       did_you_mean(kernel, known), comma_list(known));
}

}  // namespace sextant
