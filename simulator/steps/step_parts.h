// Where the step goes: every instant of a rank belongs to exactly one part.
#pragma once

#include "core/base/table.h"
#include "core/base/units.h"
#include "simulator/steps/timeline.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sextant {

// In order of precedence: an instant belongs to the first that applies.
enum class TimePart : std::uint8_t {
  kOptimizer,             // compute of the optimizer phase
  kCompute,               // any other compute
  kExposedCommunication,  // a communication is in progress and all members have arrived
  kHost,                  // idle, and everything issued so far is over
  kBubble,                // all else: waiting for data, credits, or a late member
};
inline constexpr std::size_t kNumTimeParts = 5;

using PartDurations = std::array<Duration, kNumTimeParts>;

// When something is going on. What comes in order, or overlaps the one before, costs no sorting.
class Intervals {
 public:
  struct Stretch {
    std::int64_t begin = 0, end = 0;
  };

  void add(Stretch added) {
    if (added.begin >= added.end) return;
    if (all_.size() > strand_) {
      Stretch& last = all_.back();
      if (added.begin >= last.begin && added.begin <= last.end) {
        last.end = std::max(last.end, added.end);
        return;
      }
      if (added.begin < last.begin) end_strand();
    }
    all_.push_back(added);
  }
  void add_all(Intervals& others);
  // The same as disjoint intervals in order.
  const std::vector<Stretch>& apart();
  // What follows may begin earlier than what came before.
  void end_strand();

 private:
  std::vector<Stretch> all_;
  std::size_t strand_ = 0;  // those before it are in order
};

// What one rank does, launch by launch. Cheapest in the order of issue.
class RankActivity {
 public:
  // `arrived`: when the last member of a communication was there; of computation, its begin.
  void add(QueueRole queue, bool optimizer, Time issued, Time arrived, Time end) {
    Intervals& list = optimizer && queue == QueueRole::kCompute ? optimizer_ : of_queue_[queue];
    list.add({arrived.value, end.value});
    outstanding_.add({issued.value, end.value});
  }

  // Parts of one period, see parts_of.
  PartDurations parts(Duration period);

 private:
  FixedTable<QueueRole, Intervals, kNumQueueRoles> of_queue_;  // of compute: but the optimizer
  Intervals optimizer_, outstanding_;
};

// Parts of one period of the steady state; they sum to `period` exactly. A step may reach over the
// period's border (stages overlap steps), so its runs are folded onto one period.
PartDurations parts_of(const RankTimeline& timeline, Duration period);

}  // namespace sextant
