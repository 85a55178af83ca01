// Graphs of the paper, staged from words: placements by layer, words by name, and the staged graph
// as text that a file holds.
#pragma once

#include "compiler/words/staged_graph.h"
#include "core/graphs/logical_graph.h"
#include "core/tensors/placement.h"
#include "core/tensors/sbp.h"

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace sextant {

// What the program of the paper's Table 4 says: a graph, where each layer lives, and words.
struct GlobalProgram {
  LogicalGraph graph;
  std::vector<Placement> placements;
  std::vector<int> stage_of_layer;
  std::map<std::string, NdSbp> tensors;                         // where they are made
  std::map<std::pair<std::string, std::size_t>, NdSbp> inputs;  // `to_global` before a reader
};

// `count` devices in a row from `first`, on one axis.
Placement devices(int first, int count);

// One micro-batch. Nodes of two devices: neighbours are near, everybody else is far.
StagedGraph stage(const GlobalProgram& program);

// "all_gather y as (B) [forward, stage 1]", in the order of the graph; halves of transfers are
// "send" and "receive".
std::vector<std::string> communication_lines(const StagedGraph& graph);

// Compares with golden/NAME.txt; with SEXTANT_UPDATE_GOLDEN set, writes it instead.
void check_golden(const std::string& name, const std::string& text);

}  // namespace sextant
