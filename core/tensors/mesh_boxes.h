// Which box each device of a mesh holds, and who brings a device what it wants when words change:
// the one rule behind all_to_all and transfers. No allocation, so that planners may ask often.
#pragma once

#include "core/tensors/placement.h"
#include "core/tensors/sbp.h"
#include "core/tensors/shape.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace sextant {

inline constexpr std::size_t kMostAxes = 16;

struct Box {
  std::array<Interval, kMaxRank> dims;
  std::uint8_t rank = 0;

  // Of the box, and of what it has in common with another of the same rank.
  std::int64_t elements() const;
  std::int64_t elements_shared_with(const Box& other) const;
  // Its dims are empty where the boxes do not meet.
  Box shared_with(const Box& other) const;
  Shard shard() const;
  bool operator==(const Box& other) const;
};

// Boxes and shares of the devices of one placement under one list of words. A share is what the
// devices at one position along the partial axes hold; the value is the reduction of all shares.
class MeshBoxes {
 public:
  using Coordinates = std::array<std::int64_t, kMostAxes>;
  // One split of a dim over an axis.
  struct Cut {
    std::uint8_t dim = 0, axis = 0;
    std::int64_t parts = 1;
  };

  // Throws Error(kUsage) where shard_of does.
  MeshBoxes(const NdSbp& words, const Placement& placement, const Shape& global);

  std::size_t num_axes() const { return num_axes_; }
  std::int64_t extent(std::size_t axis) const { return extents_[axis]; }
  // Whether both meshes have the same axes' extents, in order.
  bool has_extents_of(const MeshBoxes& other) const;
  const Box& whole() const { return whole_; }
  // Outermost first within each dim.
  std::span<const Cut> cuts() const { return {cuts_.data(), num_cuts_}; }

  // By place in the placement's ranks, and back; and what the device there holds.
  Coordinates coordinates_of(std::size_t device) const;
  std::size_t device_at(const Coordinates& coordinates) const;
  Box box_at(const Coordinates& coordinates) const;

  std::int64_t num_shares() const { return num_shares_; }
  // Shares are counted along the partial axes, the last one fastest. The second moves coordinates
  // along those axes to a share.
  std::int64_t share_of(const Coordinates& coordinates) const;
  void go_to_share(std::int64_t share, Coordinates& coordinates) const;
  // Devices that hold one box and share.
  std::int64_t num_replicas() const;
  // The copy number `turn` of the holders of one box and share; all are dealt out in turn.
  void go_to_replica(std::int64_t turn, Coordinates& coordinates) const;
  void go_to_replica_of(const Coordinates& other, Coordinates& coordinates) const;
  // The same box and share, by coordinates.
  bool hold_the_same(const Coordinates& a, const Coordinates& b) const;

 private:
  bool is_replica_axis(std::size_t axis) const {
    return ((split_axes_ | partial_axes_) >> axis & 1U) == 0;
  }
  bool is_partial_axis(std::size_t axis) const { return (partial_axes_ >> axis & 1U) != 0; }
  void add_cuts(const NdSbp& words);

  std::array<std::int64_t, kMostAxes> extents_{};
  std::array<Cut, kMostAxes> cuts_{};
  Box whole_;
  std::size_t num_axes_ = 0, num_cuts_ = 0;
  std::uint32_t split_axes_ = 0, partial_axes_ = 0;  // bit sets
  std::int64_t num_shares_ = 1;
};

// The part of a balanced split that holds `offset` of `whole`; 0 where it lies before, `parts`
// behind.
std::int64_t part_at(const Interval& whole, std::int64_t parts, std::int64_t offset);

// Which devices of one placement are devices of another.
class CommonDevices {
 public:
  CommonDevices(std::span<const Rank> sources, std::span<const Rank> destinations);
  // The number among the sources of a device that is one of the destinations.
  std::optional<std::size_t> source_of(std::size_t destination) const {
    const std::uint32_t source = sources_[destination];
    return source == kNone ? std::nullopt : std::optional<std::size_t>(source);
  }
  bool none() const { return none_; }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  std::vector<std::uint32_t> sources_;  // by destination
  bool none_ = true;
};

