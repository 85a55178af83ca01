// Two families of rules: by begin into holes that are free at that time, or in any order as low as
// the stays placed before allow.
#include "compiler/memory/packing.h"

#include "compiler/memory/free_list.h"
#include "core/base/at.h"
#include "core/base/counter_rng.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

namespace sextant {
namespace {

using Order = std::vector<std::int32_t>;  // stays

Order all_of(std::span<const Stay> stays) {
  Order order(stays.size());
  std::iota(order.begin(), order.end(), 0);
  return order;
}

// Where a stay of a family has been, and whether one is there now, by area: then nothing is free.
struct FamilyPlace {
  Bytes offset;
  std::array<bool, 2> is_taken = {false, false};
};

constexpr Bytes kAnySize{std::numeric_limits<std::int64_t>::max()};

// Nothing as soon as it takes more than `most`.
std::optional<Packing> pack_in_order(std::span<const Stay> stays,
                                     std::span<const std::int32_t> ends, bool apart,
                                     Bytes most = kAnySize) {
  FreeList areas[2];
  const auto area_of = [&](std::int32_t stay) {
    return apart && at(stays, stay).is_short ? std::size_t{1} : std::size_t{0};
  };
  std::int32_t families = 0;
  for (const Stay& stay : stays) families = std::max(families, stay.family + 1);
  std::vector<std::vector<FamilyPlace>> used(static_cast<std::size_t>(families));
  std::vector<std::int32_t> place_of(stays.size());  // among those of the stay's family
  Packing packing;
  packing.offsets.resize(stays.size());
  sweep_while(
      stays, ends,
      [&](std::int32_t stay) {
        const std::size_t area = area_of(stay);
        const Bytes size = at(stays, stay).size;
        std::vector<FamilyPlace>& own = at(used, at(stays, stay).family);
        auto place = std::find_if(own.begin(), own.end(), [&](const FamilyPlace& before) {
          return !before.is_taken[area] && areas[area].take_at(before.offset, size);
        });
        if (place == own.end()) place = own.insert(own.end(), {areas[area].take(size)});
        place->is_taken[area] = size.value > 0;
        at(place_of, stay) = static_cast<std::int32_t>(place - own.begin());
        at(packing.offsets, stay) = place->offset;
        packing.size = areas[0].high_water() + areas[1].high_water();
      },
      [&](std::int32_t stay) {
        at(at(used, at(stays, stay).family), at(place_of, stay)).is_taken[area_of(stay)] = false;
        areas[area_of(stay)].give_back(at(packing.offsets, stay), at(stays, stay).size);
      },
      [&] { return packing.size <= most; });
  if (packing.size > most) return std::nullopt;
  for (std::int32_t stay = 0; apart && stay < size_of(stays); ++stay)
    if (area_of(stay) == 1) at(packing.offsets, stay) += areas[0].high_water();
  return packing;
}

// Most bytes that short stays take at one tick, and the others: kApart is not below.
Bytes bound_apart(std::span<const Stay> stays, std::span<const std::int32_t> ends) {
  std::array<Bytes, 2> taken, most;
  const auto area_of = [&](std::int32_t stay) { return at(stays, stay).is_short ? 1U : 0U; };
  sweep(
      stays, ends,
      [&](std::int32_t stay) {
        const auto area = area_of(stay);
        taken[area] += at(stays, stay).size;
        most[area] = std::max(most[area], taken[area]);
      },
      [&](std::int32_t stay) { taken[area_of(stay)] -= at(stays, stay).size; });
  return most[0] + most[1];
}

// Of the stays of at least some size.
struct StayTotals {
  std::int64_t count = 0, ticks = 0;
  std::int32_t last = 0;                 // tick before which all have ended
  std::optional<Bytes> smallest_beyond;  // of those of twice that size and more

