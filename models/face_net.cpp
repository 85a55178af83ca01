// Face net config -> forward graph with loss, one micro-batch, global tensors.
#include "models/face_net.h"

#include "core/operators/layers/class_sample.h"
#include "core/operators/layers/loss.h"
#include "core/operators/movement/sources.h"
#include "models/checks.h"
#include "models/conv_writer.h"

#include <cmath>
#include <numeric>

namespace sextant {
namespace {

ClassSample sample_of(const FaceNetConfig& config) {
  return {.classes = config.classes, .buckets = config.buckets, .taken = config.sampled};
}

class FaceNetBuilder : private ConvWriter {
 public:
  FaceNetBuilder(const FaceNetConfig& config, std::int64_t batch, DType dtype)
      : ConvWriter({config.norm_epsilon, config.norm_momentum}, dtype),
        config_(config),
        batch_(batch) {}

  LogicalGraph build() {
    const auto blocks =
        std::accumulate(config_.blocks.begin(), config_.blocks.end(), std::int64_t{0});
    const TensorId labels = add_input(graph_, "labels", static_cast<int>(blocks) + 1,
                                      {.shape = {batch_}, .dtype = DType::kI32},
                                      {.limit = config_.classes, .ignored = kIgnoreIndex});
    TensorId x = add_stem();
    for (std::size_t group = 0; group < config_.blocks.size(); ++group)
      for (std::int64_t block = 0; block < config_.blocks[group]; ++block) {
        ++layer_;
        const std::int64_t stride = block == 0 ? config_.strides[group] : 1;
        x = config_.expansions.empty() ? add_pair(x, config_.channels[group], stride)
                                       : add_inverted(x, group, stride);
      }
    ++layer_;
    add_head(add_vector(x), labels);
    return take();
  }

 private:
  TensorId add_stem() {
    TensorId x =
        add_images(config_.input, batch_, {config_.image_channels, config_.height, config_.width});
    x = add_conv(x, {.name = "stem",
                     .out = config_.stem_channels,
                     .kernel = 3,
                     .stride = config_.stem_stride,
                     .activation = Activation::kPrelu});
    if (!config_.stem_depthwise) return x;
    return add_conv(x, {.name = "stem.depthwise",
                        .out = config_.stem_channels,
                        .kernel = 3,
                        .activation = Activation::kPrelu,
                        .is_depthwise = true});
  }

  TensorId added(TensorId kept, TensorId y) { return op("add", name("residual"), {kept, y}); }

  // norm, 3x3, norm, PReLU, 3x3 with the stride, norm.
  TensorId add_pair(TensorId x, std::int64_t channels, std::int64_t stride) {
    const bool keeps_shape = stride == 1 && channels_of(x) == channels;
    const TensorId kept = keeps_shape ? x
                                      : add_conv(x, {.name = name("shortcut"),
                                                     .out = channels,
                                                     .stride = stride,
                                                     .activation = Activation::kNone});
    TensorId y = add_norm(x, name("norm"));
    y = add_conv(
        y, {.name = name("conv1"), .out = channels, .kernel = 3, .activation = Activation::kPrelu});
    y = add_conv(y, {.name = name("conv2"),
                     .out = channels,
                     .kernel = 3,
                     .stride = stride,
                     .activation = Activation::kNone});
    return added(kept, y);
  }

  // 1x1 to more channels, depthwise 3x3 with the stride, 1x1 to what goes out.
  TensorId add_inverted(TensorId x, std::size_t group, std::int64_t stride) {
    const std::int64_t wide = config_.expansions[group] * channels_of(x);
    const std::int64_t out = config_.channels[group];
    TensorId y =
        add_conv(x, {.name = name("expand"), .out = wide, .activation = Activation::kPrelu});
    y = add_conv(y, {.name = name("depthwise"),
                     .out = wide,
                     .kernel = 3,
                     .stride = stride,
                     .activation = Activation::kPrelu,
                     .is_depthwise = true});
    y = add_conv(y, {.name = name("project"), .out = out, .activation = Activation::kNone});
    return stride == 1 && channels_of(x) == out ? added(x, y) : y;
  }

  // [batch, features], normalised over the batch.
  TensorId add_vector(TensorId x) {
    if (config_.last_channels > 0) {
      x = add_conv(
          x, {.name = "last", .out = config_.last_channels, .activation = Activation::kPrelu});
      x = add_whole_window(x);
    } else {
      x = add_norm(x, "last.norm");
    }
    const Shape shape = graph_.tensor(x).type.shape;
    const std::int64_t width = shape.elements() / batch_;
    x = reshape(x, "vector.flat", {batch_, width});
    x = linear(x, "vector", width, config_.features, Cut::kNone, false,
               normal(1 / std::sqrt(static_cast<double>(width))));
    return add_norm(x, "vector.norm");
  }

