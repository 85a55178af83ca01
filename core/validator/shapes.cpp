// Rules S: what the registers of a class hold is what each of its ranks holds of the layout.
#include "core/validator/findings.h"

#include <algorithm>
#include <set>

namespace sextant::validator {
namespace {

// A register of a program: which one, for messages.
struct Holding {
  const Block* block = nullptr;
  const Register* reg = nullptr;
};

// One register for each layout and local shape of the program: there are far fewer of these than of
// registers, and each is compared for every rank.
std::vector<Holding> distinct_holdings(const PhysicalGraph& graph, const RankProgram& program) {
  std::set<BlockId> blocks;
  for (const Instance& instance : program.instances) blocks.insert(instance.block);
  std::set<std::pair<LayoutId, std::vector<std::int64_t>>> seen;
  std::vector<Holding> holdings;
  for (const BlockId id : blocks) {
    const Block& block = graph.blocks[id.index()];
    for (const Register& reg : block.registers)
      if (seen.insert({reg.layout, reg.local.shape.extents()}).second)
        holdings.push_back({.block = &block, .reg = &reg});
  }
  return holdings;
}

void check_holding(const PhysicalGraph& graph, const Holding& holding,
                   const std::vector<std::int32_t>& positions, Findings& findings) {
  const Layout& layout = graph.layouts[holding.reg->layout.index()];
  const Placement& placement = graph.placements[layout.placement.index()];
  const std::vector<std::int64_t> hierarchy = placement.hierarchy();
  for (const std::int32_t position : positions) {
    const Shape local = shard_of(layout.global.shape, layout.words, hierarchy,
                                 placement.coordinates_of(static_cast<std::size_t>(position)))
                            .local_shape();
    findings.expect(local == holding.reg->local.shape, "S2",
                    "block '{}': register '{}' is {}, but {} of {} gives {} to rank {}",
                    holding.block->name, holding.reg->name, to_string(holding.reg->local.shape),
                    to_string(layout.words), to_string(layout.global.shape), to_string(local),
                    at(placement.ranks, position).value);
  }
}

}  // namespace

void check_shapes(const PhysicalGraph& graph, Findings& findings) {
  std::vector<std::vector<std::int32_t>> positions(graph.programs.size());
  for (const RankBinding& binding : graph.ranks)
    positions[binding.program.index()].push_back(binding.index_in_placement);
  for (std::size_t i = 0; i < graph.programs.size(); ++i) {
    const RankProgram& program = graph.programs[i];
    for (const Holding& holding : distinct_holdings(graph, program)) {
      const PlacementId placement = graph.layouts[holding.reg->layout.index()].placement;
      if (findings.expect(placement == program.placement, "S1",
                          "program '{}' on placement {} holds register '{}' of placement {}",
                          program.name, program.placement.value, holding.reg->name,
                          placement.value))
        check_holding(graph, holding, positions[i], findings);
    }
  }
}

}  // namespace sextant::validator
