// Times of a collective by size as one line, or as the lower of two: one protocol is quick to
// start, the other fast.
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
  double worst = 0;             // largest relative error of the lower line
};

// Least squares of relative errors; two lines where they halve the root mean square error. At least
// two sizes, ascending, all times above zero.
LineFit fit_lines(std::span<const TimedSize> sizes, bool may_be_two);

}  // namespace sextant
