// Read from the right, because models have colons.
#include "experiments/step_text.h"

#include "core/base/check.h"

#include <algorithm>
#include <charconv>
#include <limits>

namespace sextant {

namespace {

std::int64_t count_of(std::string_view part, std::string_view whole) {
  std::int64_t count = 0;
  const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), count);
  require(error == std::errc() && end == part.data() + part.size() && count > 0 &&
              count <= std::numeric_limits<std::int32_t>::max(),
          ErrorCode::kUsage,
          "'{}' is not MODEL:BATCHxSEQUENCE or MODEL:BATCHxSEQUENCE:LAYERS: '{}'", whole, part);
  return count;
}

}  // namespace

StepText parse_step(std::string_view text) {
  StepText step;
  std::string_view rest = text;
  const auto take_last = [&] {
    const std::size_t colon = rest.rfind(':');
    require(colon != std::string_view::npos && colon > 0, ErrorCode::kUsage,
            "'{}' is not MODEL:BATCHxSEQUENCE", text);
    const std::string_view part = rest.substr(colon + 1);
    rest = rest.substr(0, colon);
    return part;
  };
  std::string_view sizes = take_last();
  if (sizes.find('x') == std::string_view::npos) {
    step.layers = count_of(sizes, text);
    sizes = take_last();
  }
  const std::size_t cross = std::min(sizes.find('x'), sizes.size());
  step.batch = count_of(sizes.substr(0, cross), text);
  step.sequence = count_of(sizes.substr(std::min(cross + 1, sizes.size())), text);
  step.model = std::string(rest);
  return step;
}

}  // namespace sextant
