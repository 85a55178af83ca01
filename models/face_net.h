// Nets that recognise faces: a convolutional backbone that makes a short vector of an image, and a
// classifier with a column per person, which outgrows it (InsightFace; arXiv 2110.15032, figures 11
// and 12). The angular margin that its losses add to the logit of the label is not built: it costs
// an operation per sample.
#pragma once

#include "core/graphs/logical_graph.h"
#include "models/conv_net.h"

#include <cstdint>
#include <string>
#include <vector>

namespace sextant {

struct FaceNetConfig {
  std::string name;
  std::int64_t image_channels = 3, height = 112, width = 112;
  std::int64_t stem_channels = 64, stem_stride = 1;
  bool stem_depthwise = false;  // a second, depthwise convolution of the stem
  // Per group of blocks; the first block of a group has its stride.
  std::vector<std::int64_t> blocks, channels, strides;
  // Per group, for inverted residuals (arXiv 1801.04381): how many times the channels that come in
  // its depthwise convolutions have. Empty: blocks of two 3x3 convolutions with a norm before them,
  // IR-Net of arXiv 1801.07698.
  std::vector<std::int64_t> expansions;
  // Channels of a last 1x1 convolution, over which a depthwise window of the whole image follows;
  // 0: neither.
  std::int64_t last_channels = 0;
  std::int64_t features = 512;
  std::int64_t classes = 85'742;  // of MS1MV2
  // Classes that a micro-batch has logits of: those of its labels and others by chance, the same
  // number of each bucket (core/operators/layers/class_sample.h). 0: all classes.
  std::int64_t sampled = 0, buckets = 8;
  double norm_epsilon = 1e-5;
  double norm_momentum = 0.1;  // of the running statistics, per step
  double initializer_range = 0.01;
  double label_smoothing = 0.0;
  ImageInput input = ImageInput::kFloat;
  bool operator==(const FaceNetConfig&) const = default;
};

// Throws Error(kBadInput) naming the value.
void validate(const FaceNetConfig& config);

// R100 of arXiv 1801.07698: 49 blocks, 65 million parameters in the backbone.
FaceNetConfig face_r100();
// MobileFaceNet of arXiv 1804.07573, its table 1: vectors of 128, a million parameters.
FaceNetConfig mobile_face_net();

// Forward graph with loss for one micro-batch: inputs `images` [batch, channels, height, width] and
// `labels` [batch] i32. Layer 0 is the stem, 1..L the blocks, L+1 vector, head and loss. Batch
// statistics are those of the whole micro-batch. Tensor parallelism splits `head.weight` [features,
// classes] by classes and nothing else; with data parallelism alone "pin=head.weight:(S(1),B)"
// does.
// With sampled classes it is [classes, features] and the pin "head.weight:(S(0),B)".
LogicalGraph build_graph(const FaceNetConfig& config, std::int64_t batch, DType dtype);

}  // namespace sextant
