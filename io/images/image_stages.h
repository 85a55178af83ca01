// Batches of images on their way to one rank: read, decode, augment, each into registers of its own
// in host memory.
#pragma once

#include "io/data/sample_data.h"
#include "io/data/sample_order.h"
#include "io/images/augment.h"
#include "io/images/image_source.h"
#include "io/images/jpeg.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

// An act on a content may run beside acts on other contents and of other stages, as long as no more
// contents than registers are under way between two neighbours: that is what the actors' credits
// see to. A content is 0, 1, 2, ... for the micro-batches that the rank is given.
class ImageStages final : public SampleStages {
 public:
  // Whoever gives these outlives it.
  ImageStages(const ImageSource& images, const OrderSettings& order, const std::string& name,
              std::int32_t num_registers);

  void act(std::string_view kind, const InputPart& part, std::int64_t content) override;
  void deliver(std::int64_t content, std::span<std::byte> bytes) override;

 private:
  // One sample of a batch; `is_there` or it only fills the batch up. What a register has taken of
  // memory stays with it: half a MiB for each sample of each batch would be as many page faults.
  struct Encoded {
    bool is_there = false;
    std::vector<std::byte> bytes;
    std::string name;
  };
  struct Decoded {
    bool is_there = false;
    Pixels pixels;
  };
  template <typename Value>
  using Ring = std::vector<std::vector<Value>>;  // by register, by row

  void read(const InputPart& part, std::int64_t content);
  void decode(std::int64_t content);
  void augment(const InputPart& part, std::int64_t content);
  std::size_t slot(std::int64_t content) const {
    return static_cast<std::size_t>(content) % augmented_.size();
  }

  const ImageSource& images_;
  const OrderSettings& order_;
  const std::string& name_;
  Ring<Encoded> encoded_;
  Ring<Decoded> decoded_;
  std::vector<std::vector<std::byte>> augmented_;  // by register
};

// The elements of the part of a sample that a rank holds, row-major; without pixels what is 0 once
// it is normalised, of bytes the nearest.
void write_sample(const Pixels* pixels, const InputPart& part, std::int64_t position,
                  std::span<std::byte> bytes);

}  // namespace sextant
