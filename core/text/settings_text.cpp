// Splits at separators, then at the first '='.
#include "core/text/settings_text.h"

#include "core/base/check.h"

#include <algorithm>

namespace sextant {

namespace {

Setting setting_of(std::string_view item, std::string_view whole) {
  const std::size_t equals = item.find('=');
  require(equals != std::string_view::npos && equals > 0 && equals + 1 < item.size(),
          ErrorCode::kUsage, "'{}': '{}' is not of the form key=value", whole, item);
  return {std::string(item.substr(0, equals)), std::string(item.substr(equals + 1))};
}

}  // namespace

std::vector<Setting> parse_settings(std::string_view text, std::string_view separators,
                                    std::string_view whole) {
  std::vector<Setting> settings;
  const bool blanks = separators.find(' ') != std::string_view::npos;
  for (std::size_t begin = 0; !text.empty() && begin <= text.size();) {
    const std::size_t end = std::min(text.find_first_of(separators, begin), text.size());
    const std::string_view item = text.substr(begin, end - begin);
    begin = end + 1;
    if (item.empty() && blanks) continue;
    Setting setting = setting_of(item, whole);
    const bool is_new = std::none_of(settings.begin(), settings.end(), [&](const Setting& before) {
      return before.key == setting.key;
    });
    require(is_new, ErrorCode::kUsage, "'{}': the key '{}' appears twice", whole, setting.key);
    settings.push_back(std::move(setting));
  }
  return settings;
}

}  // namespace sextant
