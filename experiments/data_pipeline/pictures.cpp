// Quality 85 and noise of a few levels: about 0.25 bytes a pixel, as photographs have.
#include "experiments/data_pipeline/pictures.h"

#include "core/base/check.h"
#include "core/base/counter_rng.h"
#include "io/images/augment.h"
#include "io/images/jpeg.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <vector>

namespace sextant {
namespace {

constexpr int kQuality = 85;

Pixels picture(PictureSize size, std::uint64_t number) {
  const CounterRng random(number, "picture");
  Pixels pixels{size.width, size.height, {}};
  pixels.values.reserve(static_cast<std::size_t>(3 * size.width * size.height));
  const double waves = 2 + 6 * random.uniform(0), edge = random.uniform(1);
  for (std::int64_t row = 0; row < size.height; ++row)
    for (std::int64_t column = 0; column < size.width; ++column) {
      const double x = static_cast<double>(column) / static_cast<double>(size.width);
      const double y = static_cast<double>(row) / static_cast<double>(size.height);
      const double shade = 110 + 70 * std::sin(waves * (x + y)) + (x + 0.3 * y > edge ? 40 : 0);
      const auto index = static_cast<std::uint64_t>(row * size.width + column);
      const double noise = 12 * (random.uniform(index + 2) - 0.5);
      for (int channel = 0; channel < 3; ++channel)
        pixels.values.push_back(
            static_cast<std::uint8_t>(std::clamp(shade + 15 * channel + noise, 0.0, 255.0)));
    }
  return pixels;
}

}  // namespace

void write_pictures(const std::string& folder, PictureSize size, std::int64_t count,
                    std::int64_t classes) {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::string of_class = fmt::format("{}/{:03}", folder, i % classes);
    std::filesystem::create_directories(of_class);
    const std::vector<std::byte> bytes =
        encoded_jpeg(picture(size, static_cast<std::uint64_t>(i)), kQuality);
    const std::string path = fmt::format("{}/{:05}.jpg", of_class, i);
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    require(file.good(), ErrorCode::kBadInput, "{}: cannot be written", path);
  }
}

double images_per_second(const ImageSource& images, std::int64_t extent, std::int64_t count) {
  std::vector<float> row(static_cast<std::size_t>(extent));
  const auto begin = std::chrono::steady_clock::now();
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t image = i % images.size();
    const Pixels pixels = decoded_jpeg(images.encoded(image).bytes, images.name(image));
    const AugmentedImage sample(pixels, window_of_sample(pixels.width, pixels.height, 1, i), extent,
                                extent);
    for (std::int64_t channel = 0; channel < 3; ++channel)
      for (std::int64_t r = 0; r < extent; ++r) sample.row(channel, r, 0, extent, row.data());
  }
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  return static_cast<double>(count) / taken.count();
}

}  // namespace sextant
