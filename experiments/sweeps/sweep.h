// Runs the points of a sweep that no kept row answers, side by side, and keeps each row as it
// comes.
#pragma once

#include "experiments/sweeps/row.h"

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace sextant {

// What an exception that leaves it says becomes the row's error; of one that is no Error, or of a
// value that is not finite, the code is "internal". From several threads.
using EvaluatePoint = std::function<PointResult(const SweepPoint&)>;

struct Sweep {
  std::string experiment;
  std::vector<SweepPoint> points;
  // Measured points run alone, in their order, behind all others; these run side by side.
  EvaluatePoint evaluate;
};

struct SweepOutcome {
  std::vector<SweepRow> rows;  // one per point, in their order
  std::size_t reused = 0;      // rows that were kept already: values, and errors that are answers
  std::size_t failed = 0;      // points that ended with an error
};

struct SweepProgress {
  std::size_t done = 0, total = 0;  // of the points that this process computes
  std::string point;                // that ended last
};

// Which of the points that are computed are this process's, where several share a sweep: every
// `count`-th, beginning with `index`; those that are measured are the first's, which must have
// waited for the others before.
struct SweepShare {
  std::size_t index = 0, count = 1;
};

struct SweepHost {
  std::vector<SweepRow> kept = {};  // rows of earlier runs
  // Takes each new row as it comes, one at a time; empty: nobody does. Where it throws, no further
  // point is begun.
  std::function<void(const SweepRow&)> keep = {};
  // Hears from any thread, but never two at once; may be empty.
  std::function<void(const SweepProgress&)> progress = {};
  SweepShare share = {};
};

// Rows that are not this process's stay empty: they have no key. Throws Error(kUsage) for two
// points of one name, and what `keep` throws.
SweepOutcome run_sweep(const Sweep& sweep, const RowOrigin& origin, const SweepHost& host = {});

// Throws Error(kUsage) for two points of one name.
void require_unique_points(const std::vector<SweepPoint>& points);

// Puts rows that others computed into the places that stayed empty, and counts anew. Throws
// Error(kInternal) for a row of no point.
void fill_in(SweepOutcome& outcome, const Sweep& sweep, const std::vector<SweepRow>& rows);

}  // namespace sextant
