// Dropout: y = x / (1 - rate) where an element is kept, 0 where it is dropped. The mask is a
// function of (seed, layer, stream, step, micro-batch, *global* index): the same however x is
// split, drawn again by the gradient, never stored.
//
// | x | y | |
// |---|---|---|
// | B | B | |
// | S(d) | S(d) | any dim |
// | P(sum), P(max), P(min) | the same | linear, times 0 or 1 / (1 - rate), equal on all devices |
//
// The gradient for x is dropout(dy) of the same stream, so by the same mask.
#include "core/operators/pointwise/dropout.h"

#include "core/base/check.h"
#include "core/graphs/operator.h"
#include "core/operators/families.h"
#include "core/operators/rules.h"

#include <utility>
#include <vector>

namespace sextant {
namespace {

std::vector<TensorType> infer_dropout(Types inputs, const Attributes& attributes) {
  require_floating("dropout", "x", inputs[0]);
  const double rate = attributes.real("rate");
  require(rate >= 0 && rate <= 1, ErrorCode::kBadInput,
          "dropout: rate {} is no probability, wanted 0 to 1", rate);
  attributes.text("stream");
  return {inputs[0]};
}

Rows dropout_rows(Types inputs, Types, const Attributes&) {
  Rows rows{all_broadcast(1, 1)};
  for (std::size_t dim = 0; dim < inputs[0].shape.rank(); ++dim)
    rows.push_back({{Sbp::split(dim)}, {Sbp::split(dim)}});
  for (const Sbp& partial : {kPartialSum, kPartialMax, kPartialMin})
    rows.push_back({{partial}, {partial}});
  return rows;
}

// True when the tensor follows from inputs of the micro-batch.
bool depends_on_input(const LogicalGraph& graph, TensorId tensor) {
  std::vector<TensorId> open{tensor};
  std::vector<bool> seen(graph.tensors().size(), false);
  while (!open.empty()) {
    const TensorId next = open.back();
    open.pop_back();
    if (seen[next.index()]) continue;
    seen[next.index()] = true;
    const LogicalOp& op = graph.op(graph.tensor(next).producer);
    if (op.role == OperatorRole::kInput) return true;
    open.insert(open.end(), op.inputs.begin(), op.inputs.end());
  }
  return false;
}

// A function of parameters alone acts once per step, its gradient perhaps once per micro-batch:
// told so, it draws the one mask of the step.
void dropout_gradient(GradientContext& context) {
  Attributes attributes = context.op().attributes;
  if (!depends_on_input(context.graph(), context.input(0))) attributes.set("per_step", true);
  context.set_input_gradient(
      0, context.add("dropout", {*context.output_gradient(0)}, std::move(attributes), 0));
}

}  // namespace

TensorId add_dropout(LogicalGraph& graph, std::string name, int layer, TensorId x, double rate) {
  const std::string prefix = fmt::format("layer{}.", layer);
  std::string stream = name.starts_with(prefix) ? name.substr(prefix.size()) : name;
  LogicalOp op;
  op.kind = "dropout";
  op.name = std::move(name);
  op.attributes = {{"rate", rate}, {"stream", std::move(stream)}};
  op.inputs = {x};
  op.layer = layer;
  return graph.output(graph.add(std::move(op)));
}

void add_dropout(OperatorRegistry& registry) {
  registry.add(
      {.kind = "dropout",
       .attributes = {{"rate", kReal}, {"stream", kText}, {"per_step", kBoolean, kOptional}},
       .infer = infer_dropout,
       .work = elementwise_pass<2>,
       .signatures = dropout_rows,
       .gradient = dropout_gradient,
       .needs_offsets = true,
       .examples = [] {
         const auto example = [](Shape shape, double rate) {
           return OperatorExample{.inputs = {f64(std::move(shape))},
                                  .attributes = {{"rate", rate}, {"stream", "example"}}};
         };
         return std::vector<OperatorExample>{example({2, 5, 3}, 0.5), example({7}, 0.25),
                                             example({3, 2}, 0.0)};
       }});
}

}  // namespace sextant