  StayTotals(std::span<const Stay> stays, Bytes least) {
    const Bytes beyond = std::max(2 * least, least + Bytes(1));
    Bytes smallest = kAnySize;
    for (const Stay& stay : stays) {
      if (stay.size < least) continue;
      ++count;
      ticks += stay.end - stay.begin;
      last = std::max(last, stay.end);
      if (stay.size >= beyond) smallest = std::min(smallest, stay.size);
    }
    if (smallest < kAnySize) smallest_beyond = smallest;
  }
};

// Stretches of time into which placed stays are sorted, about as long as a stay: then most stays
// touch one or two.
class Stretches {
 public:
  explicit Stretches(const StayTotals& stays) {
    const std::int64_t length = stays.ticks / std::max<std::int64_t>(stays.count, 1);
    width_ = static_cast<std::int32_t>(std::clamp<std::int64_t>(length, 16, 4096));
    count_ = of(stays.last) + 1;
  }
  explicit Stretches(std::span<const Stay> stays) : Stretches(StayTotals(stays, Bytes())) {}
  std::int32_t count() const { return count_; }
  std::int32_t of(std::int32_t tick) const { return tick / width_; }
  std::int32_t first(const Stay& stay) const { return of(stay.begin); }
  std::int32_t last(const Stay& stay) const { return of(stay.end - 1); }

 private:
  std::int32_t width_ = 1, count_ = 1;
};

// Looks it takes to place all stays of at least this size one by one: each looks at those that were
// placed before it in the stretches it touches.
std::int64_t looks_for(std::span<const Stay> stays, const Stretches& stretches,
                       Bytes least = Bytes()) {
  std::vector<std::int64_t> load(static_cast<std::size_t>(stretches.count()) + 1);
  for (const Stay& stay : stays) {
    if (stay.size < least) continue;
    ++at(load, stretches.first(stay));
    --at(load, stretches.last(stay) + 1);
  }
  std::int64_t looks = 0, touching = 0;
  for (const std::int64_t change : load) {
    touching += change;
    looks += touching * (touching + 1) / 2;
  }
  return looks;
}

// No looks_for() these stays is below: it is as low as can be where all stretches are touched
// alike, each stay touching one.
double fewest_looks(const StayTotals& stays, const Stretches& stretches) {
  const auto count = static_cast<double>(stays.count);
  return count * count / (2.0 * stretches.count());
}

// Stays that were placed, by stretch, each stretch by offset.
class Shelf {
 public:
  explicit Shelf(std::span<const Stay> stays, const Stretches& stretches)
      : stays_(stays),
        stretches_(stretches),
        placed_(static_cast<std::size_t>(stretches.count())) {}

  // The lowest offset where nothing that the stay meets lies.
  Bytes place(std::int32_t index) {
    const Stay& stay = at(stays_, index);
    if (stay.size.value == 0) return Bytes();
    const Bytes offset = lowest(stay);
    const Placed placed{offset, offset + stay.size, stay.begin, stay.end};
    for (std::int32_t s = stretches_.first(stay); s <= stretches_.last(stay); ++s) {
      std::vector<Placed>& stretch = at(placed_, s);
      stretch.insert(std::upper_bound(stretch.begin(), stretch.end(), placed), placed);
    }
    return offset;
  }

 private:
  struct Placed {
    Bytes begin, end;
    std::int32_t from = 0, until = 0;  // ticks
    bool operator<(const Placed& other) const { return begin < other.begin; }
  };

  // What lies at the offset keeps the stay off all offsets below its end: so it does not matter in
  // which order the stretches are looked at, and what was passed once is not looked at again.
  Bytes lowest(const Stay& stay) {
    const std::int32_t first = stretches_.first(stay), last = stretches_.last(stay);
    next_.assign(static_cast<std::size_t>(last - first) + 1, 0);
    Bytes offset;
    for (bool rises = true; rises;) {
      rises = false;
      for (std::int32_t s = first; s <= last; ++s) {
        const std::vector<Placed>& stretch = at(placed_, s);
        std::size_t& next = at(next_, s - first);
        for (; next < stretch.size() && stretch[next].begin < offset + stay.size; ++next) {
          const Placed& other = stretch[next];
          if (other.from >= stay.end || stay.begin >= other.until || other.end <= offset) continue;
          offset = other.end;
          rises = true;
        }
      }
    }
    return offset;
  }

