// Samples of images: `images`, [batch, 3, height, width], and `labels`, [batch].
#pragma once

#include "io/data/sample_data.h"
#include "io/data/sample_order.h"
#include "io/images/image_source.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

// Whether an input is one that images or their classes fill: f32 or f64 images,
// normalised, or u8 ones, which the model normalises; i32 labels.
bool takes_image_data(std::string_view input, const TensorType& type);

class ImageData final : public SampleData {
 public:
  ImageData(std::shared_ptr<const ImageSource> images, std::string name,
            const OrderSettings& order = {});

  const ImageSource& images() const { return *images_; }
  const std::string& name() const override { return name_; }
  std::string_view main_input() const override { return "images"; }
  bool fills(std::string_view input, const TensorType& type) const override;
  void check(const TensorType& main_input, std::int64_t global_batch) const override;
  // Samples are made by several threads.
  void fill(const InputPart& part, std::span<std::byte> bytes) const override;
  std::vector<std::string> stage_kinds() const override {
    return {kReadSamples, kDecodeSamples, kAugmentSamples};
  }
  std::unique_ptr<SampleStages> stages(std::int32_t num_registers) const override;
  bool depends_on_batch() const override { return order_.last_batch != LastBatch::kWrap; }
  std::string fingerprint() const override;

 private:
  std::optional<std::int64_t> record_at(const InputPart& part, std::int64_t position) const;
  void fill_labels(const InputPart& part, std::span<std::byte> bytes) const;
  void fill_images(const InputPart& part, std::span<std::byte> bytes) const;

  std::shared_ptr<const ImageSource> images_;
  std::string name_;
  OrderSettings order_;
};

}  // namespace sextant
