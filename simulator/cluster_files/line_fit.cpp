// Weighted least squares in closed form, and all places where the sizes can be cut.
#include "simulator/cluster_files/line_fit.h"

#include <algorithm>
#include <cmath>

namespace sextant {

namespace {

// Minimises the sum of ((fixed + per_byte * bytes) / seconds - 1)^2, neither of the two negative.
TimeLine fit(std::span<const TimedSize> sizes) {
  double s11 = 0, s12 = 0, s22 = 0, r1 = 0, r2 = 0;
  for (const TimedSize& size : sizes) {
    const double one = 1 / size.seconds, bytes = size.bytes / size.seconds;
    s11 += one * one;
    s12 += one * bytes;
    s22 += bytes * bytes;
    r1 += one;
    r2 += bytes;
  }
  const double determinant = s11 * s22 - s12 * s12;
  TimeLine line;
  if (determinant > 0) {
    line.fixed = (r1 * s22 - r2 * s12) / determinant;
    line.per_byte = (r2 * s11 - r1 * s12) / determinant;
  }
  if (!(line.fixed >= 0)) line = {0, r2 / s22};
  if (!(line.per_byte > 0) || determinant <= 0) line = {r1 / s11, 0};
  return line;
}

double relative_error(const std::vector<TimeLine>& lines, const TimedSize& size) {
  double least = INFINITY;
  for (const TimeLine& line : lines)
    least = std::min(least, line.fixed + line.per_byte * size.bytes);
  return least / size.seconds - 1;
}

double squares(const std::vector<TimeLine>& lines, std::span<const TimedSize> sizes) {
  double sum = 0;
  for (const TimedSize& size : sizes) sum += std::pow(relative_error(lines, size), 2);
  return sum;
}

// Whether each line is lowest somewhere behind the ones before it.
bool take_turns(const std::vector<TimeLine>& lines) {
  for (std::size_t i = 1; i < lines.size(); ++i)
    if (lines[i - 1].per_byte <= lines[i].per_byte || lines[i - 1].fixed >= lines[i].fixed)
      return false;
  return true;
}

// Cuts `sizes` into `lines` parts of two sizes or more in all ways; keeps in `best` what is below
// `least`.
void fit_parts(std::span<const TimedSize> sizes, std::span<const TimedSize> rest, int lines,
               std::vector<TimeLine>& made, double& least, std::vector<TimeLine>& best) {
  if (lines == 1) {
    made.push_back(fit(rest));
    if (const double sum = squares(made, sizes); sum < least && take_turns(made)) {
      least = sum;
      best = made;
    }
    made.pop_back();
    return;
  }
  for (std::size_t cut = 2; cut + 2 * static_cast<std::size_t>(lines - 1) <= rest.size(); ++cut) {
    made.push_back(fit(rest.first(cut)));
    fit_parts(sizes, rest.subspan(cut), lines - 1, made, least, best);
    made.pop_back();
  }
}

}  // namespace

LineFit fit_lines(std::span<const TimedSize> sizes, int most_lines, double share) {
  // Nearer than this on the average, and what is left is rounding.
  const double enough = 1e-6 * static_cast<double>(sizes.size());
  LineFit best{.lines = {fit(sizes)}, .worst = 0};
  for (int lines = 2; lines <= most_lines; ++lines) {
    const double before = squares(best.lines, sizes);
    if (before <= enough) break;
    double least = before * share * share;
    std::vector<TimeLine> made;
    fit_parts(sizes, sizes, lines, made, least, best.lines);
  }
  for (const TimedSize& size : sizes)
    best.worst = std::max(best.worst, std::abs(relative_error(best.lines, size)));
  return best;
}

}  // namespace sextant
