// What builders of convolutional nets share: images, convolutions with norm and activation.
// Internal to models.
#pragma once

#include "models/conv_net.h"
#include "models/model_writer.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace sextant {

enum class Activation : std::uint8_t {
  kNone,
  kRelu,
  kPrelu,  // x where it is positive, else x times a slope of its channel that is learned from 0.25
};

// A convolution without bias that keeps odd windows centred, its norm, and perhaps the activation.
struct ConvLayer {
  std::string name;
  std::int64_t out = 1, kernel = 1, stride = 1;
  Cut cut = Cut::kNone;
  Activation activation = Activation::kRelu;
  bool is_depthwise = false;                 // a window per channel, `out` as many as come in
  std::optional<std::int64_t> padding = {};  // nothing: half of the window
};

struct ImageSize {
  std::int64_t channels = 3, height = 224, width = 224;
};

class ConvWriter : protected ModelWriter {
 protected:
  struct Norms {
    double epsilon = 1e-5, momentum = 0.1;  // momentum: of running statistics, per step
  };
  ConvWriter(Norms norms, DType dtype) : ModelWriter(dtype), norms_(norms) {}

  std::int64_t channels_of(TensorId x) const { return graph_.tensor(x).type.shape[1]; }
  // The input `images` in the type of the computation.
  TensorId add_images(ImageInput input, std::int64_t batch, const ImageSize& size);
  TensorId add_conv(TensorId x, const ConvLayer& conv);
  // Batch norm over all dims but 1, with `prefix`.weight, .bias, .running_mean, .running_variance.
  TensorId add_norm(TensorId x, const std::string& prefix, std::optional<std::size_t> dim = {});
  TensorId add_prelu(TensorId x, const std::string& prefix);

 private:
  void keep(TensorId statistic, const std::string& kept_name, ParameterInfo info,
            std::optional<std::size_t> dim);

  const Norms norms_;
};

}  // namespace sextant
