// Layers of convolutional nets as operators, one micro-batch, global tensors.
#include "models/conv_writer.h"

#include "core/operators/layers/norm_builders.h"
#include "core/operators/movement/sources.h"
#include "core/operators/pointwise/normalize_images.h"

#include <cmath>

namespace sextant {
namespace {

using Integers = std::vector<std::int64_t>;

constexpr double kFirstSlope = 0.25;  // of PReLU (arXiv 1502.01852)

}  // namespace

TensorId ConvWriter::add_images(ImageInput input, std::int64_t batch, const ImageSize& size) {
  const bool are_bytes = input == ImageInput::kU8;
  const TensorId images = add_input(graph_, "images", 0,
                                    {.shape = {batch, size.channels, size.height, size.width},
                                     .dtype = are_bytes ? DType::kU8 : parameter_dtype_});
  if (!are_bytes) return cast(images, "images.cast");
  // Of other channels nothing is known: about the numbers of bytes drawn evenly.
  const bool are_colours = size.channels == 3;
  return op(std::string(kNormalizeImages), "images.normalized", {images},
            {{"mean", std::string(are_colours ? kImageNetMeans : "0.5")},
             {"deviation", std::string(are_colours ? kImageNetDeviations : "0.25")},
             {"dtype", std::string(to_string(dtype_))}});
}

TensorId ConvWriter::add_conv(TensorId x, const ConvLayer& conv) {
  // Variance 2 / (out kernel^2), which keeps that of gradients through relu (arXiv 1502.01852).
  const std::int64_t outputs = conv.is_depthwise ? 1 : conv.out;
  const auto fan_out = static_cast<double>(outputs * conv.kernel * conv.kernel);
  std::optional<std::size_t> dim, norm_dim;
  if (conv.cut == Cut::kOut) dim = 0, norm_dim = 0;
  if (conv.cut == Cut::kIn) dim = 1;
  const std::int64_t per_group = conv.is_depthwise ? 1 : channels_of(x);
  const TensorId w =
      used(parameter(conv.name + ".weight", {conv.out, per_group, conv.kernel, conv.kernel},
                     normal(std::sqrt(2 / fan_out)), dim));
  x = op("conv", conv.name, {x, w},
         {{"stride", Integers(2, conv.stride)},
          {"padding", Integers(2, conv.padding.value_or(conv.kernel / 2))}});
  x = add_norm(x, conv.name + ".norm", norm_dim);
  switch (conv.activation) {
    case Activation::kNone:
      return x;
    case Activation::kRelu:
      return op("relu", conv.name + ".relu", {x});
    case Activation::kPrelu:
      return add_prelu(x, conv.name + ".prelu");
  }
  return x;
}

TensorId ConvWriter::add_norm(TensorId x, const std::string& prefix,
                              std::optional<std::size_t> dim) {
  const std::int64_t channels = channels_of(x);
  const NormParameters parameters{
      .gamma = used(parameter(prefix + ".weight", {channels}, ones(), dim)),
      .beta = used(parameter(prefix + ".bias", {channels}, zeros(), dim)),
      .epsilon = norms_.epsilon};
  const BatchNorm norm = batch_norm(graph_, x, parameters, prefix, layer());
  keep(norm.mean, prefix + ".running_mean", zeros(), dim);
  keep(norm.variance, prefix + ".running_variance", ones(), dim);
  return norm.y;
}

// relu(x) + slope (x - relu(x)), from operators that every device has. The parameter is what the
// slope is more than 0.25: it begins with zeros.
TensorId ConvWriter::add_prelu(TensorId x, const std::string& prefix) {
  const TensorId more = used(parameter(prefix + ".slope", {channels_of(x), 1, 1}, zeros(), {}));
  const TensorId slope = op("add_scalar", prefix + ".slope_of", {more}, {{"value", kFirstSlope}});
  const TensorId positive = op("relu", prefix + ".positive", {x});
  const TensorId negative = op("sub", prefix + ".negative", {x, positive});
  return op("add", prefix, {positive, op("mul", prefix + ".scaled", {negative, slope})});
}

void ConvWriter::keep(TensorId statistic, const std::string& kept_name, ParameterInfo info,
                      std::optional<std::size_t> dim) {
  info.tensor_parallel_dim = dim;
  keep_running(graph_, statistic, kept_name, norms_.momentum, info);
}

}  // namespace sextant
