// Samples of images are the same for every split of the batch, from folders and from shards.
#include "io/images/image_data.h"

#include "core/base/error.h"
#include "core/operators/pointwise/normalize_images.h"
#include "io/images/augment.h"
#include "io/images/jpeg.h"
#include "io/open_data.h"
#include "tests/io/data/made_files.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sextant::image_data_test {
namespace {

using namespace testing;

std::string jpeg_of(std::uint8_t shade, std::int64_t width = 20, std::int64_t height = 16) {
  Pixels pixels{width, height, {}};
  for (std::int64_t i = 0; i < width * height * 3; ++i)
    pixels.values.push_back(static_cast<std::uint8_t>(shade + i % 50));
  const std::vector<std::byte> bytes = encoded_jpeg(pixels, 90);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Three classes with two images each.
void write_folder(const DataFolder& folder) {
  const char* const classes[] = {"ant", "bee", "cat"};
  for (int c = 0; c < 3; ++c)
    for (int i = 0; i < 2; ++i)
      folder.write(std::string(classes[c]) + "/" + std::to_string(i) + ".jpg",
                   jpeg_of(static_cast<std::uint8_t>(60 * c + 20 * i)));
}

std::string shard_of_three() {
  std::string members;
  for (int i = 0; i < 3; ++i) {
    const std::string key = "s" + std::to_string(i);
    members += tar_member(key + ".jpg", jpeg_of(static_cast<std::uint8_t>(50 * i))) +
               tar_member(key + ".cls", std::to_string(2 * i) + "\n") +
               tar_member(key + ".json", "{}");
  }
  return tar_file(members);
}

Actor input_named(const std::string& name, std::int64_t classes) {
  Actor input;
  input.kind = "input";
  input.name = name;
  if (name == "labels") {
    input.attributes.set("limit", classes);
    input.attributes.set("ignore_index", std::int64_t{-100});
  }
  return input;
}

// A box of rows of the images at some positions.
std::vector<float> images_at(const SampleData& data, std::int64_t first, std::int64_t batch,
                             std::int64_t from, std::int64_t rows, Interval channels = {0, 3}) {
  const Actor input = input_named("images", 0);
  const TensorType type{Shape{batch, 3, 8, 8}, DType::kF32};
  const Shard box{{{from, rows}, channels, {0, 8}, {0, 8}}};
  std::vector<float> values(static_cast<std::size_t>(box.elements()));
  data.fill({input, type, box, first, batch, 3}, std::as_writable_bytes(std::span(values)));
  return values;
}

std::vector<std::uint8_t> bytes_at(const SampleData& data, std::int64_t first, std::int64_t batch,
                                   std::int64_t from, std::int64_t rows) {
  const Actor input = input_named("images", 0);
  const TensorType type{Shape{batch, 3, 8, 8}, DType::kU8};
  const Shard box{{{from, rows}, {0, 3}, {0, 8}, {0, 8}}};
  std::vector<std::uint8_t> values(static_cast<std::size_t>(box.elements()));
  data.fill({input, type, box, first, batch, 3}, std::as_writable_bytes(std::span(values)));
  return values;
}

std::vector<std::int32_t> labels_at(const SampleData& data, std::int64_t first, std::int64_t batch,
                                    std::int64_t classes = 5) {
  const Actor input = input_named("labels", classes);
  const TensorType type{Shape{batch}, DType::kI32};
  const Shard box{{{0, batch}}};
  std::vector<std::int32_t> values(static_cast<std::size_t>(batch));
  data.fill({input, type, box, first, batch, 3}, std::as_writable_bytes(std::span(values)));
  return values;
}

}  // namespace

TEST_CASE("classes of a folder are numbered by name, images read by path") {
  if (!has_jpeg()) return;
  const DataFolder folder("sextant_images");
  write_folder(folder);
  folder.write("bee/.hidden.jpg", "x");
  folder.write("bee/notes.txt", "x");
  const auto data = open_data({folder.path.string(), "", "file"});
  CHECK(data->main_input() == "images");
  CHECK(labels_at(*data, 0, 6) == std::vector<std::int32_t>{0, 0, 1, 1, 2, 2});
  CHECK(labels_at(*data, 4, 4) == std::vector<std::int32_t>{2, 2, 0, 0});
}

TEST_CASE("any split of rows or channels joins to the batch of one rank") {
  if (!has_jpeg()) return;
  const DataFolder folder("sextant_images_split");
  write_folder(folder);
  const auto data = open_data({folder.path.string(), "images", ""});
  const std::vector<float> whole = images_at(*data, 12, 5, 0, 5);
  std::vector<float> joined = images_at(*data, 12, 5, 0, 2);
  for (const float value : images_at(*data, 12, 5, 2, 3)) joined.push_back(value);
  CHECK(joined == whole);
  CHECK(images_at(*data, 12, 5, 3, 0).empty());
  const std::vector<float> blue = images_at(*data, 12, 5, 1, 1, {2, 1});
  CHECK(blue == std::vector<float>(whole.begin() + (1 * 3 + 2) * 64, whole.begin() + 2 * 3 * 64));
  // Two micro-batches of one step, and the same image in another epoch, cut another way.
  CHECK(images_at(*data, 14, 1, 0, 1) ==
        std::vector<float>(whole.begin() + 2 * 192, whole.begin() + 3 * 192));
  const auto in_order = open_data({folder.path.string(), "images", "file"});
  CHECK(images_at(*in_order, 0, 1, 0, 1) != images_at(*in_order, 6, 1, 0, 1));
}

// Where windows lie on pixels nothing is between them: the same bits.
TEST_CASE("bytes are what is normalised: to half a step between pixels, to the bit on them") {
  if (!has_jpeg()) return;
  const DataFolder folder("sextant_images_bytes");
  write_folder(folder);
  const auto data = open_data({folder.path.string(), "images", ""});
  const std::vector<float> wanted = images_at(*data, 12, 5, 1, 3);
  const std::vector<std::uint8_t> bytes = bytes_at(*data, 12, 5, 1, 3);
  const std::vector<ChannelNormal> normals = channel_normals(
      {{"mean", std::string(kImageNetMeans)}, {"deviation", std::string(kImageNetDeviations)}}, 3);
  REQUIRE(bytes.size() == wanted.size());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const ChannelNormal& channel = normals[i / 64 % 3];
    CHECK(std::abs(normalized(bytes[i], channel) - wanted[i]) <
          (0.5F / 255.0F + 1e-5F) / channel.deviation);
  }
  const std::string made = jpeg_of(3, 40, 30);
  const Pixels pixels = decoded_jpeg(std::as_bytes(std::span(made)), "made");
  const AugmentedImage image(pixels, {0, 0, 40, 30, true}, 40, 30);
  std::vector<float> numbers(40);
  std::vector<std::uint8_t> values(40);
  for (std::int64_t channel = 0; channel < 3; ++channel)
    for (std::int64_t row = 0; row < 30; ++row) {
      image.row(channel, row, 0, 40, numbers.data());
      image.row(channel, row, 0, 40, values.data());
      for (std::size_t i = 0; i < 40; ++i)
        CHECK(normalized(values[i], normals[static_cast<std::size_t>(channel)]) == numbers[i]);
    }
}

