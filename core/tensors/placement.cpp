// Placements: coordinates of devices and text.
#include "core/tensors/placement.h"

#include "core/base/check.h"

#include <algorithm>
#include <charconv>

namespace sextant {
namespace {

std::optional<Rank> repeated_rank(std::vector<Rank> ranks) {
  std::sort(ranks.begin(), ranks.end());
  const auto twice = std::adjacent_find(ranks.begin(), ranks.end());
  return twice == ranks.end() ? std::nullopt : std::optional(*twice);
}

// The number of devices of a mesh; refuses extents below one and products beyond all clusters.
std::int64_t checked_product(const std::vector<MeshAxis>& axes, std::string_view text) {
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  std::int64_t product = 1;
  for (const MeshAxis& axis : axes) {
    require(axis.extent >= 1, ErrorCode::kUsage,
            "{}: the axis '{}' has extent {}, wanted 1 or more", text, axis.name, axis.extent);
    require(axis.extent <= kMost / product, ErrorCode::kUsage, "{}: more than 2^30 devices", text);
    product *= axis.extent;
  }
  return product;
}

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

[[noreturn]] void refuse_axes(std::string_view text, std::size_t at, std::string_view wanted) {
  fail(ErrorCode::kUsage, "'{}' is not a mesh: wanted {} at column {} of a text like [dp=2, tp=4]",
       text, wanted, at + 1);
}

[[noreturn]] void refuse_devices(std::string_view text, std::size_t at, std::string_view wanted) {
  fail(ErrorCode::kUsage, "'{}' names no devices: wanted {} at column {} of a list like {{0-3, 8}}",
       text, wanted, at + 1);
}

char peek(std::string_view text, std::size_t at) { return at < text.size() ? text[at] : '\0'; }

void skip_blanks(std::string_view text, std::size_t& at) {
  while (peek(text, at) == ' ') ++at;
}

MeshAxis read_axis(std::string_view text, std::size_t& at) {
  const std::size_t begin = at;
  while (is_name_character(peek(text, at))) ++at;
  if (at == begin) refuse_axes(text, at, "an axis name");
  MeshAxis axis{.name = std::string(text.substr(begin, at - begin)), .extent = 0};
  if (peek(text, at) != '=') refuse_axes(text, at, "'='");
  ++at;
  const auto [after, failure] =
      std::from_chars(text.data() + at, text.data() + text.size(), axis.extent);
  if (failure != std::errc()) refuse_axes(text, at, "an extent");
  at = static_cast<std::size_t>(after - text.data());
  return axis;
}

Rank read_device(std::string_view text, std::size_t& at) {
  std::int32_t value = -1;
  const auto [after, failure] = std::from_chars(text.data() + at, text.data() + text.size(), value);
  if (failure != std::errc() || value < 0 || value >= kMostDevices)
    refuse_devices(text, at, "a device from 0 to 2^20 - 1");
  at = static_cast<std::size_t>(after - text.data());
  return Rank(value);
}

// "4" or "4-7" or "7-4".
void append_run(std::string_view text, std::size_t& at, std::vector<Rank>& ranks) {
  const std::int32_t first = read_device(text, at).value;
  std::int32_t last = first;
  if (peek(text, at) == '-') last = read_device(text, ++at).value;
  const std::int32_t step = last < first ? -1 : 1;
  for (std::int32_t value = first; value != last; value += step) ranks.push_back(Rank(value));
  ranks.push_back(Rank(last));
  require(static_cast<std::int64_t>(ranks.size()) <= kMostDevices, ErrorCode::kUsage,
          "'{}' lists more than 2^20 devices", text);
}

// Devices from the front on that follow each other upwards.
std::size_t run_length(std::span<const Rank> ranks) {
  std::size_t length = 1;
  while (length < ranks.size() && ranks[length].value == ranks[length - 1].value + 1) ++length;
  return length;
}

}  // namespace

std::vector<std::int64_t> Placement::hierarchy() const {
  std::vector<std::int64_t> extents;
  extents.reserve(axes.size());
  for (const MeshAxis& axis : axes) extents.push_back(axis.extent);
  return extents;
}

std::vector<std::int64_t> Placement::coordinates_of(std::size_t index_in_ranks) const {
  std::vector<std::int64_t> coordinates(axes.size());
  auto rest = static_cast<std::int64_t>(index_in_ranks);
  for (std::size_t axis = axes.size(); axis-- > 0;) {
    coordinates[axis] = rest % axes[axis].extent;
    rest /= axes[axis].extent;
  }
  return coordinates;
}

std::size_t Placement::index_of_coordinates(const std::vector<std::int64_t>& coordinates) const {
  std::int64_t index = 0;
  for (std::size_t axis = 0; axis < axes.size(); ++axis)
    index = index * axes[axis].extent + coordinates[axis];
  return static_cast<std::size_t>(index);
}

std::optional<std::size_t> Placement::index_of(Rank rank) const {
  const auto found = std::find(ranks.begin(), ranks.end(), rank);
  if (found == ranks.end()) return std::nullopt;
  return static_cast<std::size_t>(found - ranks.begin());
}

void validate(const Placement& placement) {
  const std::string text = to_string(placement);
  const std::int64_t product = checked_product(placement.axes, text);
  require(product == placement.size(), ErrorCode::kUsage,
          "{} has {} coordinates but {} devices were given", text, product, placement.size());
  for (const Rank rank : placement.ranks)
    require(rank.is_valid(), ErrorCode::kUsage, "{}: {} is not a device", text, rank.value);
  const std::optional<Rank> twice = repeated_rank(placement.ranks);
  require(!twice, ErrorCode::kUsage, "{}: the device {} is named twice", text,
          twice.value_or(Rank()).value);
}

std::string to_string(const Placement& placement) { return to_string(placement.axes); }

std::string to_string(const std::vector<MeshAxis>& axes) {
  std::string text = "[";
  for (std::size_t axis = 0; axis < axes.size(); ++axis)
    text += fmt::format("{}{}={}", axis == 0 ? "" : ", ", axes[axis].name, axes[axis].extent);
  return text + "]";
}

std::vector<MeshAxis> parse_mesh_axes(std::string_view text) {
  std::size_t at = 0;
  std::vector<MeshAxis> axes = read_mesh_axes(text, at);
  if (at != text.size()) refuse_axes(text, at, "the end");
  return axes;
}

std::vector<MeshAxis> read_mesh_axes(std::string_view text, std::size_t& at) {
  const std::size_t begin = at;
  std::vector<MeshAxis> axes;
  if (peek(text, at) != '[') refuse_axes(text, at, "'['");
  skip_blanks(text, ++at);
  while (peek(text, at) != ']' || !axes.empty()) {
    skip_blanks(text, at);
    MeshAxis axis = read_axis(text, at);
    for (const MeshAxis& other : axes)
      require(other.name != axis.name, ErrorCode::kUsage, "{} names the axis '{}' twice", text,
              axis.name);
    axes.push_back(std::move(axis));
    skip_blanks(text, at);
    if (peek(text, at) == ']') break;
    if (peek(text, at) != ',') refuse_axes(text, at, "',' or ']'");
    ++at;
  }
  ++at;
  checked_product(axes, text.substr(begin, at - begin));
  return axes;
}

std::string device_list(std::span<const Rank> ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    const std::size_t run = run_length(ranks.subspan(i));
    text += fmt::format("{}{}", i == 0 ? "" : ", ", ranks[i].value);
    if (run >= 3) text += fmt::format("-{}", ranks[i + run - 1].value);
    i += run >= 3 ? run : 1;
  }
  return "{" + text + "}";
}

