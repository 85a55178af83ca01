// A forward graph written out again with other kinds in the place of some.
#pragma once

#include "core/graphs/graph_rewriter.h"
#include "core/graphs/logical_graph.h"

#include <string>
#include <utility>
#include <vector>

namespace sextant {

class GraphWriter : public GraphRewriter {
 public:
  using GraphRewriter::GraphRewriter;

 protected:
  // An operator that another one of the forward graph becomes, wholly or in part.
  OpId add(const LogicalOp& origin, std::string kind, std::string name,
           std::vector<TensorId> inputs, Attributes attributes = {}) {
    LogicalOp op;
    op.kind = std::move(kind);
    op.name = std::move(name);
    op.attributes = std::move(attributes);
    op.inputs = std::move(inputs);
    op.layer = origin.layer;
    return graph().add(std::move(op));
  }
};

}  // namespace sextant
