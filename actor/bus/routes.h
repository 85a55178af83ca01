// The ways of a message to an actor, and how many went each.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace sextant {

enum class Route : std::uint8_t { kSameThread, kOtherThread, kOtherProcess };
inline constexpr std::size_t kNumRoutes = 3;

// Messages that one thread has posted, by route.
struct RouteCounts {
  std::array<std::int64_t, kNumRoutes> posted{};
  std::int64_t& of(Route route) { return posted[static_cast<std::size_t>(route)]; }
  std::int64_t of(Route route) const { return posted[static_cast<std::size_t>(route)]; }
};

}  // namespace sextant
