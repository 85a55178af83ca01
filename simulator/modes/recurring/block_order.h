// The launches of a tape in an order in which those that can be one block are neighbours. It says
// the same as the tape: every launch still follows all that it depends on.
#pragma once

#include "actor/tapes/flat_tape.h"

#include <cstdint>
#include <vector>

namespace sextant {

struct BlockOrder {
  struct Item {
    enum class Kind : std::uint8_t {
      kStretch,  // of one unit, up to the next communication with another; `entries` lists it
      // As the flat tape says it, with places of several units, or a launch group:
      kTogether,
      kLaunch,
      kComplete,
    };
    Kind kind = Kind::kStretch;
    std::int32_t first = 0, count = 0;  // kStretch: in `entries`; else as in FlatTape::Op
    MeetingId meeting;
  };

  std::vector<std::int32_t> unit_of_place;
  std::vector<Item> items;
  // Members of one communication are neighbours. The waits of a launch are for launches before it,
  // unless they are for the previous step.
  std::vector<std::int32_t> entries;
};

// A unit is a rank class, or the few classes whose ranks meet at every layer: tensor-parallel ranks
// with uneven shards. What its launches depend on within a stretch is inside the unit.
BlockOrder block_order(const FlatTape& flat);

}  // namespace sextant
