// Files of ids give the ids that were written, and files that lie are refused by what they say.
#include "io/data/token_files.h"

#include "core/base/error.h"
#include "io/open_data.h"
#include "tests/io/data/made_files.h"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

namespace sextant::token_files_test {
namespace {

using namespace testing;
using Ids = std::vector<std::int32_t>;

Ids all_of(const TokenSource& source) {
  Ids ids(static_cast<std::size_t>(source.size()));
  source.read(0, ids);
  return ids;
}

Ids opened(const std::string& path, const std::string& format = "") {
  return all_of(open_tokens({path, format, ""})->tokens());
}

void check_refused(const std::string& path, const std::string& format, const std::string& what) {
  CAPTURE(what);
  try {
    opened(path, format);
    FAIL("not refused");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kBadInput);
    CHECK(std::string(error.what()) == what);
  }
}

const Ids kIds = {5, 0, 65'535, 7, 300};
const std::vector<std::uint16_t> kShort = {5, 0, 65'535, 7, 300};

}  // namespace

TEST_CASE("bare ids of both widths are read as they were written") {
  const DataFolder folder("sextant_bare");
  CHECK(opened(folder.write("a.bin", numbers_as_bytes(kShort))) == kIds);
  const std::vector<std::uint32_t> wide = {5, 0, 65'535, 7, 300, 2'147'483'647};
  const Ids all = opened(folder.write("b.bin", numbers_as_bytes(wide)), "uint32");
  CHECK(all == Ids{5, 0, 65'535, 7, 300, 2'147'483'647});
}

TEST_CASE("an id beyond 2^31 - 1 is refused, not taken for a negative or ignored one") {
  // 4294967196 is -100, the ignored label, in 32 bits.
  const DataFolder folder("sextant_beyond");
  const std::string path =
      folder.write("a.bin", numbers_as_bytes(std::vector<std::uint32_t>{1, 4'294'967'196}));
  check_refused(path, "uint32", path + ": token 1 is 4294967196: an id is 0 to 2147483647");
  const std::string signed_ids =
      folder.write("m.bin", numbers_as_bytes(std::vector<std::int32_t>{3, -1}));
  folder.write("m.idx", megatron_index_file(4, 4, {2}));
  check_refused(signed_ids, "", signed_ids + ": token 1 is -1: an id is 0 to 2147483647");
}

TEST_CASE("a file that is no whole number of ids is refused with its size") {
  const DataFolder folder("sextant_odd");
  const std::string odd = folder.write("odd.bin", "abc"), empty = folder.write("none.bin", "");
  check_refused(odd, "", odd + ": 3 bytes are no whole number of uint16 ids, or none");
  check_refused(odd, "uint32", odd + ": 3 bytes are no whole number of uint32 ids, or none");
  check_refused(empty, "uint16", empty + ": 0 bytes are no whole number of uint16 ids, or none");
}

TEST_CASE("files of llm.c are known by their magic, in both versions") {
  const DataFolder folder("sextant_llmc");
  CHECK(opened(folder.write("a.bin", llm_c_file(20240520, 1, kShort))) == kIds);
  CHECK(opened(folder.write("b.bin",
                            llm_c_file(20240801, 7, std::vector<std::uint32_t>{9, 128'000}))) ==
        Ids{9, 128'000});
}

TEST_CASE("a header of llm.c that lies is refused with what it says and what the file has") {
  const DataFolder folder("sextant_llmc_bad");
  const std::string whole = llm_c_file(20240520, 1, kShort);
  const auto refused = [&](const std::string& bytes, const std::string& what) {
    const std::string path = folder.write("a.bin", bytes);
    check_refused(path, "llm.c", path + ": " + what);
  };
  refused(whole.substr(0, whole.size() - 2),
          "the header says 5 uint16 ids, the file has 8 bytes behind it");
  refused(whole + "xy", "the header says 5 uint16 ids, the file has 12 bytes behind it");
  refused(whole.substr(0, 100), "100 bytes, the header of llm.c has 1024");
  refused(llm_c_file(20240520, 2, kShort), "version 2 of llm.c's file 20240520, 1 is read");
  refused(llm_c_file(20240801, 1, kShort), "version 1 of llm.c's file 20240801, 7 is read");
  refused(numbers_as_bytes(kShort),
          "does not begin with 20240520 or 20240801, as llm.c's files of tokens do");
  std::string negative = whole;
  negative[11] = '\x80';  // the sign of the count
  refused(negative, "the header says -2147483643 uint16 ids, the file has 10 bytes behind it");
}

TEST_CASE("Megatron's files are read through their index, by either name") {
  const DataFolder folder("sextant_megatron");
  const std::string ids = folder.write("a.bin", numbers_as_bytes(kShort));
  const std::string index = folder.write("a.idx", megatron_index_file(8, 2, {2, 0, 3}));
  CHECK(opened(ids) == kIds);
  CHECK(opened(index) == kIds);
  const MegatronIndex found = megatron_index(MappedFile(index).bytes(), "a.idx");
  CHECK(found.type == IdType::kU16);
  CHECK(found.tokens == 5);
  CHECK(found.sequences == 3);
  CHECK(found.documents == 4);
  // With a mode of each sequence behind all else.
  folder.write("a.idx", megatron_index_file(8, 2, {2, 0, 3}) + std::string(3, '\0'));
  CHECK(opened(ids) == kIds);
  folder.write("b.bin", numbers_as_bytes(std::vector<std::int32_t>{1, 70'000}));
  CHECK(opened(folder.write("b.idx", megatron_index_file(4, 4, {2}))) == Ids{1, 70'000});
}

TEST_CASE("an index of Megatron that lies is refused before memory of its counts is taken") {
  const std::string whole = megatron_index_file(8, 2, {2, 3});
  const auto refused = [&](const std::string& bytes, const std::string& what) {
    CAPTURE(what);
    CHECK_THROWS_WITH_AS(megatron_index(as_bytes_of(bytes), "i"), ("i: " + what).c_str(), Error);
  };
  const auto changed = [&](std::size_t at, auto number) {
    std::string bytes = whole;
    bytes.replace(at, sizeof(number), reinterpret_cast<const char*>(&number), sizeof(number));
    return bytes;
  };
  refused(whole.substr(0, 33), "33 bytes, an index of Megatron has at least 34");
  refused(changed(0, 'X'), "does not begin as an index of Megatron does (MMIDIDX)");
  refused(changed(9, std::uint64_t{2}), "version 2 of Megatron's index, 1 is read");
  refused(changed(17, std::uint8_t{7}),
          "type 7 of ids; read are 1 (uint8), 2 (int8), 3 (int16), 4 (int32), 5 (int64), 8 "
          "(uint16)");
  // 2 sequences and 3 ends take 34 + 2 * 12 + 3 * 8 = 82 bytes.
  refused(changed(18, ~std::uint64_t{0}),
          "18446744073709551615 sequences and 3 document ends do not make an index of 82 bytes");
  refused(changed(26, ~std::uint64_t{0}),
          "2 sequences and 18446744073709551615 document ends do not make an index of 82 bytes");
  refused(whole.substr(0, 81), "2 sequences and 3 document ends do not make an index of 81 bytes");
  refused(changed(34, std::int32_t{-2}), "sequence 0 has length -2");
  refused(changed(50, std::int64_t{2}),
          "sequence 1 is at byte 2, but those before it end at byte 4");
  refused(changed(66, std::int64_t{3}), "document end 1 is sequence 3, wanted 0 to 2");
}

TEST_CASE("ids that are not as many as Megatron's index says are refused") {
  const DataFolder folder("sextant_megatron_bad");
  const std::string ids = folder.write("a.bin", numbers_as_bytes(kShort));
  const std::string index = folder.write("a.idx", megatron_index_file(8, 2, {2, 4}));
  check_refused(ids, "", ids + ": " + index + " says 6 uint16 ids, the file has 10 bytes");
  const std::string alone = folder.write("b.idx", megatron_index_file(8, 2, {2}));
  CHECK_THROWS_AS(opened(alone), Error);
}

TEST_CASE("a folder of token files is one source, joined by name over their seams") {
  const DataFolder folder("sextant_joined");
  folder.write("train_2.bin", llm_c_file(20240520, 1, std::vector<std::uint16_t>{7, 8}));
  folder.write("train_1.bin", llm_c_file(20240520, 1, std::vector<std::uint16_t>{5, 6}));
  folder.write("train_3.bin", numbers_as_bytes(std::vector<std::uint16_t>{9}));
  const auto data = open_tokens({folder.path.string(), "", ""});
  CHECK(all_of(data->tokens()) == Ids{5, 6, 7, 8, 9});
  Ids seam(3);
  data->tokens().read(1, seam);
  CHECK(seam == Ids{6, 7, 8});
}

TEST_CASE("lines of JSON are documents, of which prompts are masked") {
  const auto source = jsonl_tokens(
      "{\"text\": \"ab\"}\n\n{\"prompt\": \"c\", \"completion\": \"\\u00e9\", \"id\": 3}\r\n", "x");
  // U+00E9 is C3 A9 in UTF-8; 0 ends documents.
  CHECK(all_of(*source) == Ids{'a', 'b', 0, 'c', 0xC3, 0xA9, 0});
  std::vector<bool> masked;
  for (std::int64_t i = 0; i < source->size(); ++i) masked.push_back(source->is_masked(i));
  CHECK(masked == std::vector<bool>{false, false, false, true, false, false, false});
}

TEST_CASE("a line that is no document is refused by its number") {
  for (const char* line : {"{", "[1]", "{\"txt\": \"a\"}", "{\"text\": 3}", "{\"prompt\": \"a\"}",
                           "{\"text\": \"a\\u0000\"}", "{\"text\": \"\xFF\"}"}) {
    CAPTURE(line);
    try {
      jsonl_tokens(std::string("{\"text\": \"ok\"}\n") + line, "x");
      FAIL("not refused");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::kBadInput);
      CHECK(std::string(error.what()).starts_with("x, line 2"));
    }
  }
  CHECK_THROWS_WITH_AS(jsonl_tokens("\n \n", "x"), "x: holds no text", Error);
}

TEST_CASE("formats and orders that there are not are refused with what would do") {
  const DataFolder folder("sextant_formats");
  const std::string path = folder.write("a.bin", "ab");
  CHECK_THROWS_WITH_AS(open_tokens({path, "unit16", ""}),
                       "--data-format unit16: no such format, did you mean 'uint16'?", Error);
  CHECK_THROWS_AS(open_tokens({path, "", "sorted"}), Error);
  CHECK_THROWS_AS(open_tokens({folder / "none", "", ""}), Error);
}

}  // namespace sextant::token_files_test
