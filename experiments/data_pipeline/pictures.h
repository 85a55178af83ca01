// Pictures to decode, and how fast one thread makes samples of them.
#pragma once

#include "io/images/image_source.h"

#include <cstdint>
#include <string>

namespace sextant {

struct PictureSize {
  std::int64_t width = 256, height = 256;
};

// `count` JPEGs of that size in `folder`/CLASS/NUMBER.jpg: slopes, edges and noise, so that they
// take about as many bytes and as much time as photographs. Throws Error(kDevice) without
// libjpeg-turbo.
void write_pictures(const std::string& folder, PictureSize size, std::int64_t count,
                    std::int64_t classes);

// Images that one thread reads, decodes and augments to `extent` x `extent` a second, over `count`.
double images_per_second(const ImageSource& images, std::int64_t extent, std::int64_t count);

}  // namespace sextant
