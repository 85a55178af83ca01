// Builds the chain operator by operator, in topological order.
#include "tests/compiler/toy_chain.h"

#include "compiler/strategy/schedule.h"
#include "core/base/check.h"

#include <algorithm>
#include <string>
#include <utility>

namespace sextant::testing {
namespace {

constexpr StagedTensorId kNone;

// Writes tensors and operators of a staged graph, one of each kind at a time.
class ChainWriter {
 protected:
  static std::string in_layer(int layer, const std::string& name) {
    return fmt::format("layer{}.{}", layer, name);
  }
  StagedTensorId tensor(std::string name, const Shape& shape, NdSbp words, int stage,
                        MemoryClass memory = MemoryClass::kActivations) {
    return graph_.tensors.add({std::move(name),
                               {shape, DType::kF32},
                               std::move(words),
                               stage,
                               StagedOpId::none,
                               memory,
                               false});
  }
  StagedTensor& at(StagedTensorId index) { return graph_.tensors[index]; }
  StagedOpId op(StagedOp staged) {
    for (const StagedTensorId out : staged.out) at(out).producer = graph_.ops.next_key();
    return graph_.ops.add(std::move(staged));
  }
  void compute(const std::string& name, int layer, Phase phase, std::int64_t cost,
               std::vector<StagedTensorId> in, std::vector<StagedTensorId> out,
               Rate rate = Rate::kPerMicroBatch) {
    StagedOp staged;
    staged.kind = "toy";
    staged.name = in_layer(layer, name);
    staged.attributes.set("cost", cost);
    staged.phase = phase;
    staged.rate = rate;
    staged.layer = layer;
    staged.in = std::move(in);
    staged.out = std::move(out);
    staged.stage = at(staged.in.empty() ? staged.out.front() : staged.in.front()).stage;
    op(std::move(staged));
  }

  // A tensor in other words, over one axis; the tensor itself where the axis has one device.
  StagedTensorId collective(StagedTensorId from, NdSbp words, Primitive primitive, std::size_t axis,
                            int layer, Phase phase, Rate rate) {
    const StagedTensor source = at(from);
    if (graph_.placements.front().axes[axis].extent == 1) return from;
    const StagedTensorId to = tensor(source.name + "." + std::string(to_string(primitive)),
                                     source.global.shape, words, source.stage, source.memory);
    StagedOp staged;
    staged.kind = to_string(primitive);
    staged.name = at(to).name;
    staged.phase = phase;
    staged.rate = rate;
    staged.stage = source.stage;
    staged.layer = layer;
    staged.queue = QueueRole::kCollective;
    staged.in = {from};
    staged.out = {to};
    staged.communication = StagedCommunication{
        primitive,    ReduceOp::kSum,   {axis},       StagedOpId::none, Side::kBoth,
        source.words, std::move(words), source.stage, source.stage,     DType::kF32};
    op(std::move(staged));
    return to;
  }

  StagedTensorId transfer(StagedTensorId from, int to_stage, int layer, bool backward, Rate rate) {
    const StagedTensor source = at(from);
    if (source.stage == to_stage) return from;
    const StagedTensorId to = tensor(fmt::format("{}.at{}", source.name, to_stage),
                                     source.global.shape, source.words, to_stage, source.memory);
    StagedOp half;
    half.kind = "transfer";
    half.phase = Phase::kCommunication;
    half.rate = rate;
    half.layer = layer;
    half.communication = StagedCommunication{
        Primitive::kTransfer, ReduceOp::kSum, {},           StagedOpId::none, Side::kSend,
        source.words,         source.words,   source.stage, to_stage,         DType::kF32};
    StagedOp receive = half;
    half.name = at(to).name + ".send";
    half.stage = source.stage;
    half.queue = backward ? QueueRole::kTransferOutBackward : QueueRole::kTransferOutForward;
    half.in = {from};
    const StagedOpId sent = op(std::move(half));
    receive.name = at(to).name + ".receive";
    receive.stage = to_stage;
    receive.queue = backward ? QueueRole::kTransferInBackward : QueueRole::kTransferInForward;
    receive.out = {to};
    receive.communication->side = Side::kReceive;
    receive.communication->peer = sent;
    graph_.ops[sent].communication->peer = op(std::move(receive));
    return to;
  }

