// A compiled graph as its experts would run under a routing: kernels and communications of the
// tokens of experts work on the places that are filled, which differ from rank to rank.
#pragma once

#include "core/costs/cost_model.h"
#include "core/graphs/physical_graph.h"
#include "simulator/costs/expert_routing.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace sextant {

// Of the mixtures of experts in a graph, each size once; none where it has no experts.
std::vector<ExpertSizes> expert_sizes(const PhysicalGraph& graph);

struct RoutedGraph {
  // Programs are split where ranks fill their places differently, so that they fold by what they
  // do. Instances, runs and memory are those of the graph that it was made from.
  PhysicalGraph graph;
  ExpertLoad load;
  std::vector<double> filled;     // by rank, of the places of its own experts
  std::set<std::string> tensors;  // names of registers that hold tokens in the places of experts
  std::size_t first_routed_layout = 0;  // those from here on are of communications of these tokens

  bool is_routed(LayoutId layout) const { return layout.index() >= first_routed_layout; }
};

// What the choices of `routing` make of the graph. A tensor is one of the places of experts from
// `moe_dispatch` to `moe_combine`, gradients included. Of an operator that reads or writes such a
// tensor, those bytes are scaled by the share of places filled, and so are its FLOPs, and the rows
// (of weight gradients, the depth) in the key of a matmul. Throws Error(kUsage) for a graph without
// experts, and for one whose mixtures differ in size.
RoutedGraph routed_graph(const PhysicalGraph& graph, const ExpertRouting& routing);

// `base` for the communications of a routed graph, which outlives it. all_to_all: every pair of
// members moves what the experts of both sides have in common, filled; the member that sends or
// receives most decides. Others: as many bytes as the experts of the members are filled.
std::unique_ptr<NetworkModel> make_routed_network(const RoutedGraph& routed,
                                                  std::unique_ptr<NetworkModel> base);

}  // namespace sextant
