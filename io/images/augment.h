// What becomes of the pixels of a sample: README, augment.
#pragma once

#include "io/images/jpeg.h"

#include <cstdint>
#include <vector>

namespace sextant {

// The part of the pixels that becomes a sample; inside of them, not empty.
struct ImageWindow {
  std::int64_t left = 0, top = 0, width = 0, height = 0;
  bool is_turned = false;  // left to right
  bool operator==(const ImageWindow&) const = default;
};

// The window of the sample at a position; `width` and `height` are those of the pixels.
ImageWindow window_of_sample(std::int64_t width, std::int64_t height, std::uint64_t seed,
                             std::int64_t position);

// The window as an image of other extents. `pixels` outlive it.
class AugmentedImage {
 public:
  AugmentedImage(const Pixels& pixels, const ImageWindow& window, std::int64_t width,
                 std::int64_t height);

  // Elements [from, to) of a row of one channel of the image, with ImageNet's numbers.
  void row(std::int64_t channel, std::int64_t row, std::int64_t from, std::int64_t to,
           float* values) const;
  // Those elements before ImageNet's numbers, to the nearest byte, upwards from the middle.
  void row(std::int64_t channel, std::int64_t row, std::int64_t from, std::int64_t to,
           std::uint8_t* values) const;

 private:
  // store(value, k) for element from + k of the row.
  template <typename Store>
  void interpolate(std::int64_t channel, std::int64_t row, std::int64_t from, std::int64_t to,
                   const Store& store) const;

  // Where the centre of an element lies between the centres of two pixels.
  struct Between {
    std::int64_t first, second;
    float share;  // of the second
  };
  static Between between(std::int64_t index, std::int64_t count, std::int64_t begin,
                         std::int64_t extent);

  const Pixels& pixels_;
  ImageWindow window_;
  std::int64_t height_;
  std::vector<Between> columns_;  // by element of a row
};

// The byte that is nearest to 0 once it is normalised.
std::uint8_t grey_byte(std::int64_t channel);

}  // namespace sextant
