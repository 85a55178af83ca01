// Coordinates, cuts and shares of a mesh.
#include "core/tensors/mesh_boxes.h"

#include "core/base/check.h"

#include <utility>

namespace sextant {

Box Box::shared_with(const Box& other) const {
  Box both;
  both.rank = rank;
  for (std::size_t dim = 0; dim < rank; ++dim) {
    const std::int64_t begin = std::max(dims[dim].offset, other.dims[dim].offset);
    const std::int64_t end = std::min(dims[dim].end(), other.dims[dim].end());
    both.dims[dim] = {.offset = begin, .extent = std::max<std::int64_t>(0, end - begin)};
  }
  return both;
}

Shard Box::shard() const { return {std::vector<Interval>(dims.begin(), dims.begin() + rank)}; }

bool Box::operator==(const Box& other) const {
  return rank == other.rank && std::equal(dims.begin(), dims.begin() + rank, other.dims.begin());
}

MeshBoxes::MeshBoxes(const NdSbp& words, const Placement& placement, const Shape& global)
    : num_axes_(placement.axes.size()) {
  if (words.size() != num_axes_)
    fail(ErrorCode::kUsage, "{} are {} words for {} mesh axes", to_string(words), words.size(),
         num_axes_);
  if (num_axes_ > kMostAxes)
    fail(ErrorCode::kUsage, "{} has {} axes, at most {} work", to_string(placement), num_axes_,
         kMostAxes);
  whole_.rank = static_cast<std::uint8_t>(global.rank());
  for (std::size_t dim = 0; dim < global.rank(); ++dim)
    whole_.dims[dim] = {.offset = 0, .extent = global[dim]};
  for (std::size_t axis = 0; axis < num_axes_; ++axis) {
    const Sbp& word = words[axis];
    extents_[axis] = placement.axes[axis].extent;
    if (word.is_split()) {
      if (word.dim >= global.rank())
        fail(ErrorCode::kUsage, "{} splits dim {}, but the shape {} has {} dims", to_string(words),
             word.dim, to_string(global), global.rank());
      split_axes_ |= std::uint32_t{1} << axis;
    }
    if (!word.is_partial()) continue;
    partial_axes_ |= std::uint32_t{1} << axis;
    num_shares_ *= extents_[axis];
  }
  add_cuts(words);
}

void MeshBoxes::add_cuts(const NdSbp& words) {
  const bool is_axis_order =
      std::none_of(words.begin(), words.end(), [](const Sbp& word) { return word.nesting != 0; });
  if (!is_axis_order) require_clear_nesting(words);
  // Splits without a position come in axis order; a dim has positions for all or for none.
  const std::size_t positions = is_axis_order ? 0 : words.size();
  for (std::size_t position = 0; position <= positions; ++position)
    for (std::size_t axis = 0; axis < num_axes_; ++axis)
      if (words[axis].is_split() && words[axis].nesting == position)
        cuts_[num_cuts_++] = {words[axis].dim, static_cast<std::uint8_t>(axis), extents_[axis]};
}

bool MeshBoxes::has_extents_of(const MeshBoxes& other) const {
  return num_axes_ == other.num_axes_ &&
         std::equal(extents_.begin(), extents_.begin() + static_cast<std::ptrdiff_t>(num_axes_),
                    other.extents_.begin());
}

MeshBoxes::Coordinates MeshBoxes::coordinates_of(std::size_t device) const {
  Coordinates coordinates{};
  auto rest = static_cast<std::uint32_t>(device);
  for (std::size_t axis = num_axes_; axis-- > 0;) {
    const auto extent = static_cast<std::uint32_t>(extents_[axis]);
    coordinates[axis] = rest % extent;
    rest /= extent;
  }
  return coordinates;
}

std::size_t MeshBoxes::device_at(const Coordinates& coordinates) const {
  std::int64_t device = 0;
  for (std::size_t axis = 0; axis < num_axes_; ++axis)
    device = device * extents_[axis] + coordinates[axis];
  return static_cast<std::size_t>(device);
}

Box MeshBoxes::box_at(const Coordinates& coordinates) const {
  Box box = whole_;
  for (const Cut& cut : cuts()) {
    Interval& interval = box.dims[cut.dim];
    const Interval part = balanced_part(interval.extent, cut.parts, coordinates[cut.axis]);
    interval = {.offset = interval.offset + part.offset, .extent = part.extent};
  }
  return box;
}

std::int64_t MeshBoxes::share_of(const Coordinates& coordinates) const {
  std::int64_t share = 0;
  for (std::size_t axis = 0; axis < num_axes_; ++axis)
    if (is_partial_axis(axis)) share = share * extents_[axis] + coordinates[axis];
  return share;
}

void MeshBoxes::go_to_share(std::int64_t share, Coordinates& coordinates) const {
  if (num_shares_ == 1 && partial_axes_ == 0) return;
  for (std::size_t axis = num_axes_; axis-- > 0;) {
    if (!is_partial_axis(axis)) continue;
    coordinates[axis] = share % extents_[axis];
    share /= extents_[axis];
  }
}

std::int64_t MeshBoxes::num_replicas() const {
  std::int64_t replicas = 1;
  for (std::size_t axis = 0; axis < num_axes_; ++axis)
    if (is_replica_axis(axis)) replicas *= extents_[axis];
  return replicas;
}

void MeshBoxes::go_to_replica(std::int64_t turn, Coordinates& coordinates) const {
  for (std::size_t axis = num_axes_; axis-- > 0;) {
    if (!is_replica_axis(axis)) continue;
    coordinates[axis] = turn % extents_[axis];
    turn /= extents_[axis];
  }
}

void MeshBoxes::go_to_replica_of(const Coordinates& other, Coordinates& coordinates) const {
  for (std::size_t axis = 0; axis < num_axes_; ++axis)
    if (is_replica_axis(axis)) coordinates[axis] = other[axis];
}

bool MeshBoxes::hold_the_same(const Coordinates& a, const Coordinates& b) const {
  for (std::size_t axis = 0; axis < num_axes_; ++axis)
    if (!is_replica_axis(axis) && a[axis] != b[axis]) return false;
  return true;
}

std::int64_t part_at(const Interval& whole, std::int64_t parts, std::int64_t offset) {
  if (offset <= whole.offset) return 0;
  if (offset >= whole.end()) return parts;
  const std::int64_t quotient = whole.extent / parts, remainder = whole.extent % parts;
  const std::int64_t at = offset - whole.offset, longer = remainder * (quotient + 1);
  return at < longer ? at / (quotient + 1) : remainder + (at - longer) / quotient;
}

CommonDevices::CommonDevices(std::span<const Rank> sources, std::span<const Rank> destinations) {
  sources_.reserve(destinations.size());
  const auto [least, most] = std::minmax_element(sources.begin(), sources.end());
  std::vector<std::pair<Rank, std::uint32_t>> sorted;
  for (const Rank rank : destinations) {
    // Ranks mostly follow each other.
    const auto guess = static_cast<std::size_t>(rank.value - sources.front().value);
    std::uint32_t source = kNone;
    if (guess < sources.size() && sources[guess] == rank) {
      source = static_cast<std::uint32_t>(guess);
    } else if (rank >= *least && rank <= *most) {
      if (sorted.empty()) {
        for (const Rank one : sources)
          sorted.emplace_back(one, static_cast<std::uint32_t>(sorted.size()));
        std::sort(sorted.begin(), sorted.end());
      }
      const auto found =
          std::lower_bound(sorted.begin(), sorted.end(), std::pair(rank, std::uint32_t{0}));
      if (found != sorted.end() && found->first == rank) source = found->second;
    }
    none_ = none_ && source == kNone;
    sources_.push_back(source);
  }
}

std::int64_t Moves::share_for(std::int64_t share, const MeshBoxes::Coordinates& sender,
                              const MeshBoxes::Coordinates& at) const {
  MeshBoxes::Coordinates peer = at;
  for (std::int64_t candidate = 0; candidate < to_.num_shares(); ++candidate) {
    to_.go_to_share(candidate, peer);
    // All replicas, or they would not agree on the share that they are copies of.
    for (std::int64_t turn = 0; turn < to_.num_replicas(); ++turn) {
      to_.go_to_replica(turn, peer);
      const std::optional<std::size_t> holder = common_.source_of(to_.device_at(peer));
      if (holder && from_.hold_the_same(from_.coordinates_of(*holder), sender)) return candidate;
    }
  }
  return share % to_.num_shares();
}

}  // namespace sextant
