// The words of SBP: how a global tensor lives on the axes of a placement, and which part of it one
// device holds. Values only; planning and inference are in sbp/.
#pragma once

#include "core/tensors/shape.h"

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

enum class ReduceOp : std::uint8_t { kSum, kMax, kMin };

std::string_view to_string(ReduceOp op);

// One word: split of a dim, broadcast (full copy) or partial value.
struct Sbp {
  enum class Kind : std::uint8_t { kSplit, kBroadcast, kPartial };

  Kind kind = Kind::kBroadcast;
  std::uint8_t dim = 0;              // of a split
  ReduceOp reduce = ReduceOp::kSum;  // of a partial value
  // Nesting position of a split among the splits of the same dim: the superscript of
  // `(S(0)^2, S(0)^1)`, 1 = outermost; 0 = axis order.
  std::uint8_t nesting = 0;

  // `nesting`: as the member says.
  static Sbp split(std::size_t dim, int nesting = 0);
  static Sbp broadcast() { return {}; }
  static Sbp partial(ReduceOp op = ReduceOp::kSum);

  bool is_split() const { return kind == Kind::kSplit; }
  bool is_broadcast() const { return kind == Kind::kBroadcast; }
  bool is_partial() const { return kind == Kind::kPartial; }
  auto operator<=>(const Sbp&) const = default;
};

// One word per mesh axis, major to minor.
using NdSbp = std::vector<Sbp>;

std::string to_string(const Sbp& word);     // "S(0)", "B", "P(sum)", "S(0)^2"
std::string to_string(const NdSbp& words);  // "(S(0), B)"; one axis: "S(0)"
NdSbp parse_nd_sbp(std::string_view text);  // throws Error(kUsage) with the place of the mistake
// Parses words inside a longer text, from `at` on; moves `at` behind them. Throws what
// parse_nd_sbp throws.
NdSbp read_nd_sbp(std::string_view text, std::size_t& at);

// Throws Error(kUsage) unless the splits of each dim give no nesting positions or each of 1 .. k.
void require_clear_nesting(const NdSbp& words);
// Equal layouts, equal words: nesting positions that only repeat the axis order are dropped.
NdSbp canonical(NdSbp words);

// One dim's part of a device: [offset, offset + extent).
struct Interval {
  std::int64_t offset = 0;
  std::int64_t extent = 0;
  std::int64_t end() const { return offset + extent; }
  bool operator==(const Interval&) const = default;
};

// The balanced split: the first `extent mod parts` parts hold one element more.
Interval balanced_part(std::int64_t extent, std::int64_t parts, std::int64_t index);

// The box of global indices that one device holds, one interval per dim. For partial and broadcast
// axes the box is not narrowed.
struct Shard {
  std::vector<Interval> dims;
  // What the device holds: extents, their product, and whether that is 0.
  Shape local_shape() const;
  std::int64_t elements() const;
  bool is_empty() const;
  bool operator==(const Shard&) const = default;
};

// Row-major index in a tensor of shape `global` of the `local`-th element of the box.
std::int64_t global_index(std::int64_t local, const Shape& global, const Shard& box);

// Box of the device at `coordinates` (one per axis) of a mesh with extents `hierarchy`.
// Throws Error(kUsage) if a split dim is not a dim of `global`, naming both.
Shard shard_of(const Shape& global, const NdSbp& words, std::span<const std::int64_t> hierarchy,
               std::span<const std::int64_t> coordinates);

// Intersection of two boxes of the same rank; empty intervals where they do not meet.
Shard intersect(const Shard& a, const Shard& b);

}  // namespace sextant
