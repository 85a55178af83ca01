// Archives give their files, and what would lead outside or lies is refused by its name.
#include "io/images/tar.h"

#include "core/base/error.h"
#include "tests/io/data/made_files.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace sextant::tar_test {
namespace {

using namespace testing;

std::vector<std::pair<std::string, std::string>> files_of(const std::string& archive) {
  std::vector<std::pair<std::string, std::string>> files;
  for (const TarEntry& entry : tar_entries(as_bytes_of(archive), "a.tar"))
    files.emplace_back(entry.name, archive.substr(static_cast<std::size_t>(entry.begin),
                                                  static_cast<std::size_t>(entry.size)));
  return files;
}

void check_refused(const std::string& archive, const std::string& what) {
  CAPTURE(what);
  CHECK_THROWS_WITH_AS(tar_entries(as_bytes_of(archive), "a.tar"), ("a.tar: " + what).c_str(),
                       Error);
}

}  // namespace

TEST_CASE("files of an archive are found where they lie, folders are passed over") {
  const std::string long_text(1500, 'x');
  const std::string archive = tar_file(tar_member("d/", "", '5') + tar_member("d/a.jpg", "JPEG") +
                                       tar_member("b", long_text) + tar_member("c", ""));
  CHECK(files_of(archive) == std::vector<std::pair<std::string, std::string>>{
                                 {"d/a.jpg", "JPEG"}, {"b", long_text}, {"c", ""}});
  CHECK(files_of(std::string(1024, '\0')).empty());
  // Some writers leave out the blocks of zeros.
  CHECK(files_of(tar_member("a", "1")).size() == 1);
}

TEST_CASE("names and sizes of extended headers replace those of the entry, once") {
  const std::string name(180, 'n');
  const std::string pax =
      tar_member("pax", pax_record("mtime", "1.5") + pax_record("path", name), 'x');
  const std::string gnu = tar_member("././@LongLink", name + std::string(1, '\0'), 'L');
  for (const std::string& extended : {pax, gnu}) {
    const auto files = files_of(tar_file(extended + tar_member("cut", "1") + tar_member("b", "2")));
    CHECK(files == std::vector<std::pair<std::string, std::string>>{{name, "1"}, {"b", "2"}});
  }
  const std::string sized = tar_member("pax", pax_record("size", "3"), 'x') +
                            tar_member("a", "abc", '0', 0) + tar_member("b", "2");
  CHECK(files_of(tar_file(sized)).front().second == "abc");
}

TEST_CASE("what leads outside, links and devices are refused by name") {
  const auto refused = [](const std::string& name, char type, const std::string& what) {
    check_refused(tar_file(tar_member(name, "", type)),
                  "entry '" + name + "': " + what + " (byte 0)");
  };
  refused("../a.jpg", '0', "a name that leads outside");
  refused("a/../../b.jpg", '0', "a name that leads outside");
  refused("a/..", '5', "a name that leads outside");
  refused("/etc/a.jpg", '0', "an absolute name");
  refused("a", '1', "a link, which is not followed");
  refused("a", '2', "a link, which is not followed");
  refused("a", '3', "a device or a pipe, which is not read");
  refused("a", '4', "a device or a pipe, which is not read");
  refused("a", '6', "a device or a pipe, which is not read");
  refused("a", 'S', "of a kind that is not read");
  CHECK(files_of(tar_file(tar_member("..a/b..jpg", "1"))).size() == 1);
  // Also by an extended header.
  const std::string hidden =
      tar_member("pax", pax_record("path", "../up.jpg"), 'x') + tar_member("good.jpg", "1");
  check_refused(tar_file(hidden), "entry '../up.jpg': a name that leads outside (byte 1024)");
}

TEST_CASE("sizes that the archive does not have are refused before anything is taken for them") {
  check_refused(tar_file(tar_member("a", "1", '0', 5'000)),
                "entry 'a': the archive ends before it does (byte 0)");
  check_refused(tar_file(tar_member("a", "1", '0', kMostEntryBytes + 1)),
                "entry 'a': larger than 64 MiB (byte 0)");
  check_refused(tar_file(tar_member("a", "1", 'x', 2'000'000)),
                "entry 'a': an extended header of more than 1 MiB (byte 0)");
  const std::string whole = tar_member("a", std::string(600, 'x'));
  check_refused(whole.substr(0, 600), "entry 'a': the archive ends before it does (byte 0)");
  check_refused(whole + "rest", "the archive ends inside a header (byte 1536)");
}

TEST_CASE("damaged headers are refused") {
  std::string damaged = tar_file(tar_member("a", "1"));
  damaged[3] = 'x';
  check_refused(damaged, "a header without its checksum: no tar file, or damaged (byte 0)");
  check_refused(std::string(512, 'x'),
                "a header without its checksum: no tar file, or damaged (byte 0)");
  for (const char* record : {"5 a=b", "99 path=a\n", "x path=a\n", "0 \n", "4 a\nb"})
    check_refused(tar_file(tar_member("pax", record, 'x')),
                  "an extended header that is no list of records (byte 0)");
  check_refused(tar_file(tar_member("pax", pax_record("size", "-1"), 'x')),
                "a size that is no number (byte 0)");
}

}  // namespace sextant::tar_test
