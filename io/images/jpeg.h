// JPEGs to pixels and back, through libjpeg-turbo.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sextant {

inline constexpr std::int64_t kMostPixels = std::int64_t{1} << 26;

// Row-major from the upper left corner, red, green and blue of a pixel together.
struct Pixels {
  std::int64_t width = 0, height = 0;
  std::vector<std::uint8_t> values;
  std::uint8_t at(std::int64_t row, std::int64_t column, std::int64_t channel) const {
    return from(row, channel)[3 * column];
  }
  // The channel of the row's first pixel; that of the next one lies 3 further.
  const std::uint8_t* from(std::int64_t row, std::int64_t channel) const {
    return values.data() + row * width * 3 + channel;
  }
};

// Whether the build has the library; without it the functions below throw Error(kDevice).
bool has_jpeg();

// Grey images become three equal channels. `pixels` keeps what memory it has; behind an error its
// values are of no image. Throws Error(kBadInput) naming `name`: no JPEG, damaged, cut off, of more
// than kMostPixels, in colours of printing (CMYK).
void decode_jpeg(std::span<const std::byte> bytes, const std::string& name, Pixels& pixels);

// What decode_jpeg makes, in memory of its own.
Pixels decoded_jpeg(std::span<const std::byte> bytes, const std::string& name);

// `quality` is 1 to 100.
std::vector<std::byte> encoded_jpeg(const Pixels& pixels, int quality);

}  // namespace sextant