  void host(const std::string& name, int layer, int stage, Rate rate,
            std::vector<StagedTensorId> in, std::vector<StagedTensorId> out) {
    StagedOp staged;
    staged.kind = in.empty() ? "input" : "metrics";
    staged.name = name;
    staged.phase = Phase::kData;
    staged.rate = rate;
    staged.stage = stage;
    staged.layer = layer;
    staged.queue = QueueRole::kHost;
    staged.in = std::move(in);
    staged.out = std::move(out);
    op(std::move(staged));
  }

  StagedGraph graph_;
};

class ChainBuilder : private ChainWriter {
 public:
  explicit ChainBuilder(const ToyChain& options) : options_(options) {
    graph_.micro_batches = options.micro_batches;
    for (int number = 0; number < static_cast<int>(options.layers.size()); ++number) {
      const Schedule shape = options.v_shape ? Schedule::kZeroBubbleV : Schedule::kInterleaved;
      const StageChunk place = stage_of_virtual(shape, num_stages(), number);
      for (int i = 0; i < options.layers[static_cast<std::size_t>(number)]; ++i) {
        stage_of_layer_.push_back(place.stage);
        if (options.chunks > 1) graph_.chunk_of_layer.push_back(place.chunk);
      }
    }
    for (int stage = 0; stage < num_stages(); ++stage) {
      Placement placement{{{"dp", options.dp}, {"tp", options.tp}}, {}};
      const auto size = static_cast<int>(options.dp * options.tp);
      for (int i = 0; i < size; ++i) placement.ranks.push_back(Rank(stage * size + i));
      graph_.placements.push_back(std::move(placement));
    }
  }

  StagedGraph build() {
    for (int layer = 0; layer < num_layers(); ++layer) add_weight(layer);
    if (options_.tied) tie_weights();
    if (options_.recast) copy_again();
    add_forward();
    add_backward();
    if (options_.optimizer) add_optimizer();
    return std::move(graph_);
  }

 private:
  int num_layers() const { return static_cast<int>(stage_of_layer_.size()); }
  int num_stages() const { return static_cast<int>(options_.layers.size()) / options_.chunks; }
  int last_stage() const { return stage_of_layer_.back(); }
  int stage_of(int layer) const { return stage_of_layer_[static_cast<std::size_t>(layer)]; }
  std::int64_t cost(const std::vector<std::int64_t>& by_stage, int stage) const {
    return by_stage[std::min(static_cast<std::size_t>(stage), by_stage.size() - 1)];
  }

  // Words on [dp, tp].
  static NdSbp batch_split() { return {Sbp::split(0), Sbp::broadcast()}; }
  static NdSbp batch_split_partial() { return {Sbp::split(0), Sbp::partial()}; }
  NdSbp weight_words() const {
    return {options_.gather ? Sbp::split(0) : Sbp::broadcast(), Sbp::split(1)};
  }
  static NdSbp copy_words() { return {Sbp::broadcast(), Sbp::split(1)}; }
  static NdSbp gradient_words() { return {Sbp::partial(), Sbp::split(1)}; }
  static NdSbp all(Sbp word) { return {word, word}; }

  Shape activation() const { return {options_.batch, options_.hidden}; }
  Shape weight() const { return {options_.hidden, options_.hidden}; }

  void add_weight(int layer) {
    const StagedTensorId state = tensor(in_layer(layer, "w"), weight(), weight_words(),
                                        stage_of(layer), MemoryClass::kParameters);
    at(state).is_state = true;
    states_.push_back(state);
    StagedTensorId copy = state;
    if (options_.cast) {
      copy = tensor(in_layer(layer, "w.copy"), weight(), weight_words(), stage_of(layer),
                    MemoryClass::kParameters);
      compute("cast", layer, Phase::kForward, 0, {state}, {copy}, Rate::kPerStep);
    }
    if (options_.gather)
      copy = collective(copy, copy_words(), Primitive::kAllGather, 0, layer, Phase::kForward,
                        Rate::kPerStep);
    weights_.push_back(copy);
    gradients_.emplace_back();
  }

