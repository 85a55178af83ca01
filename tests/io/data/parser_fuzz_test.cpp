// Files of data with something changed at random: each is read, or refused by name. Never a crash,
// never an id or a class that no reader may give.
#include "core/base/error.h"
#include "io/data/text_tokens.h"
#include "io/data/token_files.h"
#include "io/images/jpeg.h"
#include "io/images/tar.h"
#include "tests/io/data/made_files.h"
#include "tests/support/long_run.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace sextant::parser_fuzz_test {
namespace {

using namespace testing;

// One to three changes: a byte, eight bytes for a number of a header, a piece taken out or doubled.
std::string changed(std::string bytes, std::mt19937& engine) {
  static const std::uint64_t kNumbers[] = {0,
                                           1,
                                           2,
                                           0x7FFFFFFF,
                                           0x80000000,
                                           ~std::uint64_t{0},
                                           std::uint64_t{1} << 62,
                                           std::uint64_t{1} << 63};
  for (std::size_t changes = 1 + engine() % 3; changes > 0 && !bytes.empty(); --changes) {
    const std::size_t at = engine() % bytes.size(), length = 1 + engine() % 20;
    switch (engine() % 4) {
      case 0:
        bytes[at] = static_cast<char>(engine());
        break;
      case 1:
        bytes.erase(at, length);
        break;
      case 2:
        bytes.insert(at, bytes.substr(at, length));
        break;
      default: {
        const std::uint64_t number = kNumbers[engine() % std::size(kNumbers)];
        const std::string text(reinterpret_cast<const char*>(&number), sizeof(number));
        bytes.replace(at, std::min(sizeof(number), bytes.size() - at), text, 0,
                      std::min(sizeof(number), bytes.size() - at));
      }
    }
  }
  return bytes;
}

// `parse` throws nothing but Error(kBadInput) that begins with "x". Both happen, or nothing was
// tried.
void fuzz(const std::vector<std::string>& files,
          const std::function<void(const std::string&)>& parse, int tries) {
  std::mt19937 engine(7);
  int accepted = 0, refused = 0;
  for (int i = 0; i < tries * (is_long_run() ? 100 : 1); ++i) {
    const std::string bytes = changed(files[static_cast<std::size_t>(i) % files.size()], engine);
    try {
      parse(bytes);
      ++accepted;
    } catch (const Error& error) {
      CAPTURE(std::string(error.what()));
      CHECK(error.code() == ErrorCode::kBadInput);
      CHECK(std::string(error.what()).starts_with("x"));
      ++refused;
    }
  }
  CHECK(accepted > tries / 100);
  CHECK(refused > tries / 20);
}

void check_ids(const TokenSource& source) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(source.size()));
  source.read(0, ids);
  for (const std::int32_t id : ids) REQUIRE(id >= 0);
}

}  // namespace

TEST_CASE("an index of Megatron with something changed is read or refused") {
  fuzz(
      {megatron_index_file(8, 2, {2, 0, 3, 500}), megatron_index_file(4, 4, {1})},
      [](const std::string& bytes) {
        const MegatronIndex index = megatron_index(as_bytes_of(bytes), "x");
        REQUIRE(index.sequences * 12 <= static_cast<std::int64_t>(bytes.size()));
        REQUIRE(index.tokens >= 0);
      },
      5'000);
}

TEST_CASE("a token file of llm.c with something changed is read or refused") {
  const DataFolder folder("x_llm_c_fuzz");
  fuzz(
      {llm_c_file(20240520, 1, std::vector<std::uint16_t>(40, 7)),
       llm_c_file(20240801, 7, std::vector<std::uint32_t>(40, 7))},
      [&](const std::string& bytes) {
        try {
          check_ids(*llm_c_tokens(MappedFile(folder.write("a.bin", bytes))));
        } catch (const Error& error) {
          throw Error(error.code(), "x" + std::string(error.what()));
        }
      },
      1'000);
}

TEST_CASE("lines of JSON with something changed are read or refused") {
  fuzz(
      {"{\"text\": \"some text\"}\n{\"prompt\": \"a\", \"completion\": \"b\", \"n\": [1, {\"c\": "
       "2}]}\n"},
      [](const std::string& bytes) { check_ids(*jsonl_tokens(bytes, "x")); }, 3'000);
}

TEST_CASE("a tar file with something changed is read or refused, and no entry leaves the file") {
  const std::string members = tar_member("a/b.jpg", std::string(700, 'x')) +
                              tar_member("pax", pax_record("path", "long/name.jpg"), 'x') +
                              tar_member("c.jpg", "y") + tar_member("a/b.cls", "3");
  fuzz(
      {tar_file(members)},
      [](const std::string& bytes) {
        for (const TarEntry& entry : tar_entries(as_bytes_of(bytes), "x")) {
          REQUIRE(entry.begin >= 512);
          REQUIRE(entry.size >= 0);
          REQUIRE(entry.begin + entry.size <= static_cast<std::int64_t>(bytes.size()));
          REQUIRE(("/" + entry.name + "/").find("/../") == std::string::npos);
        }
      },
      5'000);
}

TEST_CASE("a JPEG with something changed is decoded or refused") {
  if (!has_jpeg()) return;
  Pixels pixels{32, 24, {}};
  for (int i = 0; i < 32 * 24 * 3; ++i) pixels.values.push_back(static_cast<std::uint8_t>(i * 7));
  const std::vector<std::byte> jpeg = encoded_jpeg(pixels, 80);
  fuzz(
      {{reinterpret_cast<const char*>(jpeg.data()), jpeg.size()}},
      [](const std::string& bytes) {
        const Pixels decoded = decoded_jpeg(as_bytes_of(bytes), "x");
        REQUIRE(decoded.values.size() ==
                static_cast<std::size_t>(3 * decoded.width * decoded.height));
      },
      1'000);
}

}  // namespace sextant::parser_fuzz_test