  std::span<const Stay> stays_;
  const Stretches& stretches_;
  std::vector<std::vector<Placed>> placed_;  // by stretch
  std::vector<std::size_t> next_;            // by stretch of the stay: the first not looked at
};

// Nothing as soon as it takes more than `most`.
std::optional<Packing> pack_lowest(std::span<const Stay> stays, const Stretches& stretches,
                                   const Order& order, Bytes most) {
  Shelf shelf(stays, stretches);
  Packing packing;
  packing.offsets.resize(stays.size());
  for (const std::int32_t stay : order) {
    at(packing.offsets, stay) = shelf.place(stay);
    packing.size = std::max(packing.size, at(packing.offsets, stay) + at(stays, stay).size);
    if (packing.size > most) return std::nullopt;
  }
  return packing;
}

double length(const Stay& stay) { return static_cast<double>(stay.end - stay.begin); }
double bytes(const Stay& stay) { return static_cast<double>(stay.size.value); }

// What comes first is placed first: the largest key, then the other measures, then the place in
// time.
template <typename Key>
Order descending(std::span<const Stay> stays, const Key& key) {
  Order order = all_of(stays);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    const Stay& x = at(stays, a);
    const Stay& y = at(stays, b);
    return std::tuple(key(x), bytes(x), length(x)) > std::tuple(key(y), bytes(y), length(y));
  });
  return order;
}

Order order_of(PackingRule rule, std::span<const Stay> stays) {
  switch (rule) {
    case PackingRule::kInOrder:
    case PackingRule::kApart:
    case PackingRule::kImproved:
      return all_of(stays);
    case PackingRule::kLargestFirst:
      return descending(stays, bytes);
    case PackingRule::kLongestFirst:
      return descending(stays, length);
    case PackingRule::kHeaviestFirst:
      return descending(stays, [](const Stay& stay) { return bytes(stay) * length(stay); });
  }
  return {};
}

// The order that gives a packing again, or a lower one: by offset.
Order by_offset(const Packing& packing) {
  Order order(packing.offsets.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return at(packing.offsets, a) < at(packing.offsets, b);
  });
  return order;
}

// Stays that end where the area ends: one of them must come to lie lower.
Order highest(std::span<const Stay> stays, const Packing& packing) {
  Order top;
  for (const std::int32_t stay : all_of(stays))
    if (at(packing.offsets, stay) + at(stays, stay).size == packing.size) top.push_back(stay);
  return top;
}

void move_forward(Order& order, std::int32_t stay, double fraction) {
  const auto from = std::find(order.begin(), order.end(), stay);
  const auto to = order.begin() + static_cast<std::ptrdiff_t>(
                                      static_cast<double>(from - order.begin()) * (1.0 - fraction));
  std::rotate(to, from, from + 1);
}

// Moves the highest stays forward in the order, and sometimes any stay, as long as there is work.
// Nothing where that brings no smaller packing than `first`.
std::optional<Packing> reorder(std::span<const Stay> stays, const Packing& first, Bytes bound,
                               std::int64_t work) {
  const StayTotals totals(stays, Bytes());
  const Stretches stretches(totals);
  if (fewest_looks(totals, stretches) > static_cast<double>(work)) return std::nullopt;
  const std::int64_t looks = std::max<std::int64_t>(looks_for(stays, stretches), 1);
  const CounterRng random(0, "packing");
  std::optional<Packing> best;
  Order order;
  std::uint64_t draw = 0;
  for (; work >= looks && (best ? *best : first).size > bound; work -= looks) {
    const Packing& lowest = best ? *best : first;
    if (order.empty()) order = by_offset(lowest);
    Order changed = order;
    for (const std::int32_t stay : highest(stays, lowest))
      move_forward(changed, stay, random.uniform(draw++));
    const auto any = static_cast<std::int32_t>(random.bits(draw++) % stays.size());
    move_forward(changed, any, random.uniform(draw++));
    std::optional<Packing> packing = pack_lowest(stays, stretches, changed, lowest.size);
    if (!packing) continue;
    best = std::move(packing);
    order = by_offset(*best);
  }
  return best;
}

