// mul, reduce_sum and add: nothing else stands between the data and the gradients.
#include "tests/conformance/training/linear_model.h"

#include "actor/runtime.h"
#include "core/base/elements.h"
#include "core/graphs/operator.h"
#include "core/operators/movement/sources.h"

#include <utility>

namespace sextant {
namespace {

class LinearBuilder {
 public:
  LinearBuilder(std::int64_t samples, DType dtype)
      : samples_(samples), dtype_(dtype), graph_(builtin_operators()) {}

  LogicalGraph build(const std::vector<LinearWeight>& weights, int layers) {
    for (int layer = 0; layer < layers; ++layer) {
      for (const LinearWeight& weight : weights)
        if (weight.layer == layer) add_term(weight);
      // A layer without weights still has an operator, so that its stage passes the loss on.
      if (loss_) loss_ = op("scale", "pass", layer, {*loss_}, {{"factor", 1.0}});
    }
    const int last = layers - 1;
    const TensorId count = add_input(graph_, "count", last, {{samples_}, dtype_});
    graph_.set_loss(*loss_, op("reduce_sum", "tokens", last, {count}, over({0})));
    return std::move(graph_);
  }

 private:
  void add_term(const LinearWeight& weight) {
    ParameterInfo info;
    if (weight.deviation > 0) info.initializer = {Initializer::Kind::kNormal, weight.deviation};
    info.weight_decay = weight.decays;
    info.tensor_parallel_dim = weight.tensor_parallel_dim;
    const TensorId w =
        add_parameter(graph_, weight.name, weight.layer, {{weight.size}, dtype_}, info);
    const TensorId x =
        add_input(graph_, "x." + weight.name, weight.layer, {{samples_, weight.size}, dtype_});
    const TensorId product = op("mul", weight.name + ".mul", weight.layer, {x, w}, {});
    const TensorId sum =
        op("reduce_sum", weight.name + ".sum", weight.layer, {product}, over({0, 1}));
    loss_ = loss_ ? op("add", weight.name + ".add", weight.layer, {*loss_, sum}, {}) : sum;
  }

  static Attributes over(std::vector<std::int64_t> dims) { return {{"dims", std::move(dims)}}; }

  TensorId op(std::string kind, const std::string& name, int layer, std::vector<TensorId> inputs,
              Attributes attributes) {
    return graph_.output(graph_.add({.kind = std::move(kind),
                                     .name = "layer" + std::to_string(layer) + "." + name,
                                     .attributes = std::move(attributes),
                                     .inputs = std::move(inputs),
                                     .outputs = {},
                                     .phase = Phase::kForward,
                                     .layer = layer,
                                     .parameter = std::nullopt}));
  }

  std::int64_t samples_;
  DType dtype_;
  LogicalGraph graph_;
  std::optional<TensorId> loss_;
};

// Inputs from a function, metrics as every training host collects them.
class ValueHost final : public HostActors {
 public:
  explicit ValueHost(const InputValue& value)
      : value_(value), no_tokens_({}), metrics_(no_tokens_, 0) {}

  void act(const HostAct& act) override {
    if (act.actor->kind == "input")
      fill(act);
    else
      metrics_.act(act);
  }
  std::vector<StepMetrics> steps() const { return metrics_.steps(); }

 private:
  void fill(const HostAct& act) const {
    const Block& block = act.graph->block_of(*act.instance);
    const Register& reg = block.registers[static_cast<std::size_t>(act.actor->out.front())];
    const Shape& global = act.graph->layouts[reg.layout].global.shape;
    const Shard box = shard_of(*act.graph, reg.layout, act.rank);
    const std::int64_t first_sample =
        (act.step * act.instance->acts_per_step + act.act) * global[0];
    const std::int64_t places = global.elements() / global[0];
    std::vector<double> values;
    for (std::int64_t i = 0; i < box.elements(); ++i) {
      const std::int64_t index = global_index(i, global, box);
      values.push_back(value_(act.actor->name, first_sample + index / places, index % places));
    }
    store_from_double(reg.local.dtype, values, act.outputs.front().data());
  }

  const InputValue& value_;
  TokenData no_tokens_;
  TrainingHost metrics_;
};

}  // namespace

ModelBuilder linear_model(std::vector<LinearWeight> weights, int layers) {
  return [weights = std::move(weights), layers](std::int64_t samples, DType dtype) {
    return LinearBuilder(samples, dtype).build(weights, layers);
  };
}

LinearRun run_linear(const TrainingCase& training, const std::string& strategy,
                     const InputValue& value, const CpuOptions& cpu) {
  const PhysicalGraph graph = compile_case(training, strategy);
  CpuWorld world(graph, cpu);
  ValueHost host(value);
  run_all(graph, world.devices(), host, training.steps);
  return {host.steps(), collect_state(graph, world)};
}

}  // namespace sextant