  void tie_weights() {
    tied_ = transfer(weights_.front(), last_stage(), num_layers() - 1, false, Rate::kPerStep);
  }

  void copy_again() {
    const StagedTensor first = at(weights_.front());
    recast_ = tensor("again", weight(), first.words, first.stage, MemoryClass::kParameters);
    compute("again", num_layers() - 1, Phase::kForward, 0, {weights_.front()}, {recast_},
            Rate::kPerStep);
  }

  void add_forward() {
    StagedTensorId x = kNone;
    if (options_.host) {
      x = tensor("tokens", activation(), batch_split(), 0);
      host("tokens.load", 0, 0, Rate::kPerMicroBatch, {}, {x});
    } else {
      x = tensor("tokens", activation(), batch_split(), 0);
      compute("tokens", 0, Phase::kForward, 0, {}, {x});
    }
    StagedTensorId skip = kNone;
    for (int layer = 0; layer < num_layers(); ++layer) {
      const int stage = stage_of(layer);
      x = transfer(x, stage, layer, false, Rate::kPerMicroBatch);
      inputs_.push_back(x);
      std::vector<StagedTensorId> in = {x, weights_[static_cast<std::size_t>(layer)]};
      if (layer == num_layers() - 1) {
        if (tied_ != kNone) in.push_back(tied_);
        if (recast_ != kNone) in.push_back(recast_);
        if (skip != kNone) in.push_back(transfer(skip, stage, layer, false, Rate::kPerMicroBatch));
      }
      StagedTensorId y = tensor(in_layer(layer, "y"), activation(), batch_split_partial(), stage);
      saved_.push_back(tensor(in_layer(layer, "saved"), activation(), batch_split(), stage));
      compute("f", layer, Phase::kForward, cost(options_.forward, stage), in, {y, saved_.back()});
      x = collective(y, batch_split(), Primitive::kAllReduce, 1, layer, Phase::kForward,
                     Rate::kPerMicroBatch);
      if (layer == 0 && options_.skip) skip = x;
    }
    last_ = x;
    const int layer = num_layers() - 1;
    loss_ = tensor("loss", {}, all(Sbp::partial()), stage_of(layer));
    count_ = tensor("count", {}, all(Sbp::partial()), stage_of(layer));
    compute("loss", layer, Phase::kForward, 0, {x}, {loss_, count_});
  }

  void add_backward() {
    StagedTensorId dy =
        tensor("dlast", activation(), batch_split(), at(last_).stage, MemoryClass::kActivations);
    compute("dloss", num_layers() - 1, Phase::kInputGrad, 0, {last_}, {dy});
    for (int layer = num_layers() - 1; layer >= 0; --layer) {
      const int stage = stage_of(layer);
      const auto index = static_cast<std::size_t>(layer);
      dy = transfer(dy, stage, layer, true, Rate::kPerMicroBatch);
      StagedTensorId dx = tensor(in_layer(layer, "dx"), activation(), batch_split_partial(), stage);
      compute("b", layer, Phase::kInputGrad, cost(options_.input_grad, stage),
              {dy, weights_[index], inputs_[index]}, {dx});
      const StagedTensorId dw =
          tensor(in_layer(layer, "dw"), weight(), gradient_words(), stage, MemoryClass::kGradients);
      compute("w", layer, Phase::kWeightGrad, cost(options_.weight_grad, stage),
              {saved_[index], dy}, {dw});
      gradients_[index].push_back(dw);
      if (tied_ != kNone && layer == num_layers() - 1) add_tied_gradient(layer, dy);
      dy = collective(dx, batch_split(), Primitive::kAllReduce, 1, layer, Phase::kInputGrad,
                      Rate::kPerMicroBatch);
      if (options_.norm) {
        const StagedTensorId dn =
            tensor(in_layer(layer, "dnorm"), activation(), batch_split(), stage);
        compute("norm_grad", layer, Phase::kInputGrad, 0, {dy}, {dn});
        dy = dn;
      }
    }
  }

