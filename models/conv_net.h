// Residual conv nets with batch norm, as ResNet: config and forward graph.
#pragma once

#include "core/graphs/logical_graph.h"

#include <cstdint>
#include <string>
#include <vector>

namespace sextant {

// How images come: as numbers that whoever loads them has normalised, or as bytes, which are a
// quarter as many to bring to a device and are normalised there (ImageNet's numbers for three
// channels).
enum class ImageInput : std::uint8_t { kFloat, kU8 };

struct ConvNetConfig {
  std::string name;
  std::int64_t image_channels = 3, height = 224, width = 224, classes = 1000;
  std::int64_t stem_channels = 64, stem_kernel = 7, stem_stride = 2;
  bool stem_pool = true;  // the maximum of every second 3 x 3 window
  // Blocks of 1x1, 3x3, 1x1 convolutions, the last with four times the channels; else two 3x3.
  bool bottleneck = false;
  // Per group of blocks; every group but the first halves the image in its first block.
  std::vector<std::int64_t> blocks, channels;
  double norm_epsilon = 1e-5;
  double norm_momentum = 0.1;  // of the running statistics, per step
  double label_smoothing = 0.0;
  ImageInput input = ImageInput::kFloat;
  bool operator==(const ConvNetConfig&) const = default;
};

// Throws Error(kBadInput) naming the value.
void validate(const ConvNetConfig& config);

// Forward graph with loss for one micro-batch: inputs `images` [batch, channels, height, width], u8
// or a floating type, and `labels` [batch] i32. Layer 0 is the stem, 1..L the blocks, L+1 the pool
// over the image, the classifier and the loss.
//
// Batch statistics are those of the whole micro-batch over all devices. Running statistics, for
// inference, move once per step towards the average over its micro-batches. Tensor parallelism
// splits the inner channels of a block and the classes.
LogicalGraph build_graph(const ConvNetConfig& config, std::int64_t batch, DType dtype);

}  // namespace sextant
