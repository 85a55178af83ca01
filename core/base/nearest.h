// The valid name that a mistyped one most likely meant, for errors about unknown names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace sextant {

// Insertions, deletions, substitutions and swaps of neighbours that turn one text into the other;
// upper and lower case are equal.
std::size_t edit_distance(std::string_view a, std::string_view b);

// The closest of `valid`, the first among equals; nothing when none shares at least half of the
// characters, because a far-fetched guess misleads.
std::optional<std::string> nearest(std::string_view text, std::span<const std::string> valid);

// ", did you mean 'x'?" or nothing.
std::string did_you_mean(std::string_view text, std::span<const std::string> valid);

// "a, b, c".
std::string comma_list(std::span<const std::string> names);
std::string comma_list(std::span<const std::int64_t> numbers);

}  // namespace sextant
