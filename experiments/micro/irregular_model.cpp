// Grows a graph operator by operator; every third brings a weight.
#include "experiments/micro/irregular_model.h"

#include "core/graphs/operator.h"
#include "core/operators/layers/loss.h"
#include "core/operators/movement/sources.h"

#include <fmt/core.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

namespace sextant {
namespace {

constexpr std::int64_t kSamples = 8, kClasses = 16;
// Forward operators become about this many with gradients and updates.
constexpr std::int64_t kTrainingPerForward = 2;

class IrregularBuilder {
 public:
  explicit IrregularBuilder(std::uint64_t seed) : random_(seed), graph_(builtin_operators()) {}

  LogicalGraph build(std::int64_t operators) {
    const TensorId ids = add_input(graph_, "tokens", 0, {Shape{kSamples, 1}, DType::kI32},
                                   {.limit = kClasses, .ignored = std::nullopt});
    x_ = op("embedding", {ids, parameter({kClasses, 64})});
    x_ = op("reshape", {x_}, {{"shape", std::vector<std::int64_t>{kSamples, 64}}});
    while (num_ops_ * kTrainingPerForward < operators) grow();
    finish();
    return std::move(graph_);
  }

 private:
  std::int64_t draw(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random_);
  }
  std::int64_t width() const { return graph_.tensor(x_).type.shape[1]; }

  void grow() {
    if (left_in_layer_-- <= 0) {
      ++layer_;
      left_in_layer_ = draw(1, 40);
    }
    switch (draw(0, 5)) {
      case 0:
      case 1:
        x_ = op("matmul", {x_, parameter({width(), draw(8, 96)})});
        break;
      case 2:
        x_ = op("bias_add", {x_, parameter({width()})});
        break;
      case 3:
        x_ = op("gelu", {x_}, {{"approximate", std::string("tanh")}});
        break;
      case 4:
        x_ = op("mul", {x_, op("silu", {x_})});
        break;
      case 5:
        x_ = skip();
        break;
    }
  }

  // Adds something of this width from the past, if there is anything.
  TensorId skip() {
    past_.push_back(x_);
    for (std::int64_t tries = 0; tries < 8; ++tries) {
      const TensorId other =
          past_[static_cast<std::size_t>(draw(0, static_cast<std::int64_t>(past_.size()) - 1))];
      if (other != x_ && graph_.tensor(other).type == graph_.tensor(x_).type)
        return op("add", {x_, other});
    }
    return op("add", {x_, x_});
  }

  void finish() {
    ++layer_;
    const TensorId labels = add_input(graph_, "labels", layer_, {Shape{kSamples}, DType::kI32},
                                      {.limit = kClasses, .ignored = kIgnoreIndex});
    const TensorId logits = op("matmul", {x_, parameter({width(), kClasses})});
    const LossTensors loss = softmax_cross_entropy(graph_, logits, labels, "loss", layer_);
    graph_.set_loss(loss.loss_sum, loss.token_count);
  }

  TensorId parameter(const Shape& shape) {
    return add_parameter(graph_, fmt::format("weight{}", num_ops_++), layer_,
                         {.shape = shape, .dtype = DType::kF32}, {});
  }
  TensorId op(std::string kind, std::vector<TensorId> inputs, Attributes attributes = {}) {
    return graph_.output(graph_.add({.kind = std::move(kind),
                                     .name = fmt::format("op{}", num_ops_++),
                                     .attributes = std::move(attributes),
                                     .inputs = std::move(inputs),
                                     .outputs = {},
                                     .phase = Phase::kForward,
                                     .layer = layer_,
                                     .parameter = std::nullopt}));
  }

  std::mt19937_64 random_;
  LogicalGraph graph_;
  TensorId x_;
  std::vector<TensorId> past_;
  int layer_ = 0;
  std::int64_t num_ops_ = 0, left_in_layer_ = 0;
};

}  // namespace

LogicalGraph irregular_model(std::int64_t operators, std::uint64_t seed) {
  return IrregularBuilder(seed).build(operators);
}

}  // namespace sextant
