// Where: an ordered set of devices with a named hierarchy of mesh axes, `[dp=2, tp=4]`.
#pragma once

#include "core/base/ids.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

inline constexpr std::int64_t kMostDevices = std::int64_t{1} << 20;  // of any cluster

struct MeshAxis {
  std::string name;
  std::int64_t extent = 1;
  bool operator==(const MeshAxis&) const = default;
};

// The device at coordinates (c0, c1, ...) is `ranks[c0 * extent1 * ... + c1 * ... + ...]`.
struct Placement {
  std::vector<MeshAxis> axes;  // major to minor
  std::vector<Rank> ranks;     // as many as the product of the extents, all different

  std::int64_t size() const { return static_cast<std::int64_t>(ranks.size()); }
  // The extents of the axes, and the place of a device along each: row-major, the last axis
  // fastest.
  std::vector<std::int64_t> hierarchy() const;
  std::vector<std::int64_t> coordinates_of(std::size_t index_in_ranks) const;
  std::size_t index_of_coordinates(const std::vector<std::int64_t>& coordinates) const;
  std::optional<std::size_t> index_of(Rank rank) const;  // in ranks; nothing: not of this placement
  bool operator==(const Placement&) const = default;
};

// Throws Error(kUsage) for a repeated device, an extent below one or a product that is not the
// number of ranks.
void validate(const Placement& placement);

std::string to_string(const Placement& placement);  // "[dp=2, tp=4]", ranks not shown
std::string to_string(const std::vector<MeshAxis>& axes);
// "[dp=2, tp=4]" -> axes. Throws Error(kUsage) with the column, or naming a repeated axis or an
// extent below one.
std::vector<MeshAxis> parse_mesh_axes(std::string_view text);
// Parses axes inside a longer text, from `at` on; moves `at` behind the ']'. Throws what
// parse_mesh_axes throws.
std::vector<MeshAxis> read_mesh_axes(std::string_view text, std::size_t& at);

// Devices in their order, runs of three and more shortened: "{0-3, 8, 10}".
std::string device_list(std::span<const Rank> ranks);
// True for 0, 1, 2, ...: devices that need no list.
bool is_counted_from_zero(std::span<const Rank> ranks);
// "{0-3, 8, 10}" inside a longer text, from `at` on; moves `at` behind the '}'. Runs may go down.
// Throws Error(kUsage) with the column, or naming a device that is given twice.
std::vector<Rank> read_device_list(std::string_view text, std::size_t& at);

// The devices first, first + 1, ... in the order of their coordinates.
Placement consecutive_placement(std::vector<MeshAxis> axes, Rank first = Rank(0));

}  // namespace sextant
