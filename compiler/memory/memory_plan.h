// Addresses in one arena: contents whose lives do not meet may share bytes. Guards
// (actor/bytes/byte_order.h) keep the plan right under any other timing.
#pragma once

#include "compiler/memory/lifetimes.h"
#include "compiler/memory/packing.h"
#include "core/base/units.h"
#include "core/graphs/physical_graph.h"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sextant {

struct MemoryPlanOptions {
  bool reuse = true;  // false: every content has bytes of its own
  // Modelled begin and end of every run of the order. With them a life lasts until the modelled end
  // of its last reader (never shorter than the issue order says); without, issue order alone
  // decides. Read by the constructor of a plan, not kept.
  std::span<const Time> begin, end;
  // From step to step in these times: what still lives when the next step needs its bytes, or
  // begins that early, shares them with nobody. Without, no life is longer than its step.
  std::optional<Duration> period = {};
};

// What was packed and by which rule, for reports and experiments.
struct PackedProgram {
  std::string program;
  Bytes tight;  // arena before spare memory was spent
  Bytes fixed;  // below the stays: state and what host actors touch
  std::vector<Stay> stays;
  PackingRule rule = PackingRule::kInOrder;
};

// A plan in the making: quick rules first, so that the costly ones are left to the programs that
// decide how much memory a device needs. `graph` and `program` outlive it.
class MemoryPlan {
 public:
  MemoryPlan(const PhysicalGraph& graph, RankProgram& program, const MemoryPlanOptions& options);
  ~MemoryPlan();
  MemoryPlan(MemoryPlan&&) noexcept;

  Bytes size() const;  // of the arena, so far
  Bytes lower_bound() const;
  // Tries all rules until the arena is as small as `enough`.
  void improve(Bytes enough);
  // Sets the registers, slots and offsets of every frame of the program, and its arena.
  PackedProgram finish();

 private:
  class Planner;
  std::unique_ptr<Planner> planner_;
};

}  // namespace sextant
