// Wide & Deep config -> forward graph with loss, one micro-batch, global tensors.
#include "models/wide_deep.h"

#include "core/operators/layers/loss.h"
#include "core/operators/movement/sources.h"
#include "models/checks.h"
#include "models/model_writer.h"

namespace sextant {
namespace {

class WideDeepBuilder : private ModelWriter {
 public:
  WideDeepBuilder(const WideDeepConfig& config, std::int64_t batch, DType dtype)
      : ModelWriter(dtype), config_(config), batch_(batch) {}

  LogicalGraph build() {
    TensorId x = add_features();
    for (std::size_t i = 0; i < config_.hidden.size(); ++i) {
      ++layer_;
      // Columns, rows, columns ...: between a pair of layers nothing moves.
      const Cut cut = i % 2 == 0 ? Cut::kOut : Cut::kIn;
      x = op("relu", name("relu"),
             {linear(x, name("linear"), width_of(x), config_.hidden[i], cut, true, weights())});
    }
    ++layer_;
    add_answer(x);
    return take();
  }

 private:
  ParameterInfo weights() const { return normal(config_.initializer_range); }
  std::int64_t width_of(TensorId x) const { return graph_.tensor(x).type.shape[1]; }

  TensorId add_ids(const std::string& input, std::int64_t fields, std::int64_t vocab) {
    return add_input(graph_, input, layer(), {.shape = {batch_, fields}, .dtype = DType::kI32},
                     {.limit = vocab, .ignored = std::nullopt});
  }

  // ids [batch, fields] -> rows [batch, fields, width].
  TensorId look_up(TensorId ids, const std::string& prefix, std::int64_t vocab,
                   std::int64_t width) {
    const TensorId table = parameter(prefix + ".weight", {vocab, width}, weights(), 0);
    return cast(op("embedding", prefix, {ids, table}), prefix + ".cast");
  }

  TensorId add_features() {
    const TensorId ids = add_ids("deep_ids", config_.deep_fields, config_.deep_vocab);
    const TensorId dense = add_input(graph_, "dense", 0,
                                     {.shape = {batch_, config_.dense}, .dtype = parameter_dtype_});
    const std::int64_t width = config_.deep_fields * config_.embedding;
    const TensorId rows = reshape(look_up(ids, "deep", config_.deep_vocab, config_.embedding),
                                  "deep.flat", {batch_, width});
    return op(
        "concat", "features", {rows, cast(dense, "dense.cast")},
        {{"dim", std::int64_t{1}}, {"extents", std::vector<std::int64_t>{width, config_.dense}}});
  }

  void add_answer(TensorId x) {
    const Cut cut = config_.hidden.size() % 2 == 1 ? Cut::kIn : Cut::kNone;
    const TensorId deep = linear(x, "answer", width_of(x), 1, cut, true, weights());
    const TensorId ids = add_ids("wide_ids", config_.wide_fields, config_.wide_vocab);
    const TensorId wide =
        op("reduce_sum", "wide.sum", {look_up(ids, "wide", config_.wide_vocab, 1)},
           {{"dims", std::vector<std::int64_t>{1}}});
    const TensorId logit = op("add", "logit", {deep, wide});
    const TensorId logits =
        op("pad", "logits", {logit},
           {{"dim", std::int64_t{1}}, {"before", std::int64_t{1}}, {"after", std::int64_t{0}}});
    const TensorId labels =
        add_input(graph_, "labels", layer(), {.shape = {batch_}, .dtype = DType::kI32},
                  {.limit = 2, .ignored = kIgnoreIndex});
    const LossTensors loss = softmax_cross_entropy(graph_, logits, labels, "loss", layer());
    graph_.set_loss(loss.loss_sum, loss.token_count);
  }

  const WideDeepConfig& config_;
  std::int64_t batch_;
};

constexpr std::int64_t kMaxWideDeepSize = std::int64_t{1} << 30;

}  // namespace

void validate(const WideDeepConfig& config) {
  const auto require_size = [&](std::string_view what, std::int64_t value) {
    importers::require_size(config.name, what, value, kMaxWideDeepSize);
  };
  require_size("wide_fields", config.wide_fields);
  require_size("wide_vocab", config.wide_vocab);
  require_size("deep_fields", config.deep_fields);
  require_size("deep_vocab", config.deep_vocab);
  require_size("embedding", config.embedding);
  require_size("dense", config.dense);
  require(!config.hidden.empty(), ErrorCode::kBadInput, "{}: no hidden layers", config.name);
  for (const std::int64_t width : config.hidden) require_size("hidden", width);
  require(config.deep_fields <= kMaxWideDeepSize / config.embedding, ErrorCode::kBadInput,
          "{}: {} fields of {} numbers are beyond any model", config.name, config.deep_fields,
          config.embedding);
}

LogicalGraph build_graph(const WideDeepConfig& config, std::int64_t batch, DType dtype) {
  validate(config);
  require_buildable(batch, dtype);
  return WideDeepBuilder(config, batch, dtype).build();
}

}  // namespace sextant
