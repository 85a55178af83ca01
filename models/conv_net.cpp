// Conv net config -> forward graph with loss, one micro-batch, global tensors.
#include "models/conv_net.h"

#include "core/operators/layers/loss.h"
#include "core/operators/movement/sources.h"
#include "models/checks.h"
#include "models/conv_writer.h"

#include <cmath>
#include <numeric>

namespace sextant {
namespace {

using Integers = std::vector<std::int64_t>;

class ConvNetBuilder : private ConvWriter {
 public:
  ConvNetBuilder(const ConvNetConfig& config, std::int64_t batch, DType dtype)
      : ConvWriter({config.norm_epsilon, config.norm_momentum}, dtype),
        config_(config),
        batch_(batch) {}

  LogicalGraph build() {
    const auto blocks =
        std::accumulate(config_.blocks.begin(), config_.blocks.end(), std::int64_t{0});
    const TensorType ids{.shape = {batch_}, .dtype = DType::kI32};
    const TensorId labels = add_input(graph_, "labels", static_cast<int>(blocks) + 1, ids,
                                      {.limit = config_.classes, .ignored = kIgnoreIndex});
    TensorId x = add_stem();
    for (std::size_t group = 0; group < config_.blocks.size(); ++group) {
      for (std::int64_t block = 0; block < config_.blocks[group]; ++block) {
        ++layer_;
        x = add_block(x, config_.channels[group], group > 0 && block == 0 ? 2 : 1);
      }
    }
    ++layer_;
    add_head(x, labels);
    return take();
  }

 private:
  TensorId add_stem() {
    const TensorId images =
        add_images(config_.input, batch_, {config_.image_channels, config_.height, config_.width});
    const TensorId x = add_conv(images, {.name = "stem",
                                         .out = config_.stem_channels,
                                         .kernel = config_.stem_kernel,
                                         .stride = config_.stem_stride});
    if (!config_.stem_pool) return x;
    return op(
        "max_pool", "stem.pool", {x},
        {{"kernel", Integers{3, 3}}, {"stride", Integers{2, 2}}, {"padding", Integers{1, 1}}});
  }

  TensorId add_block(TensorId x, std::int64_t channels, std::int64_t stride) {
    const std::int64_t out = config_.bottleneck ? 4 * channels : channels;
    const TensorId y =
        config_.bottleneck ? add_bottleneck(x, channels, stride) : add_pair(x, channels, stride);
    const bool keeps_shape = stride == 1 && channels_of(x) == out;
    const TensorId kept = keeps_shape ? x
                                      : add_conv(x, {.name = name("shortcut"),
                                                     .out = out,
                                                     .stride = stride,
                                                     .activation = Activation::kNone});
    return op("relu", name("relu"), {op("add", name("residual"), {kept, y})});
  }

  TensorId add_pair(TensorId x, std::int64_t channels, std::int64_t stride) {
    x = add_conv(
        x,
        {.name = name("conv1"), .out = channels, .kernel = 3, .stride = stride, .cut = Cut::kOut});
    return add_conv(x, {.name = name("conv2"),
                        .out = channels,
                        .kernel = 3,
                        .cut = Cut::kIn,
                        .activation = Activation::kNone});
  }

  TensorId add_bottleneck(TensorId x, std::int64_t channels, std::int64_t stride) {
    x = add_conv(x, {.name = name("conv1"), .out = channels, .cut = Cut::kOut});
    x = add_conv(
        x,
        {.name = name("conv2"), .out = channels, .kernel = 3, .stride = stride, .cut = Cut::kIn});
    return add_conv(x,
                    {.name = name("conv3"), .out = 4 * channels, .activation = Activation::kNone});
  }

  void add_head(TensorId x, TensorId labels) {
    x = op("reduce_mean", "head.pool", {x}, {{"dims", Integers{2, 3}}});
    const std::int64_t features = channels_of(x);
    const double deviation = 1 / std::sqrt(static_cast<double>(features));
    const TensorId logits =
        linear(x, "head", features, config_.classes, Cut::kOut, true, normal(deviation));
    const LossTensors loss = softmax_cross_entropy(graph_, logits, labels, "loss", layer(),
                                                   kIgnoreIndex, config_.label_smoothing);
    graph_.set_loss(loss.loss_sum, loss.token_count);
  }

  const ConvNetConfig& config_;
  std::int64_t batch_;
};

constexpr std::int64_t kMaxConvSize = std::int64_t{1} << 20;

void require_size(const std::string& model, std::string_view what, std::int64_t value) {
  importers::require_size(model, what, value, kMaxConvSize);
}

}  // namespace

void validate(const ConvNetConfig& config) {
  require_size(config.name, "image_channels", config.image_channels);
  require_size(config.name, "height", config.height);
  require_size(config.name, "width", config.width);
  require_size(config.name, "classes", config.classes);
  require_size(config.name, "stem_channels", config.stem_channels);
  require_size(config.name, "stem_kernel", config.stem_kernel);
  require_size(config.name, "stem_stride", config.stem_stride);
  require(!config.blocks.empty() && config.blocks.size() == config.channels.size(),
          ErrorCode::kBadInput, "{}: {} groups of blocks with {} numbers of channels", config.name,
          config.blocks.size(), config.channels.size());
  for (std::size_t group = 0; group < config.blocks.size(); ++group) {
    require_size(config.name, "blocks", config.blocks[group]);
    require_size(config.name, "channels", config.channels[group]);
  }
  require(config.norm_epsilon > 0 && config.norm_epsilon < 1, ErrorCode::kBadInput,
          "{}: the norm epsilon is {}, wanted a number between 0 and 1", config.name,
          config.norm_epsilon);
  require(config.norm_momentum >= 0 && config.norm_momentum <= 1, ErrorCode::kBadInput,
          "{}: the momentum of running statistics is {}, wanted 0 to 1", config.name,
          config.norm_momentum);
  importers::require_share(config.name, "label smoothing", config.label_smoothing);
}

LogicalGraph build_graph(const ConvNetConfig& config, std::int64_t batch, DType dtype) {
  validate(config);
  require_buildable(batch, dtype);
  return ConvNetBuilder(config, batch, dtype).build();
}

}  // namespace sextant