// The stays of at least some size, placed in the order of a rule, and the others above them in
// order of begin, which is the same under every rule.
class LargeApart {
 public:
  // Packings of more than `most` are of no use.
  LargeApart(std::span<const Stay> stays, Bytes least, Bytes most = kAnySize) {
    std::vector<Stay> small;
    for (const Stay& stay : stays) {
      is_large_.push_back(stay.size >= least);
      (is_large_.back() ? large_ : small).push_back(stay);
    }
    const Bytes large = packing_bound(large_);
    const std::vector<std::int32_t> ends = by_end(small);
    if (large + packing_bound(small, ends) > most) return;
    std::optional<Packing> above = pack_in_order(small, ends, false, most - large);
    if (!above) return;
    above_ = *std::move(above);
    bound_ = large + above_.size;
  }

  // Nothing where it would take more than `most`.
  std::optional<Packing> pack(PackingRule rule, Bytes most = kAnySize) const {
    if (!bound_ || *bound_ > most) return std::nullopt;
    const std::optional<Packing> below =
        pack_lowest(large_, Stretches(large_), order_of(rule, large_), most - above_.size);
    if (!below) return std::nullopt;
    Packing packing;
    packing.offsets.reserve(is_large_.size());
    auto next_below = below->offsets.begin(), next_above = above_.offsets.begin();
    for (const bool large_one : is_large_)
      packing.offsets.push_back(large_one ? *next_below++ : below->size + *next_above++);
    packing.size = below->size + above_.size;
    return packing;
  }

 private:
  std::vector<Stay> large_;
  std::vector<bool> is_large_;  // by stay
  Packing above_;
  std::optional<Bytes> bound_;  // under any rule; none where no packing is of use
};

Bytes smallest_size(std::span<const Stay> stays) {
  return std::min_element(stays.begin(), stays.end(),
                          [](const Stay& a, const Stay& b) { return a.size < b.size; })
      ->size;
}

// The stays that the work allows to order are those of at least this size, the same under every
// rule: the small ones are what matters least. Sizes are tried from the smallest that occurs on,
// each about twice the one before.
std::optional<Bytes> least_to_order(std::span<const Stay> stays, std::int64_t work) {
  if (stays.empty()) return Bytes();
  std::optional<Bytes> least = smallest_size(stays);
  while (least) {
    const StayTotals totals(stays, *least);
    const Stretches stretches(totals);
    if (fewest_looks(totals, stretches) <= static_cast<double>(work) &&
        looks_for(stays, stretches, *least) <= work)
      return least;
    least = totals.smallest_beyond;
  }
  return std::nullopt;
}

std::optional<Packing> pack_by_order(PackingRule rule, std::span<const Stay> stays,
                                     std::optional<Bytes> least) {
  if (!least) return std::nullopt;
  return stays.empty() ? Packing() : LargeApart(stays, *least).pack(rule);
}

}  // namespace

std::string_view to_string(PackingRule rule) {
  switch (rule) {
    case PackingRule::kInOrder:
      return "in_order";
    case PackingRule::kApart:
      return "apart";
    case PackingRule::kLargestFirst:
      return "largest_first";
    case PackingRule::kLongestFirst:
      return "longest_first";
    case PackingRule::kHeaviestFirst:
      return "heaviest_first";
    case PackingRule::kImproved:
      return "improved";
  }
  return "?";
}

