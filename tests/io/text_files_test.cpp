// One row of bytes out of several files, read where it is asked for and nowhere else.
#include "io/text_files.h"

#include "core/base/error.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace sextant::text_files_test {
namespace {

namespace fs = std::filesystem;

constexpr Bytes kLimit{std::int64_t{16} << 20};
constexpr std::int64_t kMiB = std::int64_t{1} << 20;

class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / "sextant_text_files_test") {
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name, std::ios::binary) << text;
  }
  std::string path(const std::string& name = "") const { return (path_ / name).string(); }

 private:
  fs::path path_;
};

// A text in which every place is told from its neighbours.
std::string counted(std::int64_t size, char first) {
  std::string text;
  for (std::int64_t i = 0; i < size; ++i) text += static_cast<char>('0' + (first + i) % 70);
  return text;
}

TextFiles looked_through(const std::string& path, std::size_t parts = 1) {
  TextFiles text(path, kLimit);
  std::vector<TextBlock> blocks;
  for (std::size_t part = parts; part-- > 0;)
    for (const TextBlock& block : text.look(part, parts)) blocks.push_back(block);
  text.keep_text(std::move(blocks));
  return text;
}

std::string read(const TextFiles& text, std::int64_t first, std::int64_t count) {
  std::string bytes(static_cast<std::size_t>(count), '\0');
  text.read(first, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

}  // namespace

TEST_CASE("files are one row, whatever part of it is read, and an empty one takes no place") {
  const Folder folder;
  folder.write("a", "abc");
  folder.write("b", "");
  folder.write("c", "defgh");
  folder.write("d", "i");
  const TextFiles text = looked_through(folder.path());
  const std::string row = "abcdefghi";
  REQUIRE(text.size() == 9);
  for (std::int64_t first = 0; first <= 9; ++first)
    for (std::int64_t count = 0; first + count <= 9; ++count)
      CHECK(read(text, first, count) ==
            row.substr(static_cast<std::size_t>(first), static_cast<std::size_t>(count)));
  CHECK_THROWS_AS(read(text, 5, 5), Error);
}

TEST_CASE(
    "parts look through all of it together, each its share, and agree with one that does all") {
  const Folder folder;
  folder.write("large", counted(3 * kMiB + 17, 0));
  folder.write("small", "some words");
  const TextFiles one = looked_through(folder.path()), three = looked_through(folder.path(), 3);
  CHECK(one.hash() == three.hash());
  CHECK(one.identity() == three.identity());
  // Blocks 0 to 3 of the large file, 4 of the small one.
  std::vector<std::int64_t> read_by;
  for (std::size_t part = 0; part < 3; ++part) {
    const TextFiles text(folder.path(), kLimit);
    static_cast<void>(text.look(part, 3));
    read_by.push_back(text.bytes_read());
  }
  CHECK(read_by == std::vector<std::int64_t>{kMiB + 17, kMiB + 10, kMiB});

  folder.write("large", counted(3 * kMiB + 17, 1));
  const TextFiles other = looked_through(folder.path());
  CHECK(other.hash() != one.hash());
}

TEST_CASE("of a text that was looked through only what is asked for is read") {
  const Folder folder;
  folder.write("text", counted(4 * kMiB, 3));
  const TextFiles text = looked_through(folder.path("text"));
  const std::int64_t before = text.bytes_read();
  CHECK(before == 4 * kMiB);
  CHECK(read(text, 2 * kMiB + 5, 100) == counted(4 * kMiB, 3).substr(2 * kMiB + 5, 100));
  CHECK(text.bytes_read() == before + 100);
}

TEST_CASE("a file with a zero byte is left out, wherever it is") {
  const Folder folder;
  std::string late = counted(2 * kMiB, 0);
  late[static_cast<std::size_t>(kMiB) + 3] = '\0';
  folder.write("a", late);
  folder.write("b", "words");
  CHECK(read(looked_through(folder.path()), 0, 5) == "words");
  CHECK_THROWS_WITH_AS(looked_through(folder.path("a")),
                       (folder.path("a") + ": holds no text").c_str(), Error);
}

TEST_CASE("a text that changes while it is read, or is too long, is refused by name") {
  const Folder folder;
  folder.write("text", "0123456789");
  const TextFiles text = looked_through(folder.path("text"));
  fs::resize_file(folder.path("text"), 4);
  CHECK_THROWS_WITH_AS(read(text, 6, 2),
                       (folder.path("text") + ": was changed while it was read").c_str(), Error);
  fs::remove(folder.path("text"));
  CHECK_THROWS_AS(read(text, 0, 2), Error);
  folder.write("long", counted(kMiB + 1, 0));
  CHECK_THROWS_WITH_AS(TextFiles(folder.path("long"), Bytes{kMiB}),
                       (folder.path("long") + ": more than 1.00 MiB of data").c_str(), Error);
  CHECK_THROWS_AS(TextFiles(folder.path("none"), kLimit), Error);
}

}  // namespace sextant::text_files_test
