// What builders of models share: operators of the current layer, parameters in the type of the
// weights, linear layers with the words of tensor parallelism. Internal to models.
#pragma once

#include "core/base/check.h"
#include "core/graphs/logical_graph.h"

#include <fmt/core.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sextant {

// How tensor parallelism cuts a weight by convention (Megatron-LM, arXiv 1909.08053).
enum class Cut : std::uint8_t { kNone, kIn, kOut };

class ModelWriter {
 protected:
  // Parameters are f32, or f64 when the computation is.
  explicit ModelWriter(DType dtype);

  LogicalGraph take() { return std::move(graph_); }

  // An operator of the current layer; its first output.
  TensorId op(std::string kind, std::string op_name, std::vector<TensorId> inputs,
              Attributes attributes = {});
  TensorId parameter(const std::string& parameter_name, const Shape& shape, ParameterInfo info,
                     std::optional<std::size_t> tensor_parallel_dim);
  // The parameter in the type of the computation.
  TensorId used(TensorId parameter);
  TensorId cast(TensorId x, const std::string& op_name);
  TensorId reshape(TensorId x, const std::string& op_name, std::vector<std::int64_t> shape);
  // x [.., in] -> [.., out] with `prefix`.weight [in, out] and perhaps `prefix`.bias.
  TensorId linear(TensorId x, const std::string& prefix, std::int64_t in, std::int64_t out, Cut cut,
                  bool has_bias, const ParameterInfo& info);

  std::string name(const std::string& part) const {
    return fmt::format("layer{}.{}", layer_, part);
  }
  int layer() const { return static_cast<int>(layer_); }

  // Weights that decay, and what does not.
  static ParameterInfo normal(double deviation);
  static ParameterInfo zeros();
  static ParameterInfo ones();

  const DType dtype_, parameter_dtype_;
  LogicalGraph graph_;
  std::int64_t layer_ = 0;
};

// Throws Error(kUsage) for a batch below one or a type that is no floating one.
void require_buildable(std::int64_t batch, DType dtype);

}  // namespace sextant
