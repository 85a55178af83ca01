// Encoded images with their classes, by number.
#pragma once

#include "io/data/mapped_file.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace sextant {

// Bytes of a JPEG, and what keeps them where they are.
struct EncodedImage {
  std::span<const std::byte> bytes;
  std::shared_ptr<const MappedFile> file;
};

class ImageSource {
 public:
  virtual ~ImageSource() = default;
  virtual std::int64_t size() const = 0;     // images
  virtual std::int64_t classes() const = 0;  // the largest class plus one
  virtual std::int64_t label(std::int64_t image) const = 0;
  virtual std::string name(std::int64_t image) const = 0;  // the path, for people
  // Throws Error(kBadInput) naming the image where it cannot be read.
  virtual EncodedImage encoded(std::int64_t image) const = 0;
  virtual std::string fingerprint() const = 0;  // of names, sizes and classes
};

// README: image folder. Throws Error(kBadInput) naming the path where there is none.
std::unique_ptr<ImageSource> image_folder(const std::string& path);

// README: tar shard; a file or a folder of them. Throws Error(kBadInput) naming shard and entry.
std::unique_ptr<ImageSource> image_shards(const std::string& path);

}  // namespace sextant
