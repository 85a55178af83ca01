// Ranks of a stage that hold equal shapes of everything: they share a program.
#pragma once

#include "compiler/words/staged_graph.h"
#include "core/graphs/physical_graph.h"

#include <cstdint>
#include <span>
#include <vector>

namespace sextant {

struct ProgramClass {
  int stage = 0;
  std::vector<std::int32_t> members;  // positions in the stage's placement, ascending
};

// Classes by stage, then by first member. Even splits make one class per stage.
std::vector<ProgramClass> find_program_classes(const std::vector<Placement>& placements,
                                               std::span<const Layout> layouts);

// What a member of the class holds of a tensor with this layout.
TensorType local_type(const Layout& layout, const Placement& placement, std::int32_t member);

}  // namespace sextant
