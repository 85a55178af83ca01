// Numbers with what they count, for people: "1 rank", "2 ranks", "0 ranks".
#pragma once

#include <fmt/core.h>

#include <concepts>
#include <string>
#include <string_view>

namespace sextant {

template <std::integral Count>
std::string counted(Count count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

// With the plural that the noun's end asks for: ranks, strategies, batches. Others are spelled out.
template <std::integral Count>
std::string counted(Count count, std::string_view noun) {
  std::string many(noun);
  const bool hisses =
      noun.ends_with("ch") || noun.ends_with("sh") || noun.ends_with('s') || noun.ends_with('x');
  const bool has_vowel =
      noun.size() > 1 && std::string_view("aeiou").find(noun[noun.size() - 2]) != noun.npos;
  if (noun.ends_with('y') && !has_vowel)
    many.replace(many.size() - 1, 1, "ies");
  else
    many += hisses ? "es" : "s";
  return counted(count, noun, many);
}

}  // namespace sextant
