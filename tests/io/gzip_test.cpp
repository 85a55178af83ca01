// What was compressed comes back, read by zlib's own reader.

#include "io/gzip.h"

#include "core/base/error.h"

#include <doctest/doctest.h>

#if SEXTANT_HAVE_ZLIB
#include <zlib.h>
#endif

#include <cstdint>
#include <string>

namespace sextant::gzip_test {

#if SEXTANT_HAVE_ZLIB

namespace {

std::string unzipped(const std::string& bytes, std::size_t room) {
  std::string text(room + 1, '\0');
  z_stream stream{};
  REQUIRE(inflateInit2(&stream, MAX_WBITS + 16) == Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(text.data());
  stream.avail_out = static_cast<uInt>(text.size());
  CHECK(inflate(&stream, Z_FINISH) == Z_STREAM_END);
  text.resize(stream.total_out);
  inflateEnd(&stream);
  return text;
}

}  // namespace

TEST_CASE("gzip keeps every byte, of nothing, of little and of more than its buffer") {
  std::string mixed;
  for (std::uint32_t i = 0; i < 3'000'000; ++i) mixed += static_cast<char>((i * 2654435761u) >> 24);
  for (const std::string& text :
       {std::string(), std::string("{\"a\":1}"), std::string(1 << 20, 'x'), mixed})
    CHECK(unzipped(gzip(text), text.size()) == text);
}

TEST_CASE("gzip gives the same bytes for the same text, and fewer for a repetitive one") {
  const std::string text(100'000, 'a');
  CHECK(gzip(text) == gzip(text));
  CHECK(gzip(text).size() < 2'000);
}

#else

TEST_CASE("gzip without zlib is refused" * doctest::skip(can_gzip())) {
  CHECK_THROWS_AS(gzip("text"), Error);
}

#endif

}  // namespace sextant::gzip_test