  // A depthwise window of the whole image: one position is left.
  TensorId add_whole_window(TensorId x) {
    return add_conv(x, {.name = "window",
                        .out = channels_of(x),
                        .kernel = graph_.tensor(x).type.shape[2],
                        .activation = Activation::kNone,
                        .is_depthwise = true,
                        .padding = 0});
  }

  SampledLogits add_sampled(TensorId x, TensorId labels) {
    const TensorId weight = parameter("head.weight", {config_.classes, config_.features},
                                      normal(config_.initializer_range), 0);
    return sampled_logits(graph_, x, labels, weight, sample_of(config_), "head", layer(),
                          kIgnoreIndex);
  }

  void add_head(TensorId x, TensorId labels) {
    const SampledLogits head =
        config_.sampled > 0
            ? add_sampled(x, labels)
            : SampledLogits{.logits = linear(x, "head", config_.features, config_.classes,
                                             Cut::kOut, false, normal(config_.initializer_range)),
                            .labels = labels};
    const LossTensors loss = softmax_cross_entropy(graph_, head.logits, head.labels, "loss",
                                                   layer(), kIgnoreIndex, config_.label_smoothing);
    graph_.set_loss(loss.loss_sum, loss.token_count);
  }

  const FaceNetConfig& config_;
  std::int64_t batch_;
};

constexpr std::int64_t kMaxSize = std::int64_t{1} << 20, kMaxClasses = std::int64_t{1} << 30;

void require_groups(const FaceNetConfig& config) {
  const std::size_t groups = config.blocks.size();
  require(groups > 0 && config.channels.size() == groups && config.strides.size() == groups &&
              (config.expansions.empty() || config.expansions.size() == groups),
          ErrorCode::kBadInput,
          "{}: {} groups of blocks with {} numbers of channels, {} strides and {} expansions",
          config.name, groups, config.channels.size(), config.strides.size(),
          config.expansions.size());
  const auto require_sizes = [&](std::string_view what, const std::vector<std::int64_t>& values) {
    for (const std::int64_t value : values)
      importers::require_size(config.name, what, value, kMaxSize);
  };
  require_sizes("blocks", config.blocks);
  require_sizes("channels", config.channels);
  require_sizes("strides", config.strides);
  require_sizes("expansions", config.expansions);
}

}  // namespace

void validate(const FaceNetConfig& config) {
  const auto require_size = [&](std::string_view what, std::int64_t value, std::int64_t most) {
    importers::require_size(config.name, what, value, most);
  };
  require_size("image_channels", config.image_channels, kMaxSize);
  require_size("height", config.height, kMaxSize);
  require_size("width", config.width, kMaxSize);
  require(config.height == config.width, ErrorCode::kBadInput,
          "{}: images of {} x {}, wanted as wide as high", config.name, config.height,
          config.width);
  require_size("stem_channels", config.stem_channels, kMaxSize);
  require_size("stem_stride", config.stem_stride, kMaxSize);
  require_groups(config);
  require(config.last_channels >= 0 && config.last_channels <= kMaxSize, ErrorCode::kBadInput,
          "{}: last_channels is {}, wanted 0 to {}", config.name, config.last_channels, kMaxSize);
  require_size("features", config.features, kMaxSize);
  require_size("classes", config.classes, kMaxClasses);
  require_size("buckets", config.buckets, kMaxClasses);
  require(config.sampled >= 0, ErrorCode::kBadInput,
          "{}: sampled is {}, wanted 0 for all classes, or how many", config.name, config.sampled);
  if (config.sampled > 0) validate(sample_of(config), config.name);
  require(config.norm_epsilon > 0 && config.norm_epsilon < 1, ErrorCode::kBadInput,
          "{}: the norm epsilon is {}, wanted a number between 0 and 1", config.name,
          config.norm_epsilon);
  require(config.norm_momentum >= 0 && config.norm_momentum <= 1, ErrorCode::kBadInput,
          "{}: the momentum of running statistics is {}, wanted 0 to 1", config.name,
          config.norm_momentum);
  importers::require_share(config.name, "label smoothing", config.label_smoothing);
}

FaceNetConfig face_r100() {
  return {.name = "face-r100",
          .blocks = {3, 13, 30, 3},
          .channels = {64, 128, 256, 512},
          .strides = {2, 2, 2, 2},
          .expansions = {}};
}

FaceNetConfig mobile_face_net() {
  return {.name = "mobile-face-net",
          .stem_stride = 2,
          .stem_depthwise = true,
          .blocks = {5, 1, 6, 1, 2},
          .channels = {64, 128, 128, 128, 128},
          .strides = {2, 2, 1, 2, 1},
          .expansions = {2, 4, 2, 4, 2},
          .last_channels = 512,
          .features = 128};
}

LogicalGraph build_graph(const FaceNetConfig& config, std::int64_t batch, DType dtype) {
  validate(config);
  require_buildable(batch, dtype);
  return FaceNetBuilder(config, batch, dtype).build();
}

}  // namespace sextant