TEST_CASE("shards have the same samples as a folder would, with their classes") {
  if (!has_jpeg()) return;
  const DataFolder folder("sextant_shards");
  folder.write("b.tar", shard_of_three());
  folder.write("a.tar", tar_file(tar_member("x/y.JPEG", jpeg_of(9)) + tar_member("x/y.cls", "1")));
  const auto data = open_data({folder.path.string(), "", "file"});
  CHECK(labels_at(*data, 0, 4) == std::vector<std::int32_t>{1, 0, 2, 4});
  const auto alone = open_data({folder / "b.tar", "", "file"});
  // Position 0 here and 1 there are one image, cut by position: other samples.
  CHECK(images_at(*alone, 0, 1, 0, 1).size() == 192);
  CHECK(alone->fingerprint() != data->fingerprint());
}

TEST_CASE("a batch that is filled up has ignored labels and grey images") {
  if (!has_jpeg()) return;
  const DataFolder folder("sextant_images_pad");
  write_folder(folder);
  const auto data = open_data({folder.path.string(), "", "file last_batch=pad"});
  CHECK(labels_at(*data, 4, 4) == std::vector<std::int32_t>{2, 2, -100, -100});
  for (const float value : images_at(*data, 4, 4, 2, 2)) CHECK(value == 0);
  const std::vector<std::uint8_t> bytes = bytes_at(*data, 4, 4, 3, 1);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    CHECK(bytes[i] == std::array<std::uint8_t, 3>{124, 116, 104}[i / 64]);
  CHECK(data->depends_on_batch());
}

