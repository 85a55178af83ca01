// Builders of operators that move elements and look them up: for model builders, who count dims
// from either end. A negative dim or index is counted from the end here and nowhere else; the
// operators keep the one that is meant. Each throws Error(kBadInput) naming the operator.
#pragma once

#include "core/graphs/logical_graph.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace sextant {

// Adds forward operators to one layer of a graph.
class Rearranger {
 public:
  Rearranger(LogicalGraph& graph, int layer) : graph_(graph), layer_(layer) {}

  // One extent may be -1: what is left.
  TensorId reshape(const std::string& name, TensorId x, std::vector<std::int64_t> shape);
  // A dim of one element before dim `dim`, which may be the rank of x (-1: at the end): S(i) of x
  // is S(i + 1) of the result for i >= dim.
  TensorId unsqueeze(const std::string& name, TensorId x, std::int64_t dim);
  TensorId squeeze(const std::string& name, TensorId x, std::int64_t dim);  // a dim of one element
  TensorId flatten(const std::string& name, TensorId x, std::int64_t first, std::int64_t last);
  TensorId transpose(const std::string& name, TensorId x, std::vector<std::int64_t> permutation);

  TensorId slice(const std::string& name, TensorId x, std::int64_t dim, std::int64_t start,
                 std::int64_t stop);
  // x[index] along dim, which is gone: a slice, `name`.slice, and a reshape.
  TensorId select(const std::string& name, TensorId x, std::int64_t dim, std::int64_t index);
  TensorId concat(const std::string& name, std::vector<TensorId> parts, std::int64_t dim);
  std::vector<TensorId> split(const std::string& name, TensorId x, std::int64_t dim,
                              std::vector<std::int64_t> extents);
  // A new dim `dim` of the result counts the parts: reshapes, `name`.0 ..., and a concat.
  TensorId stack(const std::string& name, const std::vector<TensorId>& parts, std::int64_t dim);
  // The reverse: a split, `name`, and reshapes, `name`.0 ...
  std::vector<TensorId> unbind(const std::string& name, TensorId x, std::int64_t dim);

  TensorId gather(const std::string& name, TensorId x, TensorId indices, std::int64_t dim);
  TensorId take_along_dim(const std::string& name, TensorId x, TensorId indices, std::int64_t dim);

 private:
  const Shape& shape(TensorId x) const { return graph_.tensor(x).type.shape; }
  OpId add(std::string kind, const std::string& name, std::vector<TensorId> inputs,
           Attributes attributes);
  TensorId add_one(std::string kind, const std::string& name, std::vector<TensorId> inputs,
                   Attributes attributes) {
    return graph_.output(add(std::move(kind), name, std::move(inputs), std::move(attributes)));
  }

  LogicalGraph& graph_;
  int layer_;
};

}  // namespace sextant
