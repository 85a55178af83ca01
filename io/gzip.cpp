// One stream of zlib with the gzip header, whose time stamp stays zero.

#include "io/gzip.h"

#include "core/base/check.h"

#if SEXTANT_HAVE_ZLIB
#include <algorithm>
#include <limits>
#include <zlib.h>
#endif

namespace sextant {

#if SEXTANT_HAVE_ZLIB

namespace {

// zlib counts in 32 bits.
constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;
constexpr int kGzipHeader = 16;

class Deflation {
 public:
  Deflation() {
    const int status = deflateInit2(&stream_, Z_BEST_SPEED, Z_DEFLATED, MAX_WBITS + kGzipHeader, 8,
                                    Z_DEFAULT_STRATEGY);
    require(status == Z_OK, ErrorCode::kInternal, "zlib cannot start: {}", status);
  }
  ~Deflation() { deflateEnd(&stream_); }
  Deflation(const Deflation&) = delete;
  Deflation& operator=(const Deflation&) = delete;

  void append(std::string_view part, bool last, std::string& out) {
    // zlib does not write to its input.
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(part.data()));
    stream_.avail_in = static_cast<uInt>(part.size());
    do {
      stream_.next_out = reinterpret_cast<Bytef*>(buffer_.data());
      stream_.avail_out = static_cast<uInt>(buffer_.size());
      const int status = deflate(&stream_, last ? Z_FINISH : Z_NO_FLUSH);
      require(status != Z_STREAM_ERROR, ErrorCode::kInternal, "zlib fails: {}", status);
      out.append(buffer_.data(), buffer_.size() - stream_.avail_out);
    } while (stream_.avail_out == 0);
  }

 private:
  z_stream stream_{};
  std::string buffer_ = std::string(std::size_t{1} << 18, '\0');
};

}  // namespace

bool can_gzip() { return true; }

std::string gzip(std::string_view text) {
  Deflation deflation;
  std::string out;
  do {
    const std::string_view part = text.substr(0, kMostAtOnce);
    text.remove_prefix(part.size());
    deflation.append(part, text.empty(), out);
  } while (!text.empty());
  return out;
}

#else

bool can_gzip() { return false; }

std::string gzip(std::string_view) {
  fail(ErrorCode::kUsage, "this sextant was built without zlib and cannot write .gz files");
}

#endif

}  // namespace sextant