// Images of several sizes, rows that only fill up, f32, f64 and bytes; 20 is no multiple of a
// piece.
TEST_CASE("stages whose registers are used again make what is made at once") {
  if (!has_jpeg()) return;
  const DataFolder folder("sextant_images_stages");
  for (int i = 0; i < 7; ++i)
    folder.write("c/" + std::to_string(i) + ".jpg",
                 jpeg_of(static_cast<std::uint8_t>(30 * i), 12 + 5 * ((i * 3) % 7), 9 + 4 * i));
  constexpr std::int64_t kBatch = 3, kContents = 9;
  const auto data = open_data({folder.path.string(), "", "file last_batch=pad"});
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kU8})
    for (const std::int32_t registers : {1, 2, 3}) {
      const Actor input = input_named("images", 0);
      const TensorType type{Shape{kBatch, 3, 20, 20}, dtype};
      const Shard box{{{0, kBatch}, {0, 3}, {0, 20}, {0, 20}}};
      const auto stages = data->stages(registers);
      const auto part_of = [&](std::int64_t content) {
        return InputPart{input, type, box, content * kBatch, kBatch, 3};
      };
      const auto size = static_cast<std::size_t>((box.elements() * size_of(dtype)).value);
      for (std::int64_t first = 0; first < kContents; first += registers) {
        const std::int64_t end = std::min<std::int64_t>(first + registers, kContents);
        for (const std::string& kind : data->stage_kinds())
          for (std::int64_t content = first; content < end; ++content)
            stages->act(kind, part_of(content), content);
        for (std::int64_t content = first; content < end; ++content) {
          std::vector<std::byte> staged(size), whole(size);
          stages->deliver(content, staged);
          data->fill(part_of(content), whole);
          CAPTURE(content);
          CHECK(staged == whole);
        }
      }
    }
}

// More than one piece of what is copied side by side.
TEST_CASE("a batch of many MiB is delivered whole") {
  if (!has_jpeg()) return;
  const DataFolder folder("sextant_images_large");
  write_folder(folder);
  const auto data = open_data({folder.path.string(), "", ""});
  const Actor input = input_named("images", 0);
  const TensorType type{Shape{3, 3, 411, 401}, DType::kF32};
  const Shard box{{{0, 3}, {0, 3}, {0, 411}, {0, 401}}};
  const InputPart part{input, type, box, 0, 3, 3};
  const auto stages = data->stages(1);
  for (const std::string& kind : data->stage_kinds()) stages->act(kind, part, 0);
  const auto size = static_cast<std::size_t>((box.elements() * size_of(DType::kF32)).value);
  REQUIRE(size > std::size_t{1} << 22);
  std::vector<std::byte> staged(size), whole(size);
  stages->deliver(0, staged);
  data->fill(part, whole);
  CHECK(staged == whole);
}

TEST_CASE("what cannot be a sample is refused by the name of its image") {
  if (!has_jpeg()) return;
  const DataFolder folder("sextant_images_bad");
  write_folder(folder);
  const auto data = open_data({folder.path.string(), "", "file"});
  CHECK_THROWS_WITH_AS(
      labels_at(*data, 0, 6, 2),
      (folder / "cat/0.jpg" + ": class 2, but the model's classes are 0 to 1").c_str(), Error);
  folder.write("bee/1.jpg", "no image");
  try {
    images_at(*data, 0, 6, 0, 6);
    FAIL("not refused");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kBadInput);
    CHECK(std::string(error.what()).starts_with(folder / "bee/1.jpg" + ": "));
  }
  CHECK_THROWS_AS(open_data({folder.path.string(), "images", "places"}), Error);
}

TEST_CASE("folders and shards without what they need are refused by name") {
  const DataFolder folder("sextant_no_images");
  const auto refused = [&](const std::string& path, const char* format, const std::string& what) {
    CAPTURE(what);
    CHECK_THROWS_WITH_AS(open_data({path, format, ""}), what.c_str(), Error);
  };
  const std::string root = folder.path.string();
  refused(root, "images", root + ": no folder of images: a folder for every class is wanted");
  folder.write("ant/a.png", "x");
  refused(root, "images", root + ": no .jpg or .jpeg file in the folders of 1 classes");
  refused(root, "tar", root + ": no .tar file");
  const std::string tar = folder.write("a.tar", tar_file(tar_member("a.jpg", "x")));
  refused(tar, "", tar + ": 'a.jpg' has no class: there is no entry 'a.cls'");
  folder.write("a.tar", tar_file(tar_member("a.jpg", "x") + tar_member("a.cls", "-1")));
  refused(tar, "", tar + ": 'a.cls' is no number of a class");
  folder.write("a.tar", tar_file(tar_member("a.jpg", "x") + tar_member("a.b.jpg", "x") +
                                 tar_member("a.cls", "1")));
  refused(tar, "", tar + ": 'a.jpg' and 'a.b.jpg' are images of one sample");
  folder.write("a.tar", tar_file(tar_member("a.txt", "x")));
  refused(tar, "", tar + ": no .jpg or .jpeg entry");
}

}  // namespace sextant::image_data_test
