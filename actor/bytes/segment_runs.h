// A value for every segment of an arena, kept once per run of neighbours that were last set
// together: what a use costs depends on how many different things it meets, not on how finely
// other uses cut its bytes.
#pragma once

#include "actor/bytes/byte_uses.h"
#include "core/base/at.h"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sextant {

template <typename Value>
class SegmentRuns {
 public:
  // All segments begin as one run with the default value.
  explicit SegmentRuns(std::int32_t num_segments)
      : values_(at(num_segments) + 1), begins_(at(num_segments) / 64 + 1) {
    begins_.front() = 1;
  }

  // Calls visit(value) once per run that has a segment in the range.
  template <typename Visit>
  void look(SegmentRange range, const Visit& visit) {
    if (range.begin >= range.end) return;
    for (std::int32_t run = run_of(range.begin); run < range.end; run = run_after(run))
      visit(sextant::at(values_, run));
  }
  // Calls visit(value) once per run inside the range; what it changes, it changes for the range
  // alone.
  template <typename Visit>
  void change(SegmentRange range, const Visit& visit) {
    if (range.begin >= range.end) return;
    cut(range.begin);
    cut(range.end);
    look(range, visit);
  }
  // The range is one run of this value.
  void set(SegmentRange range, const Value& value) {
    if (range.begin >= range.end) return;
    cut(range.begin);
    cut(range.end);
    join(range);
    sextant::at(values_, range.begin) = value;
  }

 private:
  static std::uint64_t bit(std::int32_t segment) {
    return std::uint64_t{1} << (static_cast<std::uint32_t>(segment) % 64U);
  }
  std::uint64_t& word(std::int32_t segment) { return begins_[at(segment) / 64]; }

  // First segment of the run that holds this one: the last mark at or below it.
  std::int32_t run_of(std::int32_t segment) const {
    std::size_t w = at(segment) / 64;
    std::uint64_t marks = begins_[w] & (bit(segment) | (bit(segment) - 1));
    while (marks == 0) marks = begins_[--w];
    return static_cast<std::int32_t>(w * 64) + 63 - std::countl_zero(marks);
  }
  // First segment of the next run, or a number behind all segments.
  std::int32_t run_after(std::int32_t run) const {
    std::size_t w = at(run) / 64;
    std::uint64_t marks = begins_[w] & ~(bit(run) | (bit(run) - 1));
    while (marks == 0 && ++w < begins_.size()) marks = begins_[w];
    return static_cast<std::int32_t>(w * 64) + (marks == 0 ? 0 : std::countr_zero(marks));
  }

  // Most places are cut already: asking is in line, cutting is not.
  void cut(std::int32_t segment) {
    if ((word(segment) & bit(segment)) == 0) [[unlikely]]
      begin_run(segment);
  }
  [[gnu::noinline]] void begin_run(std::int32_t segment) {
    sextant::at(values_, segment) = sextant::at(values_, run_of(segment));
    word(segment) |= bit(segment);
  }
  void join(SegmentRange range) {
    for (std::int32_t run = run_after(range.begin); run < range.end; run = run_after(run))
      word(run) &= ~bit(run);
  }

  std::vector<Value> values_;          // by segment, of use where a run begins
  std::vector<std::uint64_t> begins_;  // one bit per segment: a run begins
};

}  // namespace sextant
