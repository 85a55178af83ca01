// A statistic that is carried from step to step: the mean and variance of batch norms, for
// inference. It updates once per step, with the average over the micro-batches; recomputation does
// not see it.
//
// | running_statistic: parameter | sum | count | parameter | |
// |---|---|---|---|---|
// | B | B | B | B | |
// | S(d) | S(d) | S(d) | S(d) | element by element |
//
// Like the updates of core/operators/training/optimizer.cpp it has two forms: in the logical graph
// the statistic is an input like any other, in the staged and the physical graph it is output 0 and
// that input is dropped.
#include "core/base/check.h"
#include "core/graphs/operator.h"
#include "core/operators/families.h"
#include "core/operators/layers/norm_builders.h"
#include "core/operators/movement/sources.h"
#include "core/operators/rules.h"

#include <utility>

namespace sextant {
namespace {

std::vector<TensorType> infer_running(Types inputs, const Attributes& attributes) {
  constexpr std::string_view kind = "running_statistic";
  const double momentum = attributes.real("momentum");
  require(momentum >= 0 && momentum <= 1, ErrorCode::kBadInput, "{}: momentum {}, wanted 0 to 1",
          kind, momentum);
  const TensorType& sum = inputs[inputs.size() - 2];
  require(sum.dtype == DType::kF32 || sum.dtype == DType::kF64, ErrorCode::kBadInput,
          "{}: sum is {}, wanted f32 or f64", kind, to_text(sum));
  require_type(kind, "count", inputs.back(), sum);
  if (inputs.size() == 3) require_type(kind, "parameter", inputs[0], sum);
  return {sum};
}

Work running_work(Types inputs, Types outputs, const Attributes&) {
  Work work = elementwise_work(inputs.last(2), outputs, 4);
  work.read += size_of(outputs[0]);
  return work;
}

Rows running_rows(Types inputs, Types outputs, const Attributes&) {
  Rows rows{all_broadcast(inputs.size(), 1)};
  for (std::size_t dim = 0; dim < outputs[0].shape.rank(); ++dim)
    rows.push_back({std::vector<Sbp>(inputs.size(), Sbp::split(dim)), {Sbp::split(dim)}});
  return rows;
}

LogicalOp update_op(const LogicalGraph& graph, OpId parameter, TensorId batch, double momentum) {
  LogicalOp op;
  op.kind = "running_statistic";
  op.name = graph.op(parameter).name + ".update";
  op.phase = Phase::kOptimizer;
  op.layer = graph.op(parameter).layer;
  op.attributes = {{"momentum", momentum}, {"parameter", graph.op(parameter).name}};
  set_initializer(op.attributes, initializer_of(graph.op(parameter).attributes));
  op.inputs = {graph.output(parameter), batch};
  return op;
}

}  // namespace

void keep_running(LogicalGraph& graph, TensorId batch, const std::string& name, double momentum,
                  const ParameterInfo& info) {
  const int layer = graph.op(graph.tensor(batch).producer).layer;
  const TensorId kept = add_parameter(graph, name, layer, graph.tensor(batch).type, info);
  LogicalOp op = update_op(graph, graph.tensor(kept).producer, batch, momentum);
  // One per act and element (a NaN equals itself here): their sum over the step is the number of
  // micro-batches.
  LogicalOp count;
  count.kind = "extremum_count";
  count.name = name + ".count";
  count.attributes = {{"dims", std::vector<std::int64_t>()}};
  count.inputs = {batch, batch};
  count.layer = layer;
  op.inputs.push_back(graph.output(graph.add(std::move(count))));
  graph.add(std::move(op));
}

void add_running_statistic(OperatorRegistry& registry) {
  registry.add({.kind = "running_statistic",
                .min_inputs = 2,
                .max_inputs = 3,
                .attributes = {{"momentum", kReal},
                               {"parameter", kText},
                               {"init", kText, kOptional},
                               {"init_std", kReal, kOptional}},
                .infer = infer_running,
                .work = running_work,
                .signatures = running_rows,
                .state_outputs = {0},
                .examples = [] {
                  return std::vector<OperatorExample>{{.inputs = {f64({5, 2}), f64({5, 2})},
                                                       .attributes = {{"momentum", 0.25},
                                                                      {"parameter", "example"},
                                                                      {"init", "normal"},
                                                                      {"init_std", 1.0}},
                                                       .ranges = {{-3, 3}, {1, 3}}}};
                }});
}

}  // namespace sextant
