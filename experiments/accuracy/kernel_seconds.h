// Where the kernels of a predicted step go, kind by kind: a step may be right though its kinds are
// not.
#pragma once

#include "core/costs/cost_model.h"
#include "core/graphs/physical_graph.h"

#include <map>
#include <string>

namespace sextant {

// Seconds per step by family of kernels (core/graphs/kernel_names.h), mean over ranks; overlap with
// communications slows none of them. Attention is "attention" also where it is written out as
// products and passes over scores, and all that updates parameters is "optimizer".
std::map<std::string, double> kernel_seconds(const PhysicalGraph& graph, const CostModel& cost);

}  // namespace sextant