  void add_tied_gradient(int layer, StagedTensorId dy) {
    const StagedTensorId dw =
        tensor("tied.dw", weight(), gradient_words(), at(dy).stage, MemoryClass::kGradients);
    compute("tied_w", layer, Phase::kWeightGrad, 0, {saved_.back(), dy}, {dw});
    gradients_.front().push_back(dw);
  }

  void add_optimizer() {
    StagedTensorId count =
        collective(count_, {Sbp::broadcast(), Sbp::partial()}, Primitive::kAllReduce, 0,
                   num_layers() - 1, Phase::kOptimizer, Rate::kPerStep);
    count = collective(count, all(Sbp::broadcast()), Primitive::kAllReduce, 1, num_layers() - 1,
                       Phase::kOptimizer, Rate::kPerStep);
    std::vector<StagedTensorId> counts;
    for (int stage = 0; stage < num_stages(); ++stage) {
      const bool backward = stage != last_stage();
      counts.push_back(transfer(count, stage, num_layers() - 1, backward, Rate::kPerStep));
    }
    if (options_.host) host("metrics", num_layers() - 1, last_stage(), Rate::kPerStep, {loss_}, {});
    for (int layer = 0; layer < num_layers(); ++layer)
      update(layer, counts[static_cast<std::size_t>(stage_of(layer))]);
  }

  void update(int layer, StagedTensorId count) {
    const auto index = static_cast<std::size_t>(layer);
    const int stage = stage_of(layer);
    std::vector<StagedTensorId> reduced;
    for (StagedTensorId gradient : gradients_[index]) {
      gradient = transfer(gradient, stage, layer, true, Rate::kPerStep);
      reduced.push_back(
          collective(gradient, weight_words(),
                     options_.gather ? Primitive::kReduceScatter : Primitive::kAllReduce, 0, layer,
                     Phase::kOptimizer, Rate::kPerStep));
    }
    const StagedTensorId moment =
        tensor(in_layer(layer, "m"), weight(), weight_words(), stage, MemoryClass::kOptimizer);
    at(moment).is_state = true;
    StagedOp staged;
    staged.kind = "toy_update";
    staged.name = in_layer(layer, "update");
    staged.attributes.set("cost", std::int64_t{0});
    staged.phase = Phase::kOptimizer;
    staged.rate = Rate::kPerStep;
    staged.stage = stage;
    staged.layer = layer;
    staged.in = std::move(reduced);
    staged.in.push_back(count);
    staged.out = {states_[index], moment};
    op(std::move(staged));
  }

  const ToyChain& options_;
  std::vector<int> stage_of_layer_;
  std::vector<StagedTensorId> states_, weights_, inputs_, saved_;  // by layer
  std::vector<std::vector<StagedTensorId>> gradients_;             // by layer
  StagedTensorId tied_ = kNone, recast_ = kNone, last_ = kNone, loss_ = kNone, count_ = kNone;
};

Work toy_work(std::span<const TensorType>, std::span<const TensorType>, const Attributes& a) {
  Work work;
  work.flops = static_cast<Flops>(a.integer("cost"));
  work.kernel = "toy";
  return work;
}

}  // namespace

StagedGraph toy_chain(const ToyChain& options) { return ChainBuilder(options).build(); }

const OperatorRegistry& toy_operators() {
  static const OperatorRegistry registry = [] {
    OperatorRegistry r;
    for (const char* kind : {"toy", "toy_update"}) {
      OperatorDef def;
      def.kind = kind;
      def.min_inputs = 0;
      def.max_inputs = 8;
      def.work = toy_work;
      if (def.kind == "toy_update") def.state_outputs = {0, 1};
      r.add(def);
    }
    return r;
  }();
  return registry;
}

Duration ToyCost::duration(const Work& work) const {
  return Duration(static_cast<std::int64_t>(work.flops));
}

void ToyNetwork::complete(const CollectiveCost& cost, std::span<const Time> arrivals,
                          std::span<Time> done) const {
  const Time last = *std::max_element(arrivals.begin(), arrivals.end());
  std::fill(done.begin(), done.end(), last + duration(cost));
}

Duration ToyNetwork::duration(const CollectiveCost& cost) const {
  return Duration(cost.communication->primitive == Primitive::kTransfer ? transfer_ : collective_);
}

}  // namespace sextant::testing
