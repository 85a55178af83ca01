// Two families of rules: by begin into holes that are free at that time, or in any order as low as
// the stays placed before allow.
#include "compiler/packing.h"

#include "compiler/at.h"
#include "compiler/free_list.h"
#include "core/counter_rng.h"

#include <algorithm>
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

Packing pack_in_order(std::span<const Stay> stays, bool apart) {
  FreeList areas[2];
  const auto area_of = [&](std::int32_t stay) { return apart && at(stays, stay).is_short ? 1 : 0; };
  std::int32_t families = 0;
  for (const Stay& stay : stays) families = std::max(families, stay.family + 1);
  std::vector<std::vector<Bytes>> used(static_cast<std::size_t>(families));
  Packing packing;
  packing.offsets.resize(stays.size());
  sweep(
      stays,
      [&](std::int32_t stay) {
        FreeList& area = areas[area_of(stay)];
        const Bytes size = at(stays, stay).size;
        std::vector<Bytes>& own = at(used, at(stays, stay).family);
        const auto again = std::find_if(own.begin(), own.end(),
                                        [&](Bytes offset) { return area.take_at(offset, size); });
        if (again != own.end()) {
          at(packing.offsets, stay) = *again;
          return;
        }
        own.push_back(area.take(size));
        at(packing.offsets, stay) = own.back();
      },
      [&](std::int32_t stay) {
        areas[area_of(stay)].give_back(at(packing.offsets, stay), at(stays, stay).size);
      });
  for (const std::int32_t stay : all_of(stays))
    if (area_of(stay) == 1) at(packing.offsets, stay) += areas[0].high_water();
  packing.size = areas[0].high_water() + areas[1].high_water();
  return packing;
}

// Stays that were placed, by the stretches of time they touch, each stretch by offset: a stay looks
// at the stretches it touches itself.
class Shelf {
 public:
  Shelf(std::span<const Stay> stays, std::int64_t work) : stays_(stays), work_(work) {
    for (const Stay& stay : stays) last_tick_ = std::max(last_tick_, stay.end);
    stretches_.resize(static_cast<std::size_t>(stretch_of(last_tick_)) + 1);
  }

  // The lowest offset where nothing that the stay meets lies; nothing when the work is used up.
  std::optional<Bytes> place(std::int32_t index) {
    const Stay& stay = at(stays_, index);
    if (stay.size.value == 0) return Bytes();
    gather(stay);
    if (work_ < 0) return std::nullopt;
    Bytes offset;
    for (const Placed& other : met_) {
      if (other.begin >= offset + stay.size) break;
      offset = std::max(offset, other.end);
    }
    insert(index, {offset, offset + stay.size, index});
    return offset;
  }
  std::int64_t work_left() const { return work_; }

 private:
  struct Placed {
    Bytes begin, end;
    std::int32_t stay = 0;
    bool operator<(const Placed& other) const {
      return std::tie(begin, stay) < std::tie(other.begin, other.stay);
    }
  };
  static constexpr std::int32_t kTicksPerStretch = 32;

  static std::int32_t stretch_of(std::int32_t tick) { return tick / kTicksPerStretch; }
  static bool meet(const Stay& a, const Stay& b) { return a.begin < b.end && b.begin < a.end; }

  void gather(const Stay& stay) {
    met_.clear();
    const std::int32_t first = stretch_of(stay.begin), last = stretch_of(stay.end - 1);
    for (std::int32_t s = first; s <= last && work_ >= 0; ++s) {
      work_ -= static_cast<std::int64_t>(at(stretches_, s).size()) + 1;
      for (const Placed& other : at(stretches_, s)) {
        const Stay& met = at(stays_, other.stay);
        // Once: in the first stretch that both touch.
        if (meet(stay, met) && std::max(first, stretch_of(met.begin)) == s) met_.push_back(other);
      }
    }
    if (first != last) std::sort(met_.begin(), met_.end());
  }

