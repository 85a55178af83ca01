// Every row of a batch is a sample of its own: read, decode, augment, write the part of it that the
// rank holds.
#include "io/images/image_data.h"

#include "core/base/check.h"
#include "core/base/parallel.h"
#include "io/images/image_stages.h"
#include "io/images/jpeg.h"

#include <cstring>
#include <iterator>
#include <utility>

namespace sextant {
namespace {

constexpr std::string_view kImagesInput = "images", kClassesInput = "labels";

}  // namespace

bool takes_image_data(std::string_view input, const TensorType& type) {
  if (input == kClassesInput) return type.shape.rank() == 1 && type.dtype == DType::kI32;
  return input == kImagesInput && type.shape.rank() == 4 &&
         (type.dtype == DType::kF32 || type.dtype == DType::kF64 || type.dtype == DType::kU8);
}

ImageData::ImageData(std::shared_ptr<const ImageSource> images, std::string name,
                     const OrderSettings& order)
    : images_(std::move(images)), name_(std::move(name)), order_(order) {
  require(order.kind != OrderKind::kPlaces, ErrorCode::kUsage,
          "order of samples 'places' is of tokens; images have 'shuffled' and 'file'");
}

bool ImageData::fills(std::string_view input, const TensorType& type) const {
  return takes_image_data(input, type);
}

void ImageData::check(const TensorType& main_input, std::int64_t global_batch) const {
  require(main_input.shape[1] == 3, ErrorCode::kBadInput,
          "{}: images have 3 channels, those of the model {}", name_, main_input.shape[1]);
  const SampleOrder order(order_, 0, images_->size(), global_batch, name_);
}

std::string ImageData::fingerprint() const {
  return images_->fingerprint() + " " + to_string(order_);
}

std::optional<std::int64_t> ImageData::record_at(const InputPart& part,
                                                 std::int64_t position) const {
  const SampleOrder order(order_, part.seed, images_->size(), part.global_batch, name_);
  return order.record_at(position);
}

void ImageData::fill_labels(const InputPart& part, std::span<std::byte> bytes) const {
  const Attributes& attributes = part.input.attributes;
  const Interval& rows = part.box.dims[0];
  for (std::int64_t row = 0; row < rows.extent; ++row) {
    const auto record = record_at(part, part.first_position + rows.offset + row);
    require(
        record || attributes.contains("ignore_index"), ErrorCode::kBadInput,
        "{}: a short batch is filled up, but the model's input '{}' has no label that is ignored",
        name_, part.input.name);
    const std::int64_t label =
        record ? images_->label(*record) : attributes.integer("ignore_index");
    const std::int64_t classes = attributes.integer_or("limit", label + 1);
    if (record && label >= classes)
      fail(ErrorCode::kBadInput, "{}: class {}, but the model's classes are 0 to {}",
           images_->name(*record), label, classes - 1);
    const auto element = static_cast<std::int32_t>(label);
    std::memcpy(bytes.data() + static_cast<std::size_t>(row) * sizeof(element), &element,
                sizeof(element));
  }
}

std::unique_ptr<SampleStages> ImageData::stages(std::int32_t num_registers) const {
  return std::make_unique<ImageStages>(*images_, order_, name_, num_registers);
}

// All stages at once, of one row after the other.
void ImageData::fill_images(const InputPart& part, std::span<std::byte> bytes) const {
  const Interval& rows = part.box.dims[0];
  const std::size_t of_row = bytes.size() / static_cast<std::size_t>(rows.extent);
  for_each_in_parallel(static_cast<std::size_t>(rows.extent), [&](std::size_t row) {
    const std::int64_t position =
        part.first_position + rows.offset + static_cast<std::int64_t>(row);
    const auto record = record_at(part, position);
    const std::optional<Pixels> pixels =
        record
            ? std::optional(decoded_jpeg(images_->encoded(*record).bytes, images_->name(*record)))
            : std::nullopt;
    write_sample(pixels ? &*pixels : nullptr, part, position, bytes.subspan(row * of_row, of_row));
  });
}

void ImageData::fill(const InputPart& part, std::span<std::byte> bytes) const {
  const Bytes element = size_of(part.type.dtype);
  require(std::ssize(bytes) == part.box.elements() * element.value, ErrorCode::kInternal,
          "input '{}': a register of {} bytes for {} elements", part.input.name, bytes.size(),
          part.box.elements());
  if (bytes.empty()) return;
  if (part.input.name == kClassesInput) return fill_labels(part, bytes);
  fill_images(part, bytes);
}

}  // namespace sextant
