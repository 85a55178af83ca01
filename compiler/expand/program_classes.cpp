// Only uneven layouts can tell ranks apart, and there are few of them.
#include "compiler/expand/program_classes.h"

#include "core/base/at.h"

#include <map>
#include <utility>

namespace sextant {
namespace {

// Every dim divides by the product of the axes that split it: all parts are equal.
bool is_even(const Layout& layout, const Placement& placement) {
  for (std::size_t dim = 0; dim < layout.global.shape.rank(); ++dim) {
    std::int64_t parts = 1;
    for (std::size_t axis = 0; axis < layout.words.size(); ++axis)
      if (layout.words[axis].is_split() && layout.words[axis].dim == dim)
        parts *= placement.axes[axis].extent;
    if (layout.global.shape[dim] % parts != 0) return false;
  }
  return true;
}

}  // namespace

TensorType local_type(const Layout& layout, const Placement& placement, std::int32_t member) {
  const std::vector<std::int64_t> hierarchy = placement.hierarchy();
  const auto coordinates = placement.coordinates_of(static_cast<std::size_t>(member));
  return {shard_of(layout.global.shape, layout.words, hierarchy, coordinates).local_shape(),
          layout.global.dtype};
}

std::vector<ProgramClass> find_program_classes(const std::vector<Placement>& placements,
                                               std::span<const Layout> layouts) {
  std::vector<std::vector<const Layout*>> uneven(placements.size());
  for (const Layout& layout : layouts)
    if (!is_even(layout, placements[layout.placement.index()]))
      uneven[layout.placement.index()].push_back(&layout);

  std::vector<ProgramClass> classes;
  for (std::size_t stage = 0; stage < placements.size(); ++stage) {
    std::map<std::vector<std::int64_t>, std::size_t> by_shapes;
    for (std::int32_t member = 0; member < placements[stage].size(); ++member) {
      std::vector<std::int64_t> shapes;
      for (const Layout* layout : uneven[stage]) {
        const TensorType local = local_type(*layout, placements[stage], member);
        shapes.insert(shapes.end(), local.shape.extents().begin(), local.shape.extents().end());
      }
      const auto [entry, is_new] = by_shapes.try_emplace(std::move(shapes), classes.size());
      if (is_new) classes.push_back({static_cast<int>(stage), {}});
      classes[entry->second].members.push_back(member);
    }
  }
  return classes;
}

}  // namespace sextant
