// Class-split classifier config -> forward graph with loss, one micro-batch, global tensors.
#include "models/class_head.h"

#include "core/operators/layers/loss.h"
#include "core/operators/movement/sources.h"
#include "models/checks.h"
#include "models/model_writer.h"

namespace sextant {
namespace {

class ClassHeadBuilder : private ModelWriter {
 public:
  ClassHeadBuilder(const ClassHeadConfig& config, std::int64_t batch, DType dtype)
      : ModelWriter(dtype), config_(config), batch_(batch) {}

  LogicalGraph build() {
    TensorId x = cast(add_input(graph_, "features", 0,
                                {.shape = {batch_, config_.features}, .dtype = parameter_dtype_}),
                      "features.cast");
    std::int64_t width = config_.features;
    for (const std::int64_t hidden : config_.hidden) {
      ++layer_;
      x = op("relu", name("relu"),
             {linear(x, name("linear"), width, hidden, Cut::kNone, true, weights())});
      width = hidden;
    }
    ++layer_;
    const TensorId labels =
        add_input(graph_, "labels", layer(), {.shape = {batch_}, .dtype = DType::kI32},
                  {.limit = config_.classes, .ignored = kIgnoreIndex});
    const TensorId logits = linear(x, "head", width, config_.classes, Cut::kOut, false, weights());
    const LossTensors loss = softmax_cross_entropy(graph_, logits, labels, "loss", layer(),
                                                   kIgnoreIndex, config_.label_smoothing);
    graph_.set_loss(loss.loss_sum, loss.token_count);
    return take();
  }

 private:
  ParameterInfo weights() const { return normal(config_.initializer_range); }

  const ClassHeadConfig& config_;
  std::int64_t batch_;
};

constexpr std::int64_t kMaxClassHeadSize = std::int64_t{1} << 30;

}  // namespace

void validate(const ClassHeadConfig& config) {
  const auto require_size = [&](std::string_view what, std::int64_t value) {
    importers::require_size(config.name, what, value, kMaxClassHeadSize);
  };
  require_size("features", config.features);
  require_size("classes", config.classes);
  require(!config.hidden.empty(), ErrorCode::kBadInput, "{}: no hidden layers", config.name);
  for (const std::int64_t width : config.hidden) require_size("hidden", width);
  importers::require_share(config.name, "label smoothing", config.label_smoothing);
}

LogicalGraph build_graph(const ClassHeadConfig& config, std::int64_t batch, DType dtype) {
  validate(config);
  require_buildable(batch, dtype);
  return ClassHeadBuilder(config, batch, dtype).build();
}

}  // namespace sextant
