// Packing of words and the boxes they give.
#include "sbp/mesh_state.h"

#include "core/base/check.h"

#include <algorithm>
#include <optional>

namespace sextant {
namespace {

[[noreturn]] void refuse_dim(const NdSbp& words, std::size_t dim, const Shape& global) {
  fail(ErrorCode::kUsage, "{} splits dim {}, but the shape {} has {} dims", to_string(words), dim,
       to_string(global), global.rank());
}

// 1 = outermost. Splits without a position are in axis order: all at 0 when no word has one, else
// counted here, because another dim's splits may be numbered.
std::size_t nesting_position(const NdSbp& words, std::size_t axis) {
  if (words[axis].nesting != 0) return words[axis].nesting;
  const bool any_numbered =
      std::any_of(words.begin(), words.end(), [](const Sbp& word) { return word.nesting != 0; });
  if (!any_numbered) return 0;
  std::size_t position = 1;
  for (std::size_t other = 0; other < axis; ++other)
    if (words[other].is_split() && words[other].dim == words[axis].dim) ++position;
  return position;
}

// Axes and dims that belong together because an axis splits a dim before or after. The boxes of
// different components vary independently, so their sums multiply.
struct Component {
  std::uint32_t axes = 0, dims = 0;  // bit sets
};

std::vector<Component> components_of(const Cuts& a, const Cuts& b) {
  std::vector<Component> components;
  for (const Cuts* cuts : {&a, &b})
    for (const Cuts::Cut& cut : cuts->all()) {
      Component merged{std::uint32_t{1} << cut.axis, std::uint32_t{1} << cut.dim};
      std::erase_if(components, [&](const Component& other) {
        if ((other.axes & merged.axes) == 0 && (other.dims & merged.dims) == 0) return false;
        merged.axes |= other.axes;
        merged.dims |= other.dims;
        return true;
      });
      components.push_back(merged);
    }
  return components;
}

bool next(std::span<std::int64_t> coordinates, std::span<const std::int64_t> extents,
          std::uint32_t axes) {
  for (std::size_t axis = 0; axis < extents.size(); ++axis) {
    if ((axes >> axis & 1U) == 0) continue;
    if (++coordinates[axis] < extents[axis]) return true;
    coordinates[axis] = 0;
  }
  return false;
}

}  // namespace

MeshState::MeshState(const NdSbp& words, std::span<const std::int64_t> extents,
                     const Shape& global) {
  if (words.size() != extents.size())
    fail(ErrorCode::kUsage, "{} are {} words for {} mesh axes", to_string(words), words.size(),
         extents.size());
  require(extents.size() <= kMaxMeshAxes, ErrorCode::kUsage, "{} mesh axes, at most {} are planned",
          extents.size(), kMaxMeshAxes);
  bool in_axis_order = true;
  std::optional<ReduceOp> pending;
  for (std::size_t axis = 0; axis < words.size(); ++axis) {
    const Sbp& word = words[axis];
    if (word.is_split()) {
      if (word.dim >= global.rank()) refuse_dim(words, word.dim, global);
      in_axis_order = in_axis_order && word.nesting == 0;
      continue;
    }
    if (extents[axis] == 1 || !word.is_partial()) continue;
    if (pending && *pending != word.reduce)
      fail(ErrorCode::kInfeasible,
           "{} holds two different reductions: their order would change the value",
           to_string(words));
    pending = word.reduce;
    *this = with_partial(axis, word.reduce);
  }
  if (!in_axis_order) require_clear_nesting(words);
  // Outermost first: each split becomes the innermost of its dim.
  for (std::size_t position = in_axis_order ? 0 : 1; position <= (in_axis_order ? 0 : words.size());
       ++position)
    for (std::size_t axis = 0; axis < words.size(); ++axis)
      if (words[axis].is_split() && extents[axis] > 1 && nesting_position(words, axis) == position)
        *this = with_split(axis, words[axis].dim);
}

std::optional<ReduceOp> MeshState::pending_reduction() const {
  for (std::size_t axis = 0; axis < kMaxMeshAxes; ++axis)
    if (is_partial(axis)) return reduction(axis);
  return std::nullopt;
}

bool MeshState::is_innermost(std::size_t axis) const {
  for (std::size_t other = 0; other < kMaxMeshAxes; ++other)
    if (is_split(other) && dim(other) == dim(axis) && nesting(other) > nesting(axis)) return false;
  return true;
}

MeshState MeshState::with(std::size_t axis, std::uint64_t value) const {
  MeshState changed;
  const std::size_t shift = 8 * axis;
  changed.code_ = (code_ & ~(std::uint64_t{0xFF} << shift)) | (value << shift);
  return changed;
}

MeshState MeshState::with_split(std::size_t axis, std::size_t dim) const {
  std::uint64_t position = 0;
  for (std::size_t other = 0; other < kMaxMeshAxes; ++other)
    if (other != axis && is_split(other) && this->dim(other) == dim) ++position;
  return with(axis, 0x80U | (static_cast<std::uint64_t>(dim) << 3U) | position);
}

NdSbp MeshState::words(std::size_t num_axes) const {
  NdSbp words(num_axes);
  for (std::size_t axis = 0; axis < num_axes; ++axis) {
    if (is_partial(axis)) words[axis] = Sbp::partial(reduction(axis));
    if (!is_split(axis)) continue;
    bool in_axis_order = true;
    std::size_t same_dim = 0;
    for (std::size_t a = 0; a < num_axes; ++a) {
      if (!is_split(a) || dim(a) != dim(axis)) continue;
      in_axis_order = in_axis_order && nesting(a) == same_dim;
      ++same_dim;
    }
    words[axis] = Sbp::split(dim(axis), in_axis_order ? 0 : static_cast<int>(nesting(axis)) + 1);
  }
  return words;
}

std::int64_t MeshState::parts_at(std::size_t dim, std::size_t position,
                                 std::span<const std::int64_t> extents) const {
  for (std::size_t axis = 0; axis < extents.size(); ++axis)
    if (is_split(axis) && this->dim(axis) == dim && nesting(axis) == position) return extents[axis];
  return 1;
}

// A split that stays cuts the same parts only if the splits around it cut as many.
bool MeshState::keeps_split(const MeshState& after, std::size_t axis,
                            std::span<const std::int64_t> extents) const {
  if (byte(axis) != after.byte(axis)) return false;
  for (std::size_t position = 0; position < nesting(axis); ++position)
    if (parts_at(dim(axis), position, extents) != after.parts_at(dim(axis), position, extents))
      return false;
  return true;
}

bool is_local_change(const MeshState& a, const MeshState& b,
                     std::span<const std::int64_t> extents) {
  for (std::size_t axis = 0; axis < extents.size(); ++axis) {
    if (a.is_partial(axis) && a.byte(axis) != b.byte(axis)) return false;
    if (a.is_split(axis) && !b.is_partial(axis) && !a.keeps_split(b, axis, extents)) return false;
  }
  return true;
}

std::optional<std::uint32_t> exchanged_axes(const MeshState& a, const MeshState& b,
                                            std::span<const std::int64_t> extents) {
  std::uint32_t axes = 0;
  for (std::size_t axis = 0; axis < extents.size(); ++axis) {
    if (a.is_broadcast(axis) && !b.is_partial(axis)) continue;  // kept, or sliced by every device
    if (a.is_split(axis) ? a.keeps_split(b, axis, extents) : a.byte(axis) == b.byte(axis)) continue;
    if (a.is_partial(axis) || b.is_partial(axis)) return std::nullopt;
    axes |= std::uint32_t{1} << axis;
  }
  return axes != 0 ? std::optional(axes) : std::nullopt;
}

StateTable::StateTable() : slots_(64, kNone) { states_.reserve(slots_.size() / 2); }

std::size_t StateTable::slot_of(const MeshState& state) const {
  // The upper bits of a product depend on all bits of the code.
  std::size_t slot = (state.code() * 0x9E3779B97F4A7C15U) >> 32U;
  for (;; ++slot) {
    slot &= slots_.size() - 1;
    if (slots_[slot] == kNone || states_[slots_[slot]] == state) return slot;
  }
}

std::uint32_t StateTable::add(const MeshState& state) {
  const std::size_t slot = slot_of(state);
  if (slots_[slot] != kNone) return slots_[slot];
  const std::uint32_t number = slots_[slot] = size();
  states_.push_back(state);
  if (2 * states_.size() < slots_.size()) return number;
  slots_.assign(4 * slots_.size(), kNone);
  for (std::uint32_t known = 0; known < size(); ++known) slots_[slot_of(states_[known])] = known;
  return number;
}

Cuts::Cuts(const MeshState& state, std::span<const std::int64_t> extents) {
  for (std::size_t position = 0; position < extents.size(); ++position)
    for (std::size_t axis = 0; axis < extents.size(); ++axis)
      if (state.is_split(axis) && state.nesting(axis) == position)
        cuts_[size_++] = {static_cast<std::uint8_t>(state.dim(axis)),
                          static_cast<std::uint8_t>(axis), extents[axis]};
}

void Cuts::narrow(std::span<Interval> box, std::span<const std::int64_t> coordinates) const {
  for (std::size_t i = 0; i < size_; ++i) {
    Interval& interval = box[cuts_[i].dim];
    const Interval part =
        balanced_part(interval.extent, cuts_[i].parts, coordinates[cuts_[i].axis]);
    interval = {.offset = interval.offset + part.offset, .extent = part.extent};
  }
}

std::int64_t elements_in_place(const Shape& global, std::span<const std::int64_t> extents,
                               const MeshState& a, const MeshState& b) {
  const Cuts held(a, extents), wanted(b, extents);
  std::array<Interval, 16> before{}, after{};
  std::array<std::int64_t, kMaxMeshAxes> coordinates{};
  const auto reset = [&](std::size_t dim) {
    before[dim] = after[dim] = {.offset = 0, .extent = global[dim]};
  };
  for (std::size_t dim = 0; dim < global.rank(); ++dim) reset(dim);
  std::int64_t total = 1;
  std::uint32_t axes = 0, dims = 0;
  for (const Component& component : components_of(held, wanted)) {
    std::int64_t sum = 0;
    do {
      held.narrow(before, coordinates);
      wanted.narrow(after, coordinates);
      std::int64_t common = 1;
      for (std::size_t dim = 0; dim < global.rank(); ++dim) {
        if ((component.dims >> dim & 1U) != 0)
          common *= std::max<std::int64_t>(0, std::min(before[dim].end(), after[dim].end()) -
                                                  std::max(before[dim].offset, after[dim].offset));
        reset(dim);
      }
      sum += common;
    } while (next(coordinates, extents, component.axes));
    total *= sum;
    axes |= component.axes;
    dims |= component.dims;
  }
  for (std::size_t axis = 0; axis < extents.size(); ++axis)
    if ((axes >> axis & 1U) == 0) total *= extents[axis];
  for (std::size_t dim = 0; dim < global.rank(); ++dim)
    if ((dims >> dim & 1U) == 0) total *= global[dim];
  return total;
}

}  // namespace sextant
