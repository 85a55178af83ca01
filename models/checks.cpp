// One message for each kind of range.
#include "models/checks.h"

#include "core/base/check.h"

namespace sextant::importers {

void require_size(std::string_view model, std::string_view what, std::int64_t value,
                  std::int64_t most) {
  require(value >= 1 && value <= most, ErrorCode::kBadInput, "{}: {} is {}, wanted 1 to {}", model,
          what, value, most);
}

void require_share(std::string_view model, std::string_view what, double value) {
  require(value >= 0 && value < 1, ErrorCode::kBadInput,
          "{}: the {} is {}, wanted 0 or more and less than 1", model, what, value);
}

}  // namespace sextant::importers
