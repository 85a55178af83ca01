// Names of kernels: families, and matmuls with their extents.
#include "core/graphs/kernel_names.h"

#include "core/base/check.h"
#include "core/base/nearest.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <span>

namespace sextant {

namespace {

constexpr std::string_view kMatmulPrefix = "matmul:", kConvPrefix = "conv:",
                           kScaledPrefix = "scaled_matmul:", kAttentionPrefix = "attention:",
                           kGradientPrefix = "attention_grad:", kRowPrefix = "normalization:",
                           kRowSumPrefix = "normalization_sum:";

// Numbers with 'x' between them, behind the colon. `wanted`: how such a name looks.
void parse_extents(std::string_view kernel, std::string_view wanted,
                   std::span<std::int64_t> extents) {
  const char* at = kernel.data() + kernel.find(':') + 1;
  const char* const end = kernel.data() + kernel.size();
  bool good = true;
  for (std::size_t i = 0; i < extents.size() && good; ++i) {
    const auto [next, error] = std::from_chars(at, end, extents[i]);
    const bool last = i + 1 == extents.size();
    good = error == std::errc() && extents[i] >= 0 && (last ? next == end : next != end);
    good = good && (last || *next == 'x');
    at = last ? next : next + 1;
  }
  require(good, ErrorCode::kBadInput, "kernel key '{}' is not '{}'", kernel, wanted);
}

}  // namespace

const std::vector<std::string>& kernel_families() {
  static const std::vector<std::string> families = {
      "attention",   "attention_grad", "cast",          "channel_grad",
      "channel_sum", "combination",    "copy",          "elementwise",
      "embedding",   "none",           "normalization", "normalization_sum",
      "optimizer",   "pooling",        "reduction",     "routing"};
  return families;
}

const std::vector<std::string>& rated_kernels() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> kernels = kernel_families();
    kernels.emplace_back("conv");
    kernels.emplace_back("matmul");
    kernels.emplace_back(kLooseProducts);
    kernels.emplace_back(kScaledProducts);
    return kernels;
  }();
  return all;
}

std::string_view kernel_family(std::string_view kernel) {
  return kernel.substr(0, kernel.find(':'));
}

std::optional<MatmulExtents> matmul_extents(std::string_view kernel) {
  const bool is_conv = kernel.starts_with(kConvPrefix);
  const bool is_scaled = kernel.starts_with(kScaledPrefix);
  if (!is_conv && !is_scaled && !kernel.starts_with(kMatmulPrefix)) return std::nullopt;
  std::array<std::int64_t, 3> extents{};
  parse_extents(kernel,
                is_conv     ? "conv:MxNxK"
                : is_scaled ? "scaled_matmul:MxNxK"
                            : "matmul:MxNxK",
                extents);
  return MatmulExtents{static_cast<double>(extents[0]), static_cast<double>(extents[1]),
                       static_cast<double>(extents[2])};
}

std::optional<AttentionExtents> attention_extents(std::string_view kernel) {
  const bool is_gradient = kernel.starts_with(kGradientPrefix);
  if (!is_gradient && !kernel.starts_with(kAttentionPrefix)) return std::nullopt;
  const bool sees_all = kernel.ends_with(kAllKeys);
  if (sees_all) kernel.remove_suffix(kAllKeys.size());
  std::array<std::int64_t, 2> extents{};
  parse_extents(kernel, is_gradient ? "attention_grad:KxD" : "attention:KxD", extents);
  require(extents[1] > 0, ErrorCode::kBadInput, "kernel key '{}' has heads of no element", kernel);
  return AttentionExtents{static_cast<double>(extents[0]), static_cast<double>(extents[1]),
                          is_gradient, sees_all};
}

std::optional<double> row_extent(std::string_view kernel) {
  const bool is_sum = kernel.starts_with(kRowSumPrefix);
  if (!is_sum && !kernel.starts_with(kRowPrefix)) return std::nullopt;
  std::int64_t extent = 0;
  parse_extents(kernel, is_sum ? "normalization_sum:N" : "normalization:N", std::span(&extent, 1));
  return static_cast<double>(extent);
}

std::string kernel_of_any_extents(std::string_view kernel) {
  const auto attention = attention_extents(kernel);
  if (!attention) return std::string(kernel_family(kernel));
  return fmt::format("{}:0x{}", kernel_family(kernel), attention->head_size);
}

void require_kernel_name(std::string_view kernel) {
  if (matmul_extents(kernel) || attention_extents(kernel) || row_extent(kernel)) return;
  const std::vector<std::string>& known = kernel_families();
  if (std::find(known.begin(), known.end(), kernel) != known.end()) return;
  fail(ErrorCode::kBadInput,
       "no operator has a kernel '{}'{}; known: matmul:MxNxK, scaled_matmul:MxNxK, conv:MxNxK, "
       "attention:KxD, "
       "attention_grad:KxD, {}",
       kernel, did_you_mean(kernel, known), comma_list(known));
}

}  // namespace sextant
