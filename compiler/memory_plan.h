// Addresses in one arena: contents whose lives do not meet may share bytes. Guards
// (actor/byte_order.h) keep the plan right under any other timing.
#pragma once

#include "compiler/lifetimes.h"
#include "compiler/packing.h"
#include "core/physical_graph.h"
#include "core/units.h"

#include <span>
#include <string>
#include <vector>

namespace sextant {

struct MemoryPlanOptions {
  bool reuse = true;  // false: every content has bytes of its own
  // Modelled begin and end of every run of the order. With them a life lasts until the modelled end
  // of its last reader (never shorter than the issue order says); without, issue order alone
  // decides.
  std::span<const Time> begin, end;
};

// What was packed and by which rule, for reports and experiments.
struct PackedProgram {
  std::string program;
  Bytes fixed;  // below the stays: state and what host actors touch
  std::vector<Stay> stays;
  PackingRule rule = PackingRule::kInOrder;
};

// Sets the registers, slots and offsets of every frame of the program, and its arena.
PackedProgram plan_memory(const PhysicalGraph& graph, RankProgram& program,
                          const Lifetimes& lifetimes, const MemoryPlanOptions& options = {});

}  // namespace sextant
