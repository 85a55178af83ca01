// Logical graphs as JSON, schema sextant.graph/1: core/README.md says what stands in a file.
#pragma once

#include "core/graphs/logical_graph.h"
#include "core/graphs/operator.h"
#include "core/tensors/placement.h"
#include "core/tensors/sbp.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

class JsonCursor;

// A graph and what its author says of where it runs. Nothing of the latter is needed: a strategy
// can say it all.
struct GraphDocument {
  std::string name;
  LogicalGraph graph{builtin_operators()};

  // Words of an output of an operator, or of an input as the operator reads it (the paper's
  // to_global). One per axis of the mesh that the graph will run on.
  struct Words {
    OpId op;
    bool is_input = false;
    std::size_t index = 0;  // among its inputs or outputs
    NdSbp words;
    bool operator==(const Words&) const = default;
  };
  std::vector<Words> words;  // in order of the operators, inputs first

  // Stages and the stage of every layer: both or neither.
  std::vector<Placement> placements;
  std::vector<int> stage_of_layer;
};

// As a file has it (sextant.graph/1); the reader below reads it back.
std::string to_json_text(const GraphDocument& document);

// Throws Error(kBadInput) with the place: what JSON files are refused for, unknown keys, kinds,
// phases and dtypes, an input that no earlier operator makes, shapes that do not fit, layers that
// are not consecutive, words that do not fit their tensor.
GraphDocument graph_from_json(const JsonCursor& root);
bool is_graph_document(const JsonCursor& root);

}  // namespace sextant
