// Rows of a batch are independent: each stage makes them by several threads.
#include "io/images/image_stages.h"

#include "core/base/check.h"
#include "core/base/parallel.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>

namespace sextant {
namespace {

std::size_t rows_of(const InputPart& part) {
  return static_cast<std::size_t>(part.box.dims[0].extent);
}

std::int64_t position_of(const InputPart& part, std::size_t row) {
  return part.first_position + part.box.dims[0].offset + static_cast<std::int64_t>(row);
}

// `Element` is float or a byte.
template <typename Element>
void write_elements(const AugmentedImage& image, const Shard& box, std::byte* to) {
  const Interval &channels = box.dims[1], &rows = box.dims[2], &columns = box.dims[3];
  auto* values = reinterpret_cast<Element*>(to);
  for (std::int64_t channel = channels.offset; channel < channels.end(); ++channel)
    for (std::int64_t row = rows.offset; row < rows.end(); ++row, values += columns.extent)
      image.row(channel, row, columns.offset, columns.end(), values);
}

void write_doubles(const AugmentedImage& image, const Shard& box, std::byte* to) {
  const auto count = static_cast<std::size_t>(box.elements() / box.dims[0].extent);
  std::vector<float> values(count);
  write_elements<float>(image, box, reinterpret_cast<std::byte*>(values.data()));
  std::copy(values.begin(), values.end(), reinterpret_cast<double*>(to));
}

void write_nothing(DType dtype, const Shard& box, std::span<std::byte> bytes) {
  if (dtype != DType::kU8) return std::fill(bytes.begin(), bytes.end(), std::byte{0});
  const Interval& channels = box.dims[1];
  if (bytes.empty()) return;
  const std::size_t of_channel = bytes.size() / static_cast<std::size_t>(channels.extent);
  for (std::int64_t k = 0; k < channels.extent; ++k) {
    const auto plane = bytes.subspan(static_cast<std::size_t>(k) * of_channel, of_channel);
    std::fill(plane.begin(), plane.end(), std::byte{grey_byte(channels.offset + k)});
  }
}

}  // namespace

void write_sample(const Pixels* pixels, const InputPart& part, std::int64_t position,
                  std::span<std::byte> bytes) {
  if (pixels == nullptr) {
    write_nothing(part.type.dtype, part.box, bytes);
    return;
  }
  const Shape& shape = part.type.shape;
  const AugmentedImage image(*pixels,
                             window_of_sample(pixels->width, pixels->height, part.seed, position),
                             shape[3], shape[2]);
  if (part.type.dtype == DType::kU8)
    write_elements<std::uint8_t>(image, part.box, bytes.data());
  else if (part.type.dtype == DType::kF64)
    write_doubles(image, part.box, bytes.data());
  else
    write_elements<float>(image, part.box, bytes.data());
}

ImageStages::ImageStages(const ImageSource& images, const OrderSettings& order,
                         const std::string& name, std::int32_t num_registers)
    : images_(images),
      order_(order),
      name_(name),
      encoded_(static_cast<std::size_t>(num_registers)),
      decoded_(static_cast<std::size_t>(num_registers)),
      augmented_(static_cast<std::size_t>(num_registers)) {}

void ImageStages::act(std::string_view kind, const InputPart& part, std::int64_t content) {
  if (kind == kReadSamples) return read(part, content);
  if (kind == kDecodeSamples) return decode(content);
  require(kind == kAugmentSamples, ErrorCode::kInternal, "unknown stage '{}'", kind);
  augment(part, content);
}

void ImageStages::read(const InputPart& part, std::int64_t content) {
  auto& rows = encoded_[slot(content)];
  rows.resize(rows_of(part));
  const SampleOrder order(order_, part.seed, images_.size(), part.global_batch, name_);
  for_each_in_parallel(rows.size(), [&](std::size_t row) {
    const std::optional<std::int64_t> record = order.record_at(position_of(part, row));
    rows[row].is_there = record.has_value();
    if (!record) return;
    const EncodedImage image = images_.encoded(*record);
    rows[row].bytes.assign(image.bytes.begin(), image.bytes.end());
    rows[row].name = images_.name(*record);
  });
}

void ImageStages::decode(std::int64_t content) {
  const auto& from = encoded_[slot(content)];
  auto& rows = decoded_[slot(content)];
  rows.resize(from.size());
  for_each_in_parallel(rows.size(), [&](std::size_t row) {
    rows[row].is_there = from[row].is_there;
    if (from[row].is_there) decode_jpeg(from[row].bytes, from[row].name, rows[row].pixels);
  });
}

void ImageStages::augment(const InputPart& part, std::int64_t content) {
  const auto& from = decoded_[slot(content)];
  const std::size_t size = static_cast<std::size_t>(part.box.elements()) *
                           static_cast<std::size_t>(size_of(part.type.dtype).value);
  std::vector<std::byte>& bytes = augmented_[slot(content)];
  bytes.resize(size);
  if (size == 0) return;
  const std::size_t of_row = size / from.size();
  for_each_in_parallel(from.size(), [&](std::size_t row) {
    write_sample(from[row].is_there ? &from[row].pixels : nullptr, part, position_of(part, row),
                 std::span(bytes).subspan(row * of_row, of_row));
  });
}

void ImageStages::deliver(std::int64_t content, std::span<std::byte> bytes) {
  const std::vector<std::byte>& from = augmented_[slot(content)];
  require(from.size() == bytes.size(), ErrorCode::kInternal,
          "a register of {} bytes for {} bytes of samples", bytes.size(), from.size());
  constexpr std::size_t kPiece = std::size_t{1} << 22;
  for_each_in_parallel((from.size() + kPiece - 1) / kPiece, [&](std::size_t piece) {
    const std::size_t begin = piece * kPiece, size = std::min(kPiece, from.size() - begin);
    std::memcpy(bytes.data() + begin, from.data() + begin, size);
  });
}

}  // namespace sextant
