// The calls of compiled plans as cases: types, attributes and fused operators as the compiler emits
// them, which the examples of single operators do not know.
#pragma once

#include "core/graphs/physical_graph.h"
#include "tests/conformance/operators/kernel_cases.h"

#include <string>
#include <vector>

namespace sextant {

// Each distinct call of the plan's operators on the device, of one program; communications, host
// actors and what has no inputs are left out. Values are drawn from the ranges of the kind's first
// example, of a member's where it is fused.
std::vector<KernelCase> plan_cases(const PhysicalGraph& graph);

// Small transformers, dense and of experts, with dropout, in f32, bf16 and f16, on one device;
// every fused kind is one that the device has.
std::vector<KernelCase> small_plan_cases();

}  // namespace sextant