  void insert(std::int32_t index, const Placed& placed) {
    const Stay& stay = at(stays_, index);
    for (std::int32_t s = stretch_of(stay.begin); s <= stretch_of(stay.end - 1); ++s) {
      std::vector<Placed>& stretch = at(stretches_, s);
      stretch.insert(std::upper_bound(stretch.begin(), stretch.end(), placed), placed);
    }
  }

  std::span<const Stay> stays_;
  std::int64_t work_;
  std::int32_t last_tick_ = 0;
  std::vector<std::vector<Placed>> stretches_;
  std::vector<Placed> met_;
};

// Places in this order and takes the looks off `work`; nothing when these do not suffice.
std::optional<Packing> pack_lowest(std::span<const Stay> stays, const Order& order,
                                   std::int64_t& work) {
  Shelf shelf(stays, work);
  Packing packing;
  packing.offsets.resize(stays.size());
  for (const std::int32_t stay : order) {
    const std::optional<Bytes> offset = shelf.place(stay);
    if (!offset) return std::nullopt;
    at(packing.offsets, stay) = *offset;
    packing.size = std::max(packing.size, *offset + at(stays, stay).size);
  }
  work = shelf.work_left();
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
Packing improve(std::span<const Stay> stays, Packing best, Bytes bound, std::int64_t work) {
  const CounterRng random(0, "packing");
  Order order = by_offset(best);
  std::uint64_t draw = 0;
  // Every round takes work, so this ends.
  while (work > 0 && best.size > bound) {
    Order changed = order;
    for (const std::int32_t stay : highest(stays, best))
      move_forward(changed, stay, random.uniform(draw++));
    const auto any = static_cast<std::int32_t>(random.bits(draw++) % stays.size());
    move_forward(changed, any, random.uniform(draw++));
    std::optional<Packing> packing = pack_lowest(stays, changed, work);
    if (!packing) break;
    if (packing->size > best.size) continue;
    best = std::move(*packing);
    order = by_offset(best);
  }
  return best;
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
  Order order = all_of(stays);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return at(stays, a).end < at(stays, b).end;
  });
  return order;
}

Bytes packing_bound(std::span<const Stay> stays) {
  Bytes taken, most;
  sweep(
      stays,
      [&](std::int32_t stay) {
        taken += at(stays, stay).size;
        most = std::max(most, taken);
      },
      [&](std::int32_t stay) { taken -= at(stays, stay).size; });
  return most;
}

std::optional<Packing> pack(PackingRule rule, std::span<const Stay> stays, std::int64_t work) {
  switch (rule) {
    case PackingRule::kInOrder:
      return pack_in_order(stays, false);
    case PackingRule::kApart:
      return pack_in_order(stays, true);
    case PackingRule::kLargestFirst:
    case PackingRule::kLongestFirst:
    case PackingRule::kHeaviestFirst:
      return pack_lowest(stays, order_of(rule, stays), work);
    case PackingRule::kImproved: {
      std::int64_t first_work = work;
      std::optional<Packing> first =
          pack_lowest(stays, order_of(PackingRule::kHeaviestFirst, stays), first_work);
      if (!first) return std::nullopt;
      return improve(stays, std::move(*first), packing_bound(stays), work);
    }
  }
  return std::nullopt;
}

BestPacking pack_best(std::span<const Stay> stays, std::int64_t work) {
  const Bytes bound = packing_bound(stays);
  BestPacking best{pack_in_order(stays, false), PackingRule::kInOrder};
  for (const PackingRule rule : kPackingRules) {
    if (best.packing.size == bound) break;
    if (rule == PackingRule::kInOrder) continue;
    std::optional<Packing> packing = rule == PackingRule::kImproved
                                         ? improve(stays, best.packing, bound, work)
                                         : pack(rule, stays, work);
    if (packing && packing->size < best.packing.size) best = {std::move(*packing), rule};
  }
  return best;
}

}  // namespace sextant
