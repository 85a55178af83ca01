// Runs the points of a sweep that no kept row answers, side by side, and keeps each row as it
// comes.
#pragma once

#include "experiments/sweeps/results_file.h"
#include "experiments/sweeps/row.h"

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace sextant {

// What an Error that leaves it says becomes the row's error; other exceptions go on. From several
// threads.
using EvaluatePoint = std::function<PointResult(const SweepPoint&)>;

struct Sweep {
  std::string experiment;
  std::vector<SweepPoint> points;
  EvaluatePoint evaluate;
  // What is measured runs alone, in order; everything else side by side.
  bool is_parallel = true;
};

struct SweepOutcome {
  std::vector<SweepRow> rows;  // one per point, in their order
  std::size_t reused = 0;      // rows that were kept already
  std::size_t failed = 0;      // points that ended with an error
};

struct SweepProgress {
  std::size_t done = 0, total = 0;
  std::string point;  // that ended last
};

// `file`: rows that are kept, and where new ones go; nullptr: none. `progress` may be empty; it
// hears from any thread but never two at once. Throws Error(kUsage) for two points of one name, and
// what ResultsFile::append throws.
SweepOutcome run_sweep(const Sweep& sweep, const RowOrigin& origin, ResultsFile* file,
                       const std::function<void(const SweepProgress&)>& progress = {});

}  // namespace sextant