// Who brings what. Every share of the source goes to exactly one share of the target: to the first
// of which some copy lies on a device that holds it, else share p to share p mod m of m. Of several
// replicas a destination takes itself first, then the one with its own coordinates if both meshes
// have the same extents; otherwise they are dealt out in turn.
class Moves {
 public:
  // Borrows all.
  Moves(const MeshBoxes& from, const MeshBoxes& to, const CommonDevices& common)
      : from_(from), to_(to), common_(common), equal_meshes_(from.has_extents_of(to)) {}

  // Calls visit(source, box) for every part of what the device number `destination` of the target
  // wants; `source` is a device number too. The own device is among them.
  template <typename Visit>
  void visit_to(std::size_t destination, const Visit& visit) const {
    const MeshBoxes::Coordinates at = to_.coordinates_of(destination);
    const Box wanted = to_.box_at(at);
    if (wanted.elements() == 0) return;
    MeshBoxes::Coordinates replica{};
    if (equal_meshes_)
      from_.go_to_replica_of(at, replica);
    else
      from_.go_to_replica(static_cast<std::int64_t>(destination), replica);
    const std::optional<std::size_t> own = common_.source_of(destination);
    const MeshBoxes::Coordinates own_at =
        own ? from_.coordinates_of(*own) : MeshBoxes::Coordinates{};
    const std::int64_t own_share = to_.share_of(at);
    // On other devices no share is there already: all are dealt out in turn.
    const std::int64_t first = common_.none() ? own_share : 0;
    const std::int64_t step = common_.none() ? to_.num_shares() : 1;
    for_each_cell(0, from_.whole(), wanted, replica, [&](const Box& held) {
      for (std::int64_t share = first; share < from_.num_shares(); share += step) {
        from_.go_to_share(share, replica);
        if (!common_.none() && to_.num_shares() > 1 && share_for(share, replica, at) != own_share)
          continue;
        const bool keeps = own && from_.hold_the_same(own_at, replica);
        visit(keeps ? *own : from_.device_at(replica), held.shared_with(wanted));
      }
    });
  }

 private:
  // Walks the parts of the source's splits, outermost first, and leaves out what does not meet
  // `wanted`. Sets the split axes of `sender`.
  template <typename Visit>
  void for_each_cell(std::size_t level, const Box& box, const Box& wanted,
                     MeshBoxes::Coordinates& sender, const Visit& visit) const {
    if (level == from_.cuts().size()) return visit(box);
    const MeshBoxes::Cut& cut = from_.cuts()[level];
    const Interval& whole = box.dims[cut.dim];
    const Interval& inside = wanted.dims[cut.dim];
    for (std::int64_t part = part_at(whole, cut.parts, inside.offset); part < cut.parts; ++part) {
      const Interval own = balanced_part(whole.extent, cut.parts, part);
      Box narrowed = box;
      narrowed.dims[cut.dim] = {.offset = whole.offset + own.offset, .extent = own.extent};
      const Interval& held = narrowed.dims[cut.dim];
      if (held.offset >= inside.end()) return;
      if (held.extent == 0 || held.end() <= inside.offset) continue;
      sender[cut.axis] = part;
      for_each_cell(level + 1, narrowed, wanted, sender, visit);
    }
  }

  // The share of the target that takes `share` of the cell at `sender`, among the devices that
  // hold the box of `at`.
  std::int64_t share_for(std::int64_t share, const MeshBoxes::Coordinates& sender,
                         const MeshBoxes::Coordinates& at) const;

  const MeshBoxes& from_;
  const MeshBoxes& to_;
  const CommonDevices& common_;
  bool equal_meshes_;
};

inline std::int64_t Box::elements() const {
  std::int64_t elements = 1;
  for (std::size_t dim = 0; dim < rank; ++dim) elements *= dims[dim].extent;
  return elements;
}

inline std::int64_t Box::elements_shared_with(const Box& other) const {
  std::int64_t elements = 1;
  for (std::size_t dim = 0; dim < rank; ++dim)
    elements *= std::max<std::int64_t>(0, std::min(dims[dim].end(), other.dims[dim].end()) -
                                              std::max(dims[dim].offset, other.dims[dim].offset));
  return elements;
}

}  // namespace sextant
