// Settings in one text, "nodes=2,leaf=8" or "mtbf=50000h every=30min": the form that options of the
// command line share. What keys there are, and what their values mean, is the caller's.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sextant {

struct Setting {
  std::string key, value;
};

// Between settings stands one of `separators`; blanks may stand side by side, commas may not.
// Throws Error(kUsage), starting with `whole` in quotes, for a setting without key or value and for
// a key that is given twice. An empty text has no settings.
std::vector<Setting> parse_settings(std::string_view text, std::string_view separators,
                                    std::string_view whole);

}  // namespace sextant
