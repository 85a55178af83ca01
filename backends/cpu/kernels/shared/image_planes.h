// Images [N, C, spatial...] as planes, one of each channel of each image.
#pragma once

#include "backends/cpu/kernels/shared/kernel.h"
#include "core/base/check.h"
#include "core/operators/pointwise/normalize_images.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sextant {

// The planes of the first input of `normalize_images`.
struct ImagePlanes {
  std::int64_t count = 0, elements = 1;  // elements: of a plane
  std::vector<ChannelNormal> normals;    // by local channel

  explicit ImagePlanes(const KernelContext& context) {
    const KernelOperand& x = context.in[0];
    const Shape& shape = x.local.shape;
    require(context.out[0].box == x.box, ErrorCode::kInternal,
            "{}: y is not the part of the images that x is", kNormalizeImages);
    const std::vector<ChannelNormal> all =
        channel_normals(context.attributes(), x.layout->global.shape[kNormalizedDim]);
    const auto first = all.begin() + x.box.dims[kNormalizedDim].offset;
    normals.assign(first, first + shape[kNormalizedDim]);
    count = shape[0] * shape[kNormalizedDim];
    for (std::size_t dim = kNormalizedDim + 1; dim < shape.rank(); ++dim) elements *= shape[dim];
  }

  const ChannelNormal& normal(std::int64_t plane) const {
    return normals[static_cast<std::size_t>(plane) % normals.size()];
  }
};

}  // namespace sextant
