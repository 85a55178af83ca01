// Why a step takes as long as it does: the chain of launches that bounds it, and how much later
// each other launch could end. Of a tape that was evaluated, in which times are maxima of sums.
#pragma once

#include "actor/tapes/tape.h"
#include "core/base/units.h"
#include "core/costs/cost_model.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace sextant {

// What time passes in.
enum class PathPart : std::uint8_t { kCompute, kCommunication, kHost };

std::string_view to_string(PathPart part);

struct PathSegment {
  std::int32_t entry = 0;  // of the tape
  PathPart part = PathPart::kCompute;
  Time begin, end;  // since the end of the step before
};

struct CriticalPath {
  // In order, without gaps, up to the end of the step. They fill the whole step time, unless the
  // last step simulated was not yet like the one before it.
  std::vector<PathSegment> segments;
  // By tape entry: ending later by as much, once, moves no end of a step.
  std::vector<Duration> slack;
  // The step repeats the one before, picosecond for picosecond.
  bool steady = false;
};

// `times` are of `tape` under `options`, with `launch_cost` per launch and `network`. Where several
// chains are equally long, waits for devices are named before waits for the host. Members of a
// communication wait for its last one.
CriticalPath critical_path(const Tape& tape, const TapeTimes& times, const NetworkModel& network,
                           Duration launch_cost, const TapeOptions& options);

}  // namespace sextant
