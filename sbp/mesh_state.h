// Words of a tensor on one mesh, packed into an integer, so that the planner can look states up
// and change one axis at a time. Internal to sbp/.
#pragma once

#include "core/tensors/placement.h"
#include "core/tensors/sbp.h"
#include "core/tensors/shape.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace sextant {

inline constexpr std::size_t kMaxMeshAxes = 7;  // one byte of a state stays free

// One byte per mesh axis: 0 = B; 1, 2, 3 = P(sum), P(max), P(min); 1ddddnnn = S(d) with nesting
// position n among the splits of d, 0 = outermost. Axes of extent 1 are always B.
class MeshState {
 public:
  MeshState() = default;
  // Throws Error(kUsage) for words that do not fit the mesh or the tensor, Error(kInfeasible) for
  // two different reductions.
  MeshState(const NdSbp& words, std::span<const std::int64_t> extents, const Shape& global);

  bool is_broadcast(std::size_t axis) const { return byte(axis) == 0; }
  bool is_split(std::size_t axis) const { return (byte(axis) & 0x80U) != 0; }
  bool is_partial(std::size_t axis) const { return byte(axis) != 0 && !is_split(axis); }
  std::size_t dim(std::size_t axis) const { return (byte(axis) >> 3U) & 15U; }
  std::size_t nesting(std::size_t axis) const { return byte(axis) & 7U; }
  ReduceOp reduction(std::size_t axis) const { return static_cast<ReduceOp>(byte(axis) - 1U); }

  bool has_partial() const { return pending_reduction().has_value(); }
  std::optional<ReduceOp> pending_reduction() const;  // nothing: no word is partial
  // True when no split of the same dim lies inside the split of this axis.
  bool is_innermost(std::size_t axis) const;
  // Changes of one axis. A split to be replaced must be innermost, a new one becomes innermost.
  MeshState with_broadcast(std::size_t axis) const { return with(axis, 0); }
  MeshState with_partial(std::size_t axis, ReduceOp op) const {
    return with(axis, static_cast<std::uint64_t>(op) + 1);
  }
  MeshState with_split(std::size_t axis, std::size_t dim) const;

  NdSbp words(std::size_t num_axes) const;
  std::uint64_t code() const { return code_; }
  auto operator<=>(const MeshState&) const = default;

 private:
  friend bool is_local_change(const MeshState& a, const MeshState& b,
                              std::span<const std::int64_t> extents);
  friend std::optional<std::uint32_t> exchanged_axes(const MeshState& a, const MeshState& b,
                                                     std::span<const std::int64_t> extents);
  bool keeps_split(const MeshState& after, std::size_t axis,
                   std::span<const std::int64_t> extents) const;
  // Of the split of a dim at a nesting position; 1 where there is none.
  std::int64_t parts_at(std::size_t dim, std::size_t position,
                        std::span<const std::int64_t> extents) const;
  std::uint64_t byte(std::size_t axis) const { return (code_ >> (8 * axis)) & 0xFFU; }
  MeshState with(std::size_t axis, std::uint64_t value) const;

  std::uint64_t code_ = 0;
};

// Whether each device can make what it holds under `b` of what it holds under `a`: B becomes
// anything, a split partial, and splits that stay cut the same parts.
bool is_local_change(const MeshState& a, const MeshState& b, std::span<const std::int64_t> extents);

// Bit set of the axes over which an all_to_all changes one state into the other: those whose words
// change other than from B to a split, which each device slices, and those whose splits lie inside
// splits of the same dim that cut other numbers of parts afterwards. Nothing where there are none
// or one of them is partial. Devices that agree on all other axes hold together what they want.
std::optional<std::uint32_t> exchanged_axes(const MeshState& a, const MeshState& b,
                                            std::span<const std::int64_t> extents);

// Numbers for states, in the order of their coming. A table that is only looked up.
class StateTable {
 public:
  StateTable();
  // The number of `state`, a new one if it has none yet.
  std::uint32_t add(const MeshState& state);
  // kNone for states that were never added.
  std::uint32_t find(const MeshState& state) const { return slots_[slot_of(state)]; }
  const MeshState& operator[](std::uint32_t number) const { return states_[number]; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(states_.size()); }

  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

 private:
  std::size_t slot_of(const MeshState& state) const;

  std::vector<MeshState> states_;
  std::vector<std::uint32_t> slots_;  // a power of two, at most half of it taken
};

// The splits of a state, outermost first within each dim, to narrow boxes without allocation.
class Cuts {
 public:
  Cuts(const MeshState& state, std::span<const std::int64_t> extents);
  // Narrows `box` (the whole tensor) to the part of the device at `coordinates`.
  void narrow(std::span<Interval> box, std::span<const std::int64_t> coordinates) const;

  struct Cut {
    std::uint8_t dim = 0, axis = 0;
    std::int64_t parts = 1;
  };
  std::span<const Cut> all() const { return {cuts_.data(), size_}; }

 private:
  std::array<Cut, kMaxMeshAxes> cuts_;
  std::size_t size_ = 0;
};

// Elements that devices hold under both states, summed over all devices.
std::int64_t elements_in_place(const Shape& global, std::span<const std::int64_t> extents,
                               const MeshState& a, const MeshState& b);

}  // namespace sextant
