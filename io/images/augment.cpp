// Counter-based draws choose the window; elements are interpolated one by one, so that any part of
// a sample can be made alone and is the same.
#include "io/images/augment.h"

#include "core/base/counter_rng.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace sextant {
namespace {

constexpr double kLeastArea = 0.08;           // of the pixels
constexpr double kLeastAspect = 3.0 / 4.0;    // width by height; the largest is its inverse
constexpr std::uint64_t kTries = 10;          // for a window that lies inside
constexpr std::uint64_t kDrawsOfSample = 64;  // indices of the stream that belong to one sample
constexpr std::array<float, 3> kMean = {0.485F, 0.456F, 0.406F};
constexpr std::array<float, 3> kDeviation = {0.229F, 0.224F, 0.225F};

}  // namespace

ImageWindow window_of_sample(std::int64_t width, std::int64_t height, std::uint64_t seed,
                             std::int64_t position) {
  const CounterRng random(seed, "windows of images");
  const std::uint64_t first = static_cast<std::uint64_t>(position) * kDrawsOfSample;
  ImageWindow window{0, 0, width, height, random.uniform(first) > 0.5};
  const double area = static_cast<double>(width) * static_cast<double>(height);
  const double widest = -std::log(kLeastAspect);
  for (std::uint64_t attempt = 0; attempt < kTries; ++attempt) {
    const std::uint64_t draw = first + 1 + 4 * attempt;
    const double wanted = area * (kLeastArea + (1 - kLeastArea) * random.uniform(draw));
    const double aspect = std::exp(widest * (2 * random.uniform(draw + 1) - 1));
    const auto wide = static_cast<std::int64_t>(std::lround(std::sqrt(wanted * aspect)));
    const auto high = static_cast<std::int64_t>(std::lround(std::sqrt(wanted / aspect)));
    if (wide < 1 || wide > width || high < 1 || high > height) continue;
    window.width = wide;
    window.height = high;
    window.left = static_cast<std::int64_t>(random.bits(draw + 2) %
                                            static_cast<std::uint64_t>(width - wide + 1));
    window.top = static_cast<std::int64_t>(random.bits(draw + 3) %
                                           static_cast<std::uint64_t>(height - high + 1));
    return window;
  }
  return window;  // the whole, of an image that is far longer than wide
}

// Element `index` of `count` over the `extent` pixels that begin at `begin`.
AugmentedImage::Between AugmentedImage::between(std::int64_t index, std::int64_t count,
                                                std::int64_t begin, std::int64_t extent) {
  const double centre = (static_cast<double>(index) + 0.5) * static_cast<double>(extent) /
                            static_cast<double>(count) -
                        0.5;
  const double inside = std::clamp(centre, 0.0, static_cast<double>(extent - 1));
  const auto first = static_cast<std::int64_t>(inside);
  return {begin + first, begin + std::min(first + 1, extent - 1),
          static_cast<float>(inside - static_cast<double>(first))};
}

AugmentedImage::AugmentedImage(const Pixels& pixels, const ImageWindow& window, std::int64_t width,
                               std::int64_t height)
    : pixels_(pixels), window_(window), height_(height) {
  columns_.reserve(static_cast<std::size_t>(width));
  for (std::int64_t element = 0; element < width; ++element) {
    const std::int64_t column = window.is_turned ? width - 1 - element : element;
    columns_.push_back(between(column, width, window.left, window.width));
  }
}

template <typename Store>
void AugmentedImage::interpolate(std::int64_t channel, std::int64_t row, std::int64_t from,
                                 std::int64_t to, const Store& store) const {
  const Between rows = between(row, height_, window_.top, window_.height);
  const std::uint8_t* const upper = pixels_.from(rows.first, channel);
  const std::uint8_t* const lower = pixels_.from(rows.second, channel);
  for (std::int64_t element = from; element < to; ++element) {
    const Between& columns = columns_[static_cast<std::size_t>(element)];
    const auto mixed = [&](const std::uint8_t* of_row) {
      const auto left = static_cast<float>(of_row[3 * columns.first]);
      const auto right = static_cast<float>(of_row[3 * columns.second]);
      return left + (right - left) * columns.share;
    };
    const float above = mixed(upper), below = mixed(lower);
    store(above + (below - above) * rows.share, element - from);
  }
}

void AugmentedImage::row(std::int64_t channel, std::int64_t row, std::int64_t from, std::int64_t to,
                         float* values) const {
  const float mean = kMean[static_cast<std::size_t>(channel)];
  const float deviation = kDeviation[static_cast<std::size_t>(channel)];
  interpolate(channel, row, from, to, [&](float value, std::int64_t k) {
    values[k] = (value / 255.0F - mean) / deviation;
  });
}

void AugmentedImage::row(std::int64_t channel, std::int64_t row, std::int64_t from, std::int64_t to,
                         std::uint8_t* values) const {
  interpolate(channel, row, from, to, [&](float value, std::int64_t k) {
    values[k] = static_cast<std::uint8_t>(value + 0.5F);
  });
}

std::uint8_t grey_byte(std::int64_t channel) {
  return static_cast<std::uint8_t>(255.0F * kMean[static_cast<std::size_t>(channel)] + 0.5F);
}

}  // namespace sextant
