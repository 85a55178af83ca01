// Strong integer ids: an index into one kind of table cannot be used for another.
#pragma once

#include <fmt/core.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace sextant {

// A place in the tables of one kind, 0, 1, 2, ..., or `none`, which is no place and less than all.
template <typename Tag>
struct Id {
  static const Id none;

  std::int32_t value = -1;

  constexpr Id() = default;
  constexpr explicit Id(std::size_t index) : value(static_cast<std::int32_t>(index)) {}
  constexpr explicit Id(int index) : value(index) {}
  constexpr bool is_valid() const { return value >= 0; }
  constexpr std::size_t index() const { return static_cast<std::size_t>(value); }
  // The id `count` places behind this one.
  constexpr Id plus(std::int32_t count) const { return Id(value + count); }
  constexpr Id& operator++() {
    ++value;
    return *this;
  }
  constexpr auto operator<=>(const Id&) const = default;
};

template <typename Tag>
inline constexpr Id<Tag> Id<Tag>::none{};

// Logical graph.
using TensorId = Id<struct TensorTag>;
using OpId = Id<struct OpTag>;
// Physical graph (see core/graphs/physical_graph.h).
using BlockId = Id<struct BlockTag>;
using InstanceId = Id<struct InstanceTag>;
using ProgramId = Id<struct ProgramTag>;
using GroupId = Id<struct GroupTag>;
using LayoutId = Id<struct LayoutTag>;
using PlacementId = Id<struct PlacementTag>;
using RunId = Id<struct RunTag>;
using LaunchGroupId = Id<struct LaunchGroupTag>;  // of one program
// A device of the cluster = a rank of the job: 0 .. number of devices - 1.
using Rank = Id<struct RankTag>;

}  // namespace sextant

template <typename Tag>
struct std::hash<sextant::Id<Tag>> {
  std::size_t operator()(sextant::Id<Tag> id) const noexcept {
    return std::hash<std::int32_t>{}(id.value);
  }
};

// In texts an id is its number.
template <typename Tag>
struct fmt::formatter<sextant::Id<Tag>> {
  constexpr auto parse(fmt::format_parse_context& context) { return context.begin(); }
  template <typename Context>
  auto format(sextant::Id<Tag> id, Context& context) const {
    return fmt::format_to(context.out(), "{}", id.value);
  }
};
