// The TurboJPEG interface of libjpeg-turbo, of which versions 2 and 3 both have these calls. A
// handle is made for every image: a few microseconds beside a millisecond.
#include "io/images/jpeg.h"

#include "core/base/check.h"

#if SEXTANT_HAVE_JPEG
#include <turbojpeg.h>
#endif

#include <memory>

namespace sextant {

#if SEXTANT_HAVE_JPEG

namespace {

struct DestroyHandle {
  void operator()(void* handle) const { tjDestroy(handle); }
};
using Handle = std::unique_ptr<void, DestroyHandle>;

struct FreeBuffer {
  void operator()(unsigned char* buffer) const { tjFree(buffer); }
};

const unsigned char* as_chars(std::span<const std::byte> bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

void require_done(int result, const Handle& handle, const std::string& name) {
  require(result == 0, ErrorCode::kBadInput, "{}: {}", name, tjGetErrorStr2(handle.get()));
}

}  // namespace

bool has_jpeg() { return true; }

void decode_jpeg(std::span<const std::byte> bytes, const std::string& name, Pixels& pixels) {
  const Handle handle(tjInitDecompress());
  require(handle != nullptr, ErrorCode::kDevice, "libjpeg-turbo: {}", tjGetErrorStr2(nullptr));
  int width = 0, height = 0, subsampling = 0, colours = 0;
  require_done(tjDecompressHeader3(handle.get(), as_chars(bytes), bytes.size(), &width, &height,
                                   &subsampling, &colours),
               handle, name);
  require(colours != TJCS_CMYK && colours != TJCS_YCCK, ErrorCode::kBadInput,
          "{}: its colours are those of printing (CMYK); red, green and blue are read", name);
  require(width > 0 && height > 0 && std::int64_t{width} * height <= kMostPixels,
          ErrorCode::kBadInput, "{}: {} x {} pixels, read are at most {}", name, width, height,
          kMostPixels);
  pixels.width = width;
  pixels.height = height;
  pixels.values.resize(static_cast<std::size_t>(std::int64_t{3} * width * height));
  require_done(tjDecompress2(handle.get(), as_chars(bytes), bytes.size(), pixels.values.data(),
                             width, 0, height, TJPF_RGB, 0),
               handle, name);
}

std::vector<std::byte> encoded_jpeg(const Pixels& pixels, int quality) {
  const Handle handle(tjInitCompress());
  require(handle != nullptr, ErrorCode::kDevice, "libjpeg-turbo: {}", tjGetErrorStr2(nullptr));
  unsigned char* buffer = nullptr;
  unsigned long size = 0;
  const int result = tjCompress2(handle.get(), pixels.values.data(), static_cast<int>(pixels.width),
                                 0, static_cast<int>(pixels.height), TJPF_RGB, &buffer, &size,
                                 TJSAMP_420, quality, 0);
  const std::unique_ptr<unsigned char, FreeBuffer> owned(buffer);
  require_done(result, handle, "an image to write");
  const auto* const begin = reinterpret_cast<const std::byte*>(buffer);
  return {begin, begin + size};
}

#else

namespace {

[[noreturn]] void refuse() {
  throw Error(ErrorCode::kDevice, "this build reads no JPEGs: libjpeg-turbo was not found",
              {"install libturbojpeg0-dev (setup.sh does) and build again"});
}

}  // namespace

bool has_jpeg() { return false; }
void decode_jpeg(std::span<const std::byte> /*bytes*/, const std::string& /*name*/,
                 Pixels& /*pixels*/) {
  refuse();
}
std::vector<std::byte> encoded_jpeg(const Pixels& /*pixels*/, int /*quality*/) { refuse(); }

#endif

Pixels decoded_jpeg(std::span<const std::byte> bytes, const std::string& name) {
  Pixels pixels;
  decode_jpeg(bytes, name, pixels);
  return pixels;
}

}  // namespace sextant