std::vector<std::int32_t> by_end(std::span<const Stay> stays) {
  std::int32_t last = 0;
  for (const Stay& stay : stays) last = std::max(last, stay.end);
  // A planner's ticks are births, no more than there are stays: they are counted.
  if (static_cast<std::size_t>(last) > 2 * stays.size()) {
    Order order = all_of(stays);
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
      return at(stays, a).end < at(stays, b).end;
    });
    return order;
  }
  std::vector<std::int32_t> first(static_cast<std::size_t>(last) + 2);
  for (const Stay& stay : stays) ++at(first, stay.end + 1);
  std::partial_sum(first.begin(), first.end(), first.begin());
  Order order(stays.size());
  for (const std::int32_t stay : all_of(stays)) at(order, at(first, at(stays, stay).end)++) = stay;
  return order;
}

Bytes packing_bound(std::span<const Stay> stays, std::span<const std::int32_t> ends) {
  Bytes taken, most;
  sweep(
      stays, ends,
      [&](std::int32_t stay) {
        taken += at(stays, stay).size;
        most = std::max(most, taken);
      },
      [&](std::int32_t stay) { taken -= at(stays, stay).size; });
  return most;
}

Bytes packing_bound(std::span<const Stay> stays) { return packing_bound(stays, by_end(stays)); }

std::optional<Packing> pack(PackingRule rule, std::span<const Stay> stays, std::int64_t work) {
  switch (rule) {
    case PackingRule::kInOrder:
      return pack_in_order(stays, by_end(stays), false);
    case PackingRule::kApart:
      return pack_in_order(stays, by_end(stays), true);
    case PackingRule::kLargestFirst:
    case PackingRule::kLongestFirst:
    case PackingRule::kHeaviestFirst:
      return pack_by_order(rule, stays, least_to_order(stays, work));
    case PackingRule::kImproved: {
      std::optional<Packing> first =
          pack_by_order(PackingRule::kHeaviestFirst, stays, least_to_order(stays, work));
      if (!first) return std::nullopt;
      std::optional<Packing> better = reorder(stays, *first, packing_bound(stays), work);
      return better ? better : first;
    }
  }
  return std::nullopt;
}

BestPacking pack_quickly(std::span<const Stay> stays, std::span<const std::int32_t> ends,
                         Bytes bound) {
  BestPacking best{*pack_in_order(stays, ends, false), PackingRule::kInOrder};
  if (best.packing.size <= bound) return best;
  const Bytes most = best.packing.size - Bytes(1);
  if (bound_apart(stays, ends) > most) return best;
  if (auto apart = pack_in_order(stays, ends, true, most))
    best = {*std::move(apart), PackingRule::kApart};
  return best;
}

BestPacking pack_quickly(std::span<const Stay> stays, Bytes bound) {
  return pack_quickly(stays, by_end(stays), bound);
}

void improve_to_bound(BestPacking& best, std::span<const Stay> stays, Bytes bound, Bytes enough,
                      std::int64_t work) {
  if (best.packing.size <= std::max(bound, enough)) return;
  std::optional<LargeApart> apart;
  if (const std::optional<Bytes> least = least_to_order(stays, work))
    apart.emplace(stays, *least, best.packing.size - Bytes(1));
  for (const PackingRule rule : kPackingRules) {
    if (best.packing.size <= std::max(bound, enough)) return;
    if (rule == PackingRule::kInOrder || rule == PackingRule::kApart) continue;
    std::optional<Packing> packing;
    if (rule == PackingRule::kImproved)
      packing = reorder(stays, best.packing, bound, work);
    else if (apart)
      packing = apart->pack(rule, best.packing.size - Bytes(1));
    if (packing && packing->size < best.packing.size) best = {std::move(*packing), rule};
  }
}

void improve(BestPacking& best, std::span<const Stay> stays, Bytes enough, std::int64_t work) {
  improve_to_bound(best, stays, packing_bound(stays), enough, work);
}

BestPacking pack_best(std::span<const Stay> stays, std::int64_t work) {
  BestPacking best = pack_quickly(stays);
  improve(best, stays, Bytes(), work);
  return best;
}

}  // namespace sextant
