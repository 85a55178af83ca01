// Bytes of images as numbers of a model.
#pragma once

#include "core/base/dtype.h"

#include <cuda_runtime_api.h>

#include <cstdint>

namespace sextant {

struct CudaChannelNumbers {
  float mean, deviation;  // of shares of 255
};

// Elements of a plane, one channel of one image, follow each other; so do channels of an image.
struct NormalizeImagesArguments {
  DType to = DType::kF32;
  const std::uint8_t* in = nullptr;
  void* out = nullptr;
  bool accumulate = false;
  std::int64_t elements = 0, of_plane = 1, channels = 1;
  const CudaChannelNumbers* numbers = nullptr;  // by channel, on the device
  bool aligned = false;                         // to 16 bytes
};

cudaError_t enqueue_normalize_images(const NormalizeImagesArguments& arguments,
                                     cudaStream_t stream);

}  // namespace sextant
