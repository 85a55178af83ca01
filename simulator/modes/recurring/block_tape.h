// A tape cut into blocks: runs of launches that recur, each kind of them once, and what each of its
// instances reads and writes outside. No durations: they are asked for when it is evaluated.
#pragma once

#include "actor/tapes/flat_tape.h"
#include "core/base/ids.h"

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace sextant {

// Numbers of a block are local: places, queues and fences in the order in which it first uses them.
struct BlockLaunch {
  std::int32_t place = 0, queue = 0;
  // Neighbours that are over together: their number at the first of them, 0 at the others. A
  // computation is alone.
  std::int32_t members = 1;
  std::int32_t waits_end = 0;  // in BlockTape::waits
  std::int32_t window = -1;    // launch of the block that the host waits for, if there is one
};

// What can be said of a block without durations.
struct BlockStructure {
  std::int32_t first_launch = 0, num_launches = 0;  // in BlockTape::launches
  std::int32_t first_wait = 0;                      // in BlockTape::waits
  std::int32_t first_queue = 0;                     // in BlockTape::queue_places
  std::int32_t num_places = 0, num_queues = 0, num_fences = 0;
  std::int32_t first_export = 0, num_exports = 0;  // in BlockTape::exports
};

// Blocks of one structure whose launches last equally long.
struct BlockTemplate {
  std::int32_t structure = 0;
  std::int32_t first_timed = 0;  // in BlockTape::timed_of_launch: one for each launch
};

struct BlockInstance {
  std::int32_t block = 0;  // template
  // In BlockTape::bindings: places, queues, fences, what the window refers to by queue, marks by
  // queue.
  std::int32_t first_binding = 0;
  std::int32_t first_export = 0;  // in BlockTape::export_slots
};

// What lasts: a computation on the device of a rank, or a communication.
struct BlockTimed {
  TapePieceId piece;
  Rank rank;
  TapeCostId cost;
};

// A launch outside all blocks.
struct LooseLaunch {
  std::int32_t place = 0, queue = 0;
  std::int32_t waits_begin = 0, waits_end = 0;  // in BlockTape::loose_waits
  std::int32_t timed = -1;                      // of computation
  std::int32_t slot = 0;                        // for its end
  std::int32_t mark = -1;                       // -1: it does not count in the window
  std::int32_t window = -1;                     // as in bindings
  std::int32_t group = 1;                       // of the first of a launch group: its size
};

struct BlockTape {
  // `flat` outlives it. Ranks of equal colour compute equally fast; by place.
  BlockTape(const FlatTape& flat, const PhysicalGraph& graph,
            std::span<const std::int32_t> colour_of_place, std::int64_t window);

  struct Op {
    enum class Kind : std::uint8_t {
      kBlock,     // `first` in `instances`
      kCompute,   // loose launches, one after the other
      kTogether,  // loose members of one communication
      kLaunch,    // loose communications that start together
      kComplete,  // one of them is over; and with it launches, in `over`
    };
    Kind kind = Kind::kBlock;
    std::int32_t first = 0, count = 0;
    std::int32_t timed = -1;
    std::int32_t first_arriving = 0, num_arriving = 0;  // of kComplete, in `arriving`
  };

  // Templates that `instances` use; others were seen once, and their launches are loose.
  std::int64_t num_kinds() const;

  const FlatTape* flat;
  std::int64_t window;
  std::vector<BlockTimed> timed;
  std::vector<BlockStructure> structures;
  std::vector<BlockTemplate> templates;
  std::vector<BlockLaunch> launches;
  std::vector<std::int32_t> waits;         // launch of the block, or ~fence
  std::vector<std::int32_t> exports;       // launches of the block whose end some instance shows
  std::vector<std::int32_t> queue_places;  // by queue of a structure
  std::vector<std::int32_t> timed_of_launch;
  std::vector<BlockInstance> instances;
  std::vector<std::int32_t> bindings, export_slots;
  std::vector<LooseLaunch> loose;
  std::vector<std::int32_t> loose_waits;     // slots
  std::vector<std::int32_t> over, arriving;  // in `loose`
  std::vector<Op> ops;

  // Ends that are waited for from outside a block; slot 0 is for those that are not. `saved` are
  // copied (from, to) as a step begins: they are waited for when they are already overwritten.
  struct Saved {
    std::int32_t from = 0, to = 0;
  };
  std::vector<Saved> saved;
  std::vector<std::int32_t> seen_later;  // slots that the next step waits for
  std::int32_t num_slots = 1;
  // When a queue was free after an op of it, if the window refers to that; mark 0 is for the rest.
  // A reference is mark * 4 + 2 * (of the previous step) + (it is of this step, and the mark is
  // exactly the launch); -1: nothing that the run-ahead in steps does not wait for already.
  std::int32_t num_marks = 1;
  std::vector<std::int32_t> marks_seen_later;  // by the next step
  // Marks that the host of a place has waited for when its step is issued.
  struct HostMark {
    std::int32_t place = 0, mark = 0;
  };
  std::vector<HostMark> waited_for;
  // Calls of one meeting: evaluated here only if they last equally long. Pairs in `timed`.
  std::vector<std::pair<std::int32_t, std::int32_t>> alike;
};

}  // namespace sextant
