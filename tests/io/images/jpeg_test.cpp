// Decoding, and what becomes of pixels on their way to a sample.
#include "io/images/jpeg.h"

#include "core/base/error.h"
#include "io/images/augment.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

namespace sextant::jpeg_test {
namespace {

Pixels made(std::int64_t width, std::int64_t height) {
  Pixels pixels{width, height, {}};
  for (std::int64_t row = 0; row < height; ++row)
    for (std::int64_t column = 0; column < width; ++column)
      for (std::int64_t channel = 0; channel < 3; ++channel)
        pixels.values.push_back(static_cast<std::uint8_t>((column + 2 * row + 40 * channel) % 256));
  return pixels;
}

// Of the element as normalised in the README.
double normalised(double value, std::size_t channel) {
  const double means[] = {0.485, 0.456, 0.406}, deviations[] = {0.229, 0.224, 0.225};
  return (value / 255 - means[channel]) / deviations[channel];
}

}  // namespace

TEST_CASE("a JPEG decodes to what was encoded, nearly") {
  if (!has_jpeg()) return;
  // A slope without steps loses little: at quality 95 no value is off by more than 8 of 255.
  const Pixels pixels = made(40, 24);
  const Pixels again = decoded_jpeg(encoded_jpeg(pixels, 95), "x");
  REQUIRE(again.width == 40);
  REQUIRE(again.height == 24);
  for (std::size_t i = 0; i < pixels.values.size(); ++i)
    CHECK(std::abs(int{pixels.values[i]} - int{again.values[i]}) <= 8);
}

TEST_CASE("what is no whole JPEG is refused by name") {
  if (!has_jpeg()) return;
  const std::vector<std::byte> whole = encoded_jpeg(made(64, 64), 90);
  const std::vector<std::byte> cut(whole.begin(),
                                   whole.begin() + static_cast<int>(whole.size()) / 2);
  const std::vector<std::byte> noise(300, std::byte{7});
  for (const auto& bytes : {cut, noise, std::vector<std::byte>()}) {
    try {
      decoded_jpeg(bytes, "cat.jpg");
      FAIL("not refused");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::kBadInput);
      CHECK(std::string(error.what()).starts_with("cat.jpg: "));
    }
  }
}

TEST_CASE("a size that no memory should be taken for is refused by its numbers") {
  if (!has_jpeg()) return;
  // The frame header (FF C0) has height and width behind its length and precision.
  std::vector<std::byte> bytes = encoded_jpeg(made(16, 16), 90);
  for (std::size_t i = 0; i + 9 < bytes.size(); ++i)
    if (bytes[i] == std::byte{0xFF} && bytes[i + 1] == std::byte{0xC0}) {
      // 65000 is FD E8; the library itself refuses more than 65500.
      for (const std::size_t at : {i + 5, i + 7}) {
        bytes[at] = std::byte{0xFD};
        bytes[at + 1] = std::byte{0xE8};
      }
      break;
    }
  CHECK_THROWS_WITH_AS(decoded_jpeg(bytes, "x"),
                       "x: 65000 x 65000 pixels, read are at most 67108864", Error);
}

TEST_CASE("a window lies inside, has 8 to 100 % of the area, and follows seed and position alone") {
  std::set<std::int64_t> lefts;
  int turned = 0;
  for (std::int64_t position = 0; position < 500; ++position) {
    const ImageWindow window = window_of_sample(500, 375, 3, position);
    CHECK(window.left >= 0);
    CHECK(window.top >= 0);
    CHECK(window.left + window.width <= 500);
    CHECK(window.top + window.height <= 375);
    const double area = static_cast<double>(window.width * window.height) / (500.0 * 375.0);
    CHECK(area > 0.079);  // rounded sides
    CHECK(area <= 1.0);
    const double aspect = static_cast<double>(window.width) / static_cast<double>(window.height);
    CHECK(aspect > 0.73);
    CHECK(aspect < 1.37);
    CHECK(window == window_of_sample(500, 375, 3, position));
    lefts.insert(window.left);
    turned += window.is_turned ? 1 : 0;
  }
  CHECK(lefts.size() > 100);
  // 250 with a deviation of sqrt(500) / 2 = 11.2; six of them are 67.
  CHECK(std::abs(turned - 250) < 67);
  CHECK(!(window_of_sample(500, 375, 3, 0) == window_of_sample(500, 375, 4, 0)));
  // No window of these aspects fits: the whole.
  const ImageWindow whole = window_of_sample(1, 1000, 3, 0);
  CHECK(whole.width == 1);
  CHECK(whole.height == 1000);
}

TEST_CASE("a window of the model's size is copied, turned or not, and normalised") {
  const Pixels pixels = made(20, 10);
  for (const bool is_turned : {false, true}) {
    const AugmentedImage image(pixels, {3, 2, 8, 4, is_turned}, 8, 4);
    for (std::int64_t channel = 0; channel < 3; ++channel)
      for (std::int64_t row = 0; row < 4; ++row) {
        std::vector<float> values(8);
        image.row(channel, row, 0, 8, values.data());
        for (std::int64_t column = 0; column < 8; ++column) {
          const std::int64_t from = is_turned ? 7 - column : column;
          const double wanted =
              normalised(pixels.at(2 + row, 3 + from, channel), static_cast<std::size_t>(channel));
          CHECK(std::abs(values[static_cast<std::size_t>(column)] - wanted) < 1e-5);
        }
      }
  }
}

// Two pixels over four elements: their centres lie at -0.25, 0.25, 0.75, 1.25 of the pixels'.
TEST_CASE("between pixels values are interpolated, beyond the outermost they stay") {
  Pixels pixels{2, 1, {0, 0, 0, 100, 100, 100}};
  const AugmentedImage image(pixels, {0, 0, 2, 1, false}, 4, 1);
  std::vector<float> values(4);
  image.row(0, 0, 0, 4, values.data());
  const double wanted[] = {0, 25, 75, 100};
  for (std::size_t i = 0; i < 4; ++i) CHECK(std::abs(values[i] - normalised(wanted[i], 0)) < 1e-5);
  std::vector<float> part(2);
  image.row(0, 0, 1, 3, part.data());
  CHECK(part == std::vector<float>{values[1], values[2]});
}

}  // namespace sextant::jpeg_test
