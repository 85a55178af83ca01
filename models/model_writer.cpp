// Operators and parameters of models under construction.
#include "models/model_writer.h"

#include "core/graphs/operator.h"
#include "core/operators/movement/sources.h"

#include <utility>

namespace sextant {
namespace {

ParameterInfo info_of(Initializer::Kind kind, double deviation, bool weight_decay) {
  return {.initializer = {.kind = kind, .standard_deviation = deviation},
          .weight_decay = weight_decay,
          .tensor_parallel_dim = std::nullopt};
}

}  // namespace

ModelWriter::ModelWriter(DType dtype)
    : dtype_(dtype),
      parameter_dtype_(dtype == DType::kF64 ? DType::kF64 : DType::kF32),
      graph_(builtin_operators()) {}

TensorId ModelWriter::op(std::string kind, std::string op_name, std::vector<TensorId> inputs,
                         Attributes attributes) {
  return graph_.output(graph_.add({.kind = std::move(kind),
                                   .name = std::move(op_name),
                                   .attributes = std::move(attributes),
                                   .inputs = std::move(inputs),
                                   .outputs = {},
                                   .phase = Phase::kForward,
                                   .layer = layer(),
                                   .parameter = std::nullopt}));
}

TensorId ModelWriter::parameter(const std::string& parameter_name, const Shape& shape,
                                ParameterInfo info,
                                std::optional<std::size_t> tensor_parallel_dim) {
  info.tensor_parallel_dim = tensor_parallel_dim;
  return add_parameter(graph_, parameter_name, layer(), {.shape = shape, .dtype = parameter_dtype_},
                       info);
}

TensorId ModelWriter::used(TensorId parameter) {
  return cast(parameter, graph_.tensor(parameter).name + ".cast");
}

TensorId ModelWriter::cast(TensorId x, const std::string& op_name) {
  if (graph_.tensor(x).type.dtype == dtype_) return x;
  return op("cast", op_name, {x}, {{"dtype", std::string(to_string(dtype_))}});
}

TensorId ModelWriter::reshape(TensorId x, const std::string& op_name,
                              std::vector<std::int64_t> shape) {
  return op("reshape", op_name, {x}, {{"shape", std::move(shape)}});
}

TensorId ModelWriter::linear(TensorId x, const std::string& prefix, std::int64_t in,
                             std::int64_t out, Cut cut, bool has_bias, const ParameterInfo& info) {
  std::optional<std::size_t> dim, bias_dim;
  if (cut == Cut::kIn) dim = 0;
  if (cut == Cut::kOut) dim = 1, bias_dim = 0;
  const TensorId w = used(parameter(prefix + ".weight", {in, out}, info, dim));
  const TensorId y = op("matmul", prefix, {x, w});
  if (!has_bias) return y;
  const TensorId b = used(parameter(prefix + ".bias", {out}, zeros(), bias_dim));
  return op("bias_add", prefix + ".biased", {y, b});
}

ParameterInfo ModelWriter::normal(double deviation) {
  return info_of(Initializer::Kind::kNormal, deviation, true);
}
ParameterInfo ModelWriter::zeros() { return info_of(Initializer::Kind::kZeros, 0.0, false); }
ParameterInfo ModelWriter::ones() { return info_of(Initializer::Kind::kOnes, 0.0, false); }

void require_buildable(std::int64_t batch, DType dtype) {
  require(batch >= 1, ErrorCode::kUsage, "a micro-batch of {} samples, wanted 1 or more", batch);
  require(is_floating(dtype), ErrorCode::kUsage,
          "a model computes in f64, f32, bf16 or f16, not {}", to_string(dtype));
}

}  // namespace sextant
