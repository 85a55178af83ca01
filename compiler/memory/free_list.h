// Free bytes of an area that grows at its end: best fit, neighbours joined. Kept as a vector
// because a training step leaves few holes.
#pragma once

#include "core/base/units.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace sextant {

class FreeList {
 public:
  // The smallest hole that fits, the lowest of equals; otherwise the area grows.
  Bytes take(Bytes size) {
    if (size.value == 0) return Bytes();
    auto best = holes_.end();
    Bytes least(std::numeric_limits<std::int64_t>::max());
    for (auto hole = holes_.begin(); hole != holes_.end(); ++hole) {
      const bool is_better = hole->size >= size && hole->size < least;
      best = is_better ? hole : best;
      least = is_better ? hole->size : least;
    }
    if (best == holes_.end()) return grow(size);
    const Bytes offset = best->offset;
    best->offset += size;
    best->size -= size;
    if (best->size.value == 0) holes_.erase(best);
    return offset;
  }

  // These very bytes, if all of them are free.
  bool take_at(Bytes offset, Bytes size) {
    if (size.value == 0 || holes_.empty()) return false;
    const auto hole = holes_.begin() + last_until(offset);
    if (offset < hole->offset) return false;
    const Bytes end = hole->offset + hole->size;
    if (offset + size > end) return false;
    const Hole after{offset + size, end - (offset + size)};
    hole->size = offset - hole->offset;
    if (hole->size.value == 0 && after.size.value == 0)
      holes_.erase(hole);
    else if (hole->size.value == 0)
      *hole = after;
    else if (after.size.value != 0)
      holes_.insert(hole + 1, after);
    return true;
  }

  void give_back(Bytes offset, Bytes size) {
    if (size.value == 0) return;
    auto next = holes_.begin();
    if (!holes_.empty()) next += last_until(offset);
    if (next != holes_.end() && next->offset < offset) ++next;
    const bool joins_next = next != holes_.end() && offset + size == next->offset;
    if (next != holes_.begin()) {
      const auto previous = next - 1;
      if (previous->offset + previous->size == offset) {
        previous->size += size;
        if (joins_next) {
          previous->size += next->size;
          holes_.erase(next);
        }
        return;
      }
    }
    if (joins_next) {
      next->offset = offset;
      next->size += size;
    } else {
      holes_.insert(next, {offset, size});
    }
  }

  Bytes high_water() const { return high_water_; }

 private:
  struct Hole {
    Bytes offset, size;
  };

  // The last hole that begins there or before, or the first of all. A packing asks some hundred
  // times per stay, and no branch of a search can be foretold: this one has none.
  std::ptrdiff_t last_until(Bytes offset) const {
    const Hole* first = holes_.data();
    for (std::size_t count = holes_.size(); count > 1;) {
      const std::size_t half = count / 2;
      first = first[half].offset <= offset ? first + half : first;
      count -= half;
    }
    return first - holes_.data();
  }

  Bytes grow(Bytes size) {
    Bytes offset = high_water_;
    if (!holes_.empty() && holes_.back().offset + holes_.back().size == high_water_) {
      offset = holes_.back().offset;
      holes_.pop_back();
    }
    high_water_ = offset + size;
    return offset;
  }

  std::vector<Hole> holes_;  // by offset, no two touch
  Bytes high_water_;
};

}  // namespace sextant