bool is_counted_from_zero(std::span<const Rank> ranks) {
  return ranks.empty() || (ranks.front() == Rank(0) && run_length(ranks) == ranks.size());
}

std::vector<Rank> read_device_list(std::string_view text, std::size_t& at) {
  std::vector<Rank> ranks;
  if (peek(text, at) != '{') refuse_devices(text, at, "'{'");
  skip_blanks(text, ++at);
  while (peek(text, at) != '}' || !ranks.empty()) {
    skip_blanks(text, at);
    append_run(text, at, ranks);
    skip_blanks(text, at);
    if (peek(text, at) == '}') break;
    if (peek(text, at) != ',') refuse_devices(text, at, "',', '-' or '}'");
    ++at;
  }
  ++at;
  const std::optional<Rank> twice = repeated_rank(ranks);
  require(!twice, ErrorCode::kUsage, "'{}' names the device {} twice: all must be different", text,
          twice.value_or(Rank()).value);
  return ranks;
}

Placement consecutive_placement(std::vector<MeshAxis> axes, Rank first) {
  const std::int64_t count = checked_product(axes, to_string(axes));
  Placement placement{.axes = std::move(axes), .ranks = {}};
  placement.ranks.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i)
    placement.ranks.push_back(Rank(static_cast<std::size_t>(first.value + i)));
  return placement;
}

}  // namespace sextant
