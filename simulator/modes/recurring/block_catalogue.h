// The distinct blocks of a tape: pieces are described without regard to where they are, and equal
// descriptions are one block.
#pragma once

#include "actor/tapes/tape.h"
#include "core/base/table.h"
#include "simulator/modes/recurring/block_cut.h"
#include "simulator/modes/recurring/block_tape.h"

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace sextant {

// What lasts, numbered: one number for equal work on equal devices.
class BlockDurations {
 public:
  BlockDurations(const Tape& tape, std::span<const std::int32_t> colour_of_place, BlockTape& into);
  std::int32_t of(const TapeEntry& entry);     // computation
  std::int32_t of_meeting(MeetingId meeting);  // all of its calls should last so long

 private:
  std::int32_t of_cost(TapeCostId cost);

  const Tape& tape_;
  std::span<const std::int32_t> colour_of_place_;
  BlockTape& into_;
  std::unordered_map<std::int64_t, std::int32_t> of_piece_;
  Table<TapeCostId, std::int32_t> of_cost_;  // -1: none yet
};

class BlockCatalogue {
 public:
  // `is_seen`: by entry, whether its end is waited for outside its piece.
  BlockCatalogue(const FlatTape& flat, const BlockOrder& order, const std::vector<bool>& is_seen,
                 BlockDurations& durations, BlockTape& into);
  // Adds the block if it is new, and bindings: fences are waits of the flat tape, not slots yet;
  // nothing is known of the window outside.
  BlockInstance instance_of(const BlockPiece& piece);
  // After all pieces: what instances of one structure show is exported by all, for fewer kinds.
  void add_exports();

 private:
  void describe(const BlockPiece& piece);
  void describe_launch(const BlockPiece& piece, std::int32_t position);
  std::int32_t structure_of_description(std::int32_t num_launches);
  std::int32_t add_structure(std::int32_t num_launches);
  std::int32_t template_of_description(std::int32_t structure);
  void add_bindings();

  // The local number of something global, new numbers in the order of use.
  struct Numbering {
    std::vector<std::int32_t> number_of;  // -1: not used
    std::vector<std::int32_t> used;
    std::int32_t of(std::int32_t global);
    void forget();
  };

  const FlatTape& flat_;
  const BlockOrder& order_;
  const std::vector<bool>& is_seen_;
  BlockDurations& durations_;
  BlockTape& into_;
  Numbering places_, queues_, fences_, positions_;
  std::vector<std::vector<std::int32_t>> on_queue_;  // by queue of the block: its launches
  std::vector<std::int32_t> seen_;                   // launches whose end is seen outside
  std::vector<std::int32_t> structure_key_, timed_;  // of the piece at hand
  std::vector<std::vector<std::int32_t>> structure_keys_;
  std::vector<std::vector<bool>> is_exported_;  // by structure and launch
  std::unordered_multimap<std::uint64_t, std::int32_t> structures_, templates_;  // by hash
};

}  // namespace sextant
