// For builders of several operators that belong together: forward operators of one layer whose
// names begin alike.
#pragma once

#include "core/graphs/logical_graph.h"
#include "core/tensors/attributes.h"

#include <string>
#include <string_view>
#include <vector>

namespace sextant {

class BlockBuilder {
 public:
  BlockBuilder(LogicalGraph& graph, std::string name, int layer);

  // Adds `name`.`part`, or `name` itself when `part` is empty, and returns its first output.
  TensorId add(std::string_view kind, std::string_view part, std::vector<TensorId> inputs,
               Attributes attributes = {});
  const TensorType& type(TensorId tensor) const { return graph_->tensor(tensor).type; }
  const std::string& name() const { return name_; }

 private:
  LogicalGraph* graph_;
  std::string name_;
  int layer_;
};

}  // namespace sextant
