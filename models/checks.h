// Ranges of values that several architectures have. Internal to models.
#pragma once

#include <cstdint>
#include <string_view>

namespace sextant::importers {

// 1 to `most`. Both throw Error(kBadInput) naming model and value.
void require_size(std::string_view model, std::string_view what, std::int64_t value,
                  std::int64_t most);
// 0 or more and less than 1.
void require_share(std::string_view model, std::string_view what, double value);

}  // namespace sextant::importers
