// Free bytes of an area that grows at its end: best fit, neighbours joined. Kept as a vector
// because a training step leaves few holes.
#pragma once

#include "core/base/units.h"

#include <algorithm>
#include <vector>

namespace sextant {

class FreeList {
 public:
  // The smallest hole that fits, the lowest of equals; otherwise the area grows.
  Bytes take(Bytes size) {
    if (size.value == 0) return Bytes();
    auto best = holes_.end();
    for (auto hole = holes_.begin(); hole != holes_.end(); ++hole)
      if (hole->size >= size && (best == holes_.end() || hole->size < best->size)) best = hole;
    if (best == holes_.end()) return grow(size);
    const Bytes offset = best->offset;
    best->offset += size;
    best->size -= size;
    if (best->size.value == 0) holes_.erase(best);
    return offset;
  }

  // These very bytes, if all of them are free.
  bool take_at(Bytes offset, Bytes size) {
    auto hole = std::upper_bound(holes_.begin(), holes_.end(), offset,
                                 [](Bytes at, const Hole& h) { return at < h.offset; });
    if (size.value == 0 || hole == holes_.begin()) return false;
    --hole;
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
    auto next = std::lower_bound(holes_.begin(), holes_.end(), offset,
                                 [](const Hole& hole, Bytes at) { return hole.offset < at; });
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
