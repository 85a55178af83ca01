// The names that operators give their kernels in Work::kernel (core/graphs/work.h).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

// All but products, whose names are "matmul:MxNxK", "scaled_matmul:MxNxK" where operands have 8
// bits, and "conv:MxNxK": the product that a convolution is. Attention and norms may carry what
// their rate depends on, "attention:KxD", "attention:KxD:all" and "normalization:N".
const std::vector<std::string>& kernel_families();

// Of products with loose rows (simulator/costs/product_work.h), where a device has a rate for them.
inline constexpr std::string_view kLooseProducts = "matmul_loose";
// Of products of 8-bit operands, whose peak is that of e4m3.
inline constexpr std::string_view kScaledProducts = "scaled_matmul";
// What a device may have a rate of its own for: the families, products among them.
const std::vector<std::string>& rated_kernels();

// "matmul", "attention": what stands before the extents.
std::string_view kernel_family(std::string_view kernel);

// Extents of a name "matmul:MxNxK", "scaled_matmul:MxNxK" or "conv:MxNxK"; nothing for others.
// Throws Error(kBadInput) for one that does not parse.
struct MatmulExtents {
  double m = 0, n = 0, k = 0;
};
std::optional<MatmulExtents> matmul_extents(std::string_view kernel);

// Extents of a name "attention:KxD" or "attention_grad:KxD": keys that a query may see, elements of
// a head; with ":all" behind them every query sees all of these keys. Nothing for other names; zero
// keys: any number, as in "attention:0x64" of bounds. Throws Error(kBadInput) for one that does not
// parse.
struct AttentionExtents {
  double keys = 0, head_size = 0;
  bool is_gradient = false;
  bool sees_all = false;  // else causal: half of the keys on average
  // Products of a row of a head by another, per pair of a query and a key.
  int products() const { return is_gradient ? 5 : 2; }
};
std::optional<AttentionExtents> attention_extents(std::string_view kernel);
inline constexpr std::string_view kAllKeys = ":all";

// Elements of a row, of a name "normalization:N" or "normalization_sum:N"; nothing for other names.
// Throws Error(kBadInput) for one that does not parse.
std::optional<double> row_extent(std::string_view kernel);

// The name under which bounds know a kernel whose extents a plan may still split: without those.
std::string kernel_of_any_extents(std::string_view kernel);

// Throws Error(kBadInput) for a name that no operator gives, with the nearest.
void require_kernel_name(std::string_view kernel);

}  // namespace sextant
