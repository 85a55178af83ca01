// A tape laid out for evaluation: what a pass reads lies in the order it reads it, and when each
// communication is over is worked out once. Says the same as the tape it was made from.
#pragma once

#include "actor/tapes/tape.h"

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace sextant {

// A wait of an entry that its tape does not have.
struct AddedWait {
  std::int32_t entry = 0;
  TapeWait wait;
};

struct FlatTape {
  // `tape` outlives it.
  explicit FlatTape(const Tape& tape);
  // From now on these are waited for too; they come by entry.
  void add(std::span<const AddedWait> added);

  struct Op {
    enum class Kind : std::uint8_t {
      kCompute,   // launches of one entry each, of any ranks
      kTogether,  // all members of one communication, each a launch of its own
      kLaunch,    // communications that start together; not over yet
      kComplete,  // a communication is over, and with it launches; not of entries
    };
    Kind kind = Kind::kCompute;
    std::int32_t first = 0, count = 0;  // entries; of kComplete: in `over`
    MeetingId meeting;                  // of kTogether and kComplete
  };

  const Tape* tape;
  std::vector<Op> ops;
  std::vector<std::int32_t> over;  // first entries of launches
  // By entry: its queue, among those that are used; the end of its waits in `waits`.
  std::vector<std::int32_t> queue_of, waits_end;
  // Whose end is waited for: an entry, or one of `saved`, counted on from the entries. An entry
  // after the waiting one still has the end of the step before; one before it is saved.
  std::vector<std::int32_t> waits;
  std::vector<std::int32_t> saved;       // entries
  std::vector<std::int32_t> seen_later;  // entries whose end the next step waits for
  std::vector<std::int32_t> place_of_queue, launches_of_queue;
  bool has_groups = false;

  // The ops for a pass in a hurry. In these ops kCompute has the communications among it that have
  // one member and are launched alone: who waits for nobody else lasts as long as it lasts.
  const std::vector<Op>& pass() const { return sole.empty() ? ops : merged; }
  std::vector<Op> merged;          // empty where there are none of these
  std::vector<std::int32_t> sole;  // entries: those communications
  // By entry, whose end is waited for. Where it is fewer than two, it is nobody's, which is always
  // zero; where it is more, the second is ~i, and from `more_waits[i]` on stand how many more there
  // are, and whose.
  std::vector<std::array<std::int32_t, 2>> two_waits;
  std::vector<std::int32_t> more_waits;
  std::int32_t nobody() const { return static_cast<std::int32_t>(queue_of.size() + saved.size()); }
};

// Times of the tape that `flat` was made from, equal to what evaluate() of that tape gives
// (actor/tapes/tape.h); a flat one is worth keeping where it is evaluated often.
TapeTimes evaluate(const FlatTape& flat, std::span<const Duration> durations, const CostModel& cost,
                   const NetworkModel& network, const TapeOptions& options = {});

}  // namespace sextant
