// Lists in options and settings: "0,1", "tp,dp,pp", "tp=2 zero=1".
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

namespace sextant {

// What stands between the separators, empty parts included; a text without one is one part.
inline std::vector<std::string_view> split_text(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

// Words between blanks, tabs and ends of lines; none is empty.
inline std::vector<std::string_view> split_words(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\n";
  std::vector<std::string_view> words;
  for (std::size_t begin = 0; begin < text.size();) {
    begin = std::min(text.find_first_not_of(kBlanks, begin), text.size());
    const std::size_t end = std::min(text.find_first_of(kBlanks, begin), text.size());
    if (end > begin) words.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return words;
}

}  // namespace sextant
