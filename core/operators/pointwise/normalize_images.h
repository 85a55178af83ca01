// What `normalize_images` does to a byte of an image, for whoever makes images, and kernels.
#pragma once

#include "core/tensors/attributes.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

inline constexpr std::string_view kNormalizeImages = "normalize_images";
// Dims are [N, C, spatial...].
inline constexpr std::size_t kNormalizedDim = 1;

// ImageNet's, of red, green and blue as shares of 255, as the attributes have them.
inline constexpr std::string_view kImageNetMeans = "0.485,0.456,0.406";
inline constexpr std::string_view kImageNetDeviations = "0.229,0.224,0.225";

struct ChannelNormal {
  float mean = 0, deviation = 1;  // of shares of 255
};

// In f32, each operation rounded: the same bits wherever it is computed.
inline float normalized(std::uint8_t value, const ChannelNormal& channel) {
  return (static_cast<float>(value) / 255.0F - channel.mean) / channel.deviation;
}

// Of every channel, from the attributes `mean` and `deviation`: numbers with commas between them,
// one for each channel or one for all. Throws Error(kBadInput) for other numbers of them, and for a
// deviation that is not above 0.
std::vector<ChannelNormal> channel_normals(const Attributes& attributes, std::int64_t channels);

}  // namespace sextant
