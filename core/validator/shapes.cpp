// Rules S: what the registers of a class hold is what each of its ranks holds of the layout.
#include "core/tensors/mesh_boxes.h"
#include "core/validator/findings.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace sextant::validator {
namespace {

// A register of a program, or a tensor inside one of its fused actors: which one, for messages.
struct Holding {
  const Block* block = nullptr;
  const std::string* name = nullptr;
  LayoutId layout;
  const Shape* local = nullptr;
};

// One register for each layout and local shape of the program: there are far fewer of these than of
// registers, and each is compared for every rank.
std::vector<Holding> distinct_holdings(const PhysicalGraph& graph, const RankProgram& program) {
  std::set<BlockId> blocks;
  for (const Instance& instance : program.instances) blocks.insert(instance.block);
  std::set<std::pair<LayoutId, std::vector<std::int64_t>>> seen;
  std::vector<Holding> holdings;
  for (const BlockId id : blocks) {
    const Block& block = graph.blocks[id];
    const auto add = [&](const std::string& name, LayoutId layout, const Shape& local) {
      if (seen.insert({layout, local.extents()}).second)
        holdings.push_back({.block = &block, .name = &name, .layout = layout, .local = &local});
    };
    for (const Register& reg : block.registers) add(reg.name, reg.layout, reg.local.shape);
    for (const Actor& actor : block.actors)
      for (const InnerTensor& inner : actor.inner) add(inner.name, inner.layout, inner.local.shape);
  }
  return holdings;
}

// A rank and its place on the placement of its program.
struct Device {
  Rank rank;
  std::size_t index = 0;
};

bool has_extents(const Box& box, const Shape& shape) {
  return box.rank == shape.rank() &&
         std::equal(box.dims.begin(), box.dims.begin() + box.rank, shape.extents().begin(),
                    [](const Interval& dim, std::int64_t extent) { return dim.extent == extent; });
}

void check_holding(const PhysicalGraph& graph, const RankProgram& program, const Holding& holding,
                   const std::vector<Device>& devices, Findings& findings) {
  const Layout& layout = graph.layouts[holding.layout];
  const Placement& placement = graph.placements[layout.placement];
  const MeshBoxes boxes(layout.words, placement, layout.global.shape);
  const bool at_home = layout.placement == program.placement;
  for (const Device& device : devices) {
    const std::optional<std::size_t> index =
        at_home ? device.index : placement.index_of(device.rank);
    if (!findings.expect(index.has_value(), "S1",
                         "program '{}' on placement {} holds register '{}' of placement {}, which "
                         "lacks rank {}",
                         program.name, program.placement.value, *holding.name,
                         layout.placement.value, device.rank.value))
      continue;
    const Box box = boxes.box_at(boxes.coordinates_of(*index));
    if (has_extents(box, *holding.local)) continue;
    findings.expect(
        false, "S2", "block '{}': register '{}' is {}, but {} of {} gives {} to rank {}",
        holding.block->name, *holding.name, to_string(*holding.local), to_string(layout.words),
        to_string(layout.global.shape), to_string(box.shard().local_shape()), device.rank.value);
  }
}

}  // namespace

void check_shapes(const PhysicalGraph& graph, Findings& findings) {
  Table<ProgramId, std::vector<Device>> devices(graph.programs.size());
  for (const Rank rank : graph.ranks.keys()) {
    const RankBinding& binding = graph.ranks[rank];
    devices[binding.program].push_back({rank, at(binding.index_in_placement)});
  }
  for (const ProgramId i : graph.programs.keys())
    for (const Holding& holding : distinct_holdings(graph, graph.programs[i]))
      check_holding(graph, graph.programs[i], holding, devices[i], findings);
}

}  // namespace sextant::validator
