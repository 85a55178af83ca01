// Weighted least squares in closed form, and all places where the sizes can be cut in two.
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

}  // namespace

LineFit fit_lines(std::span<const TimedSize> sizes, bool may_be_two) {
  LineFit best{.lines = {fit(sizes)}, .worst = 0};
  double least = squares(best.lines, sizes) / 4;
  for (std::size_t cut = 2; may_be_two && cut + 2 <= sizes.size(); ++cut) {
    const std::vector<TimeLine> two = {fit(sizes.first(cut)), fit(sizes.subspan(cut))};
    const double sum = squares(two, sizes);
    if (!(sum < least) || two[0].per_byte <= two[1].per_byte || two[0].fixed >= two[1].fixed)
      continue;
    least = sum;
    best.lines = two;
  }
  for (const TimedSize& size : sizes)
    best.worst = std::max(best.worst, std::abs(relative_error(best.lines, size)));
  return best;
}

}  // namespace sextant
