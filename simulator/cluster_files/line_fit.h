// Times of a collective by size as one line, or as the lowest of some: one protocol is quick to
// start, another fast.
#pragma once

#include <span>
#include <vector>

namespace sextant {

struct TimedSize {
  double bytes = 0, seconds = 0;
};

struct TimeLine {
  double fixed = 0;     // s
  double per_byte = 0;  // s/B
};

struct LineFit {
  std::vector<TimeLine> lines;  // the one for small sizes first
  double worst = 0;             // largest relative error of the lowest line
};

// Least squares of relative errors; another line where it brings the root mean square error down to
// this share of what it was. At least two sizes, ascending, all times above zero.
LineFit fit_lines(std::span<const TimedSize> sizes, int most_lines, double share = 0.5);

}  // namespace sextant
