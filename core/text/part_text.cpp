// One more decimal at a time.
#include "core/text/part_text.h"

#include "core/text/quantity_text.h"

#include <fmt/core.h>

namespace sextant {

std::string part_text(Bytes part, Bytes whole) {
  std::string first = to_text(part), second = to_text(whole);
  if (first == second && part != whole) {
    const std::string unit = second.substr(second.find(' ') + 1);
    const auto size = static_cast<double>(parse_bytes("1 " + unit).value);
    const auto text = [&](Bytes bytes, int decimals) {
      return fmt::format("{:.{}f} {}", static_cast<double>(bytes.value) / size, decimals, unit);
    };
    // A byte of a PiB is the sixteenth decimal.
    for (int decimals = 1; decimals <= 16 && first == second; ++decimals) {
      first = text(part, decimals);
      second = text(whole, decimals);
    }
  }
  return first + " of " + second;
}

}  // namespace sextant
