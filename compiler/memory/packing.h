// Where stays lie in an area when each needs its bytes for a while: several ways, of which a
// planner keeps the best. Knows nothing of graphs.
#pragma once

#include "core/base/at.h"
#include "core/base/units.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace sextant {

// Bytes that are taken from tick `begin` until before tick `end`. Stays are in order of `begin`.
struct Stay {
  std::int32_t begin = 0, end = 0;
  Bytes size;
  std::int32_t family = 0;  // stays that like to lie at each other's address: contents of one frame
  bool is_short = false;    // ends with the act it began in
};

enum class PackingRule : std::uint8_t {
  kInOrder,        // by begin; the smallest hole that fits
  kApart,          // the same in two areas: short stays above all others
  kLargestFirst,   // by size, each as low as those it meets allow
  kLongestFirst,   // by length, likewise
  kHeaviestFirst,  // by size times length, likewise
  kImproved,       // the best order so far, changed at random where the area is highest
};
inline constexpr std::array kPackingRules = {
    PackingRule::kInOrder,      PackingRule::kApart,         PackingRule::kLargestFirst,
    PackingRule::kLongestFirst, PackingRule::kHeaviestFirst, PackingRule::kImproved};
std::string_view to_string(PackingRule rule);  // "in_order", "largest_first", ...

struct Packing {
  std::vector<Bytes> offsets;  // by stay
  Bytes size;
};

// Stays by their end: several who visit them in order of time may share it.
std::vector<std::int32_t> by_end(std::span<const Stay> stays);

// Visits stays by begin, before each those that have ended, as long as `goes_on` says so. `ends`
// are the stays by their end.
template <typename Began, typename Ended, typename GoesOn>
void sweep_while(std::span<const Stay> stays, std::span<const std::int32_t> ends,
                 const Began& began, const Ended& ended, const GoesOn& goes_on) {
  std::size_t next = 0;
  for (std::size_t i = 0; i < stays.size() && goes_on(); ++i) {
    for (; next < ends.size() && at(stays, ends[next]).end <= stays[i].begin; ++next)
      ended(ends[next]);
    began(static_cast<std::int32_t>(i));
  }
}
template <typename Began, typename Ended>
void sweep(std::span<const Stay> stays, std::span<const std::int32_t> ends, const Began& began,
           const Ended& ended) {
  sweep_while(stays, ends, began, ended, [] { return true; });
}

// Most bytes that are taken at one tick: no packing is below.
Bytes packing_bound(std::span<const Stay> stays);
Bytes packing_bound(std::span<const Stay> stays, std::span<const std::int32_t> ends);

// By one rule. Rules other than kInOrder and kApart look at what each stay meets. Where that would
// take more than `work` looks, only the largest stays are placed like this and the others above
// them in order of begin; nothing when that takes too much as well.
std::optional<Packing> pack(PackingRule rule, std::span<const Stay> stays, std::int64_t work);

struct BestPacking {
  Packing packing;
  PackingRule rule = PackingRule::kInOrder;
};
// The smaller one of kInOrder and kApart, which take time for the stays and the holes alone.
// Where the first is as small as `bound`, which no packing is below, it is the one.
BestPacking pack_quickly(std::span<const Stay> stays, Bytes bound = Bytes());
// pack_quickly for callers that know the stays by their end.
BestPacking pack_quickly(std::span<const Stay> stays, std::span<const std::int32_t> ends,
                         Bytes bound);

// Looks that a rule may take, about five nanoseconds each: what is tried never depends on the
// machine.
inline constexpr std::int64_t kPackingWork = 2'500'000;
// Tries the other rules one by one until the packing is as small as `enough` or the bound.
void improve(BestPacking& best, std::span<const Stay> stays, Bytes enough,
             std::int64_t work = kPackingWork);
// `improve` for callers that know the bound.
void improve_to_bound(BestPacking& best, std::span<const Stay> stays, Bytes bound, Bytes enough,
                      std::int64_t work = kPackingWork);

// The smallest of all rules, the first of equals; stops at the bound.
BestPacking pack_best(std::span<const Stay> stays, std::int64_t work = kPackingWork);

}  // namespace sextant
