// Messages in parts, whatever order they come in.
#include "backends/hosts/wire_message.h"

#include "core/base/error.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

namespace sextant::wire_message_test {
namespace {

HostBytes pattern(std::size_t size) {
  HostBytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(size + i);
  return bytes;
}

}  // namespace

TEST_CASE("messages come out whole and in order, also of parts that come in any order and again") {
  std::mt19937 random(5);
  for (int trial = 0; trial < 50; ++trial) {
    std::vector<HostBytes> parts;
    constexpr std::size_t kMessages = 12;
    for (std::size_t m = 0; m < kMessages; ++m)
      for (HostBytes& part :
           wire_parts({.key = m % 3, .subject = HostSubject::kTest}, pattern(m * 5), 16)) {
        set_number(part, parts.size());
        parts.push_back(std::move(part));
      }
    // 0, 5, 10, 15 bytes are a part each; 20, 25 and 30 two; 35, 40, 45 three; 50 and 55 four.
    REQUIRE(parts.size() == 4 + 3 * 2 + 3 * 3 + 2 * 4);
    parts.push_back(parts[3]);
    parts.push_back(parts[9]);
    std::shuffle(parts.begin(), parts.end(), random);
    WireReader reader;
    std::size_t next = 0;
    for (HostBytes& part : parts) {
      reader.put(std::move(part));
      while (const std::optional<WireMessage> message = reader.take()) {
        CHECK(message->trailer.tag() == HostTag{HostSubject::kTest, next % 3});
        CHECK(message->bytes == pattern(5 * next));
        ++next;
      }
    }
    CHECK(next == kMessages);
  }
}

TEST_CASE("bytes without a trailer are refused") {
  WireReader reader;
  CHECK_THROWS_WITH_AS(reader.put(HostBytes(23)), "a message of 23 bytes has no trailer", Error);
}

}  // namespace sextant::wire_message_test
