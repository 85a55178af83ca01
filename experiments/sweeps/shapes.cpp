// A ratio against its bound, with both values in the text.
#include "experiments/sweeps/shapes.h"

#include <fmt/core.h>

namespace sextant {

ShapeClaim ratio_shape(const ResultRows& rows, std::string statement, const RowQuantity& quantity,
                       const std::string& first, const std::string& second,
                       const RatioBound& bound) {
  const auto one = rows.value(first, quantity.key), other = rows.value(second, quantity.key);
  if (!one || !other || *other == 0)
    return {std::move(statement), std::nullopt,
            fmt::format("{} has no {}", one ? second : first, quantity.text)};
  const double ratio = *one / *other;
  std::string detail = fmt::format("{}: {:.4g} at {}, {:.4g} at {}, ratio {:.2f}", quantity.text,
                                   *one, first, *other, second, ratio);
  const auto one_there = rows.reference(first, quantity.key);
  const auto other_there = rows.reference(second, quantity.key);
  if (one_there && other_there && *other_there != 0)
    detail += fmt::format("; published {:.2f}", *one_there / *other_there);
  return {std::move(statement), ratio >= bound.least && ratio <= bound.most, std::move(detail)};
}

}  // namespace sextant
