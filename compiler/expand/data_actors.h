// Actors that make what an input delivers: a chain of host actors before it, each with registers of
// its own, so that a sample is read, decoded and augmented beside the step.
#pragma once

#include "core/graphs/physical_graph.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace sextant {

inline constexpr std::int32_t kMostDataRegisters = 64;

// Puts a chain of actors of `kinds` before the input named `input` on every rank that has one:
// "images.read" -> "images.decode" -> "images" for the kinds read and decode. Each has
// `num_registers` registers, 1 to kMostDataRegisters. They lie in host memory and have no bytes in
// the arena: launches, their order and their times stay as they are. Throws Error(kUsage) where no
// rank has such an input.
void add_data_actors(PhysicalGraph& graph, std::string_view input,
                     std::span<const std::string> kinds, std::int32_t num_registers);

}  // namespace sextant
