// Who holds the memory of a program, when, and whether a device has as much.
#pragma once

#include "core/base/units.h"
#include "core/graphs/physical_graph.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sextant {

// One tensor of one layer: all its contents that are live at the peak.
struct MemoryOwner {
  std::string name;  // of the register: "attention.q"
  int layer = 0;
  MemoryClass memory = MemoryClass::kActivations;
  Bytes bytes;  // of all of them
  std::int64_t count = 0;
};

struct ProgramMemory {
  std::string program;
  Bytes arena, lower_bound;  // as planned
  // When the step runs at the given times: most bytes live at one time, and whose they are then.
  Bytes peak;
  Time peak_at;
  std::vector<Bytes> by_class;      // kNumMemoryClasses entries
  std::vector<MemoryOwner> owners;  // the largest first; their bytes add up to the peak
  std::vector<Bytes> over_time;     // most bytes live in each of equal windows of the step
  // By window: whose they are then, kNumMemoryClasses entries that add up to `over_time`.
  std::vector<std::vector<Bytes>> classes_over_time;
  Time begin, end;  // of the step
};

// `begin` and `end`: of every run of the program's order, in one step. A content lives from the
// begin of the first actor that uses it to the end of the last in issue order; state and what host
// actors touch lives always.
ProgramMemory report_memory(const PhysicalGraph& graph, ProgramId program,
                            std::span<const Time> begin, std::span<const Time> end,
                            std::size_t windows);

// Largest arena of all programs.
Bytes peak_memory(const PhysicalGraph& graph);

// Throws Error(kInfeasible) when some program's arena is larger than `capacity`: how much is
// missing, what each class takes, which tensor is the largest. `hints` go with it.
void require_fits(const PhysicalGraph& graph, Bytes capacity, std::vector<std::string> hints = {});

// The refusal itself, for a device that runs `program` and has `beside` in use besides; `what` says
// what that is: "libraries 532 MiB: context ..., workspace ...".
[[noreturn]] void refuse_size(const PhysicalGraph& graph, ProgramId program, Bytes beside,
                              const std::string& what, Bytes capacity,
                              std::vector<std::string> hints);

}  // namespace sextant
