// The strict JSON reader: what it accepts, what it refuses and where it says the mistake is.
#include "core/text/json_reader.h"

#include "core/base/error.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <limits>

namespace sextant::json_reader_test {
namespace {

// The message of the refusal, or "accepted".
std::string refusal(std::string_view text) {
  try {
    JsonDocument(text, "f.json");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kBadInput);
    return error.what();
  }
  return "accepted";
}

std::string hint(std::string_view text) {
  try {
    JsonDocument(text, "f.json");
  } catch (const Error& error) {
    return error.hints().empty() ? "" : error.hints().front();
  }
  return "accepted";
}

bool begins(const std::string& text, std::string_view prefix) {
  return text.compare(0, prefix.size(), prefix) == 0;
}

TEST_CASE("values keep their type, their digits and the order of their keys") {
  const JsonDocument document(
      R"({"z": 9007199254740993, "a": 1.5, "list": [true, null, "text"], "whole": 3.0})", "f.json");
  const JsonCursor root = document.root();
  CHECK(root.keys() == std::vector<std::string>{"z", "a", "list", "whole"});
  CHECK(root.at("z").integer() == 9007199254740993);  // 2^53 + 1 is no double
  CHECK(root.at("a").real() == 1.5);
  CHECK(root.at("whole").integer() == 3);
  CHECK(root.at("z").is_number());
  const auto list = root.at("list").elements();
  REQUIRE(list.size() == 3);
  CHECK(list[0].boolean());
  CHECK(list[1].is_null());
  CHECK(list[2].text() == "text");
}

TEST_CASE("a byte order mark is skipped") {
  CHECK(refusal("\xEF\xBB\xBF{\"a\": 1}") == "accepted");
  CHECK(begins(refusal("\xEF\xBB\xBF[1, x]"), "f.json: line 1, column 5:"));
}

TEST_CASE("not quite JSON is refused with line, column and a way out") {
  CHECK(begins(refusal("{\n  \"a\": NaN\n}"), "f.json: line 2, column 8:"));
  CHECK(hint("{\"a\": NaN}") == "JSON has no NaN and no Infinity: write a number or null");
  CHECK(hint("{\"a\": -Infinity}") == "JSON has no NaN and no Infinity: write a number or null");
  CHECK(begins(refusal("{\"a\": 1,\n}"), "f.json: line 2, column 1:"));
  CHECK(hint("[1,\n]") == "remove the comma before this");
  CHECK(hint("{\"a\": 1 // why\n}") == "JSON has no comments: remove them");
  CHECK(hint("# top\n{}") == "JSON has no comments: remove them");
  CHECK(hint("{'a': 1}") == "JSON texts stand in double quotes");
  CHECK(hint("{\"a\": True}") == "truth values are true and false in JSON");
}

TEST_CASE("truncated, trailing, numerically impossible and badly encoded texts are refused") {
  for (const char* const text :
       {"", " ", "{", "[1", "{\"a\"", "{\"a\":", "{} {}", "[01]", "[1e999]", "[+1]", "[.5]",
        "[\"\xff\"]", "[\"\x01\"]", "[\"\\ud800\"]", "nul"})
    CHECK(begins(refusal(text), "f.json: line 1, column "));
}

TEST_CASE("a repeated key is refused by name and place, also when written with escapes") {
  CHECK(refusal("{\"a\": {\"k\": \":\\\"\"},\n \"b\": 1, \"a\": 2}") ==
        "f.json: line 2, column 10: the key 'a' appears twice in one object");
  CHECK(refusal(R"({"a": 1, "\u0061": 2})") ==
        "f.json: line 1, column 10: the key 'a' appears twice in one object");
  CHECK(refusal(R"({"a": {"a": 1}, "b": [{"a": 1}, {"a": 2}]})") == "accepted");
}

TEST_CASE("nesting is limited before anything is parsed") {
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  CHECK(refusal(nested(64)) == "accepted");
  CHECK(refusal(nested(65)) ==
        "f.json: line 1, column 65: nested deeper than 64 lists and objects");
  CHECK(begins(refusal(std::string(100'000'000, '[')), "f.json: line 1, column 65:"));
  // Brackets inside texts do not nest.
  CHECK(refusal("[\"" + std::string(100, '[') + "\\\"" + std::string(100, '{') + "\"]") ==
        "accepted");
}

TEST_CASE("a text over the limit is refused") {
  CHECK_THROWS_WITH_AS(JsonDocument("[1, 2, 3]", "f.json", Bytes(8)),
                       "f.json: 9 B of JSON, more than the limit of 8 B", Error);
}

TEST_CASE("a value of the wrong type is named by its path") {
  const JsonDocument document(R"({"device": {"peaks": [{"dtype": 5, "rate": "fast", "n": 2.5}]}})",
                              "cluster.json");
  const JsonCursor peak = document.root().at("device").at("peaks").elements()[0];
  CHECK_THROWS_WITH_AS(peak.at("dtype").text(),
                       "cluster.json: device.peaks[0].dtype: found 5, wanted a text", Error);
  CHECK_THROWS_WITH_AS(peak.at("rate").real(),
                       "cluster.json: device.peaks[0].rate: found \"fast\", wanted a number",
                       Error);
  CHECK_THROWS_WITH_AS(peak.at("n").integer(),
                       "cluster.json: device.peaks[0].n: found 2.5, wanted an integer", Error);
  CHECK_THROWS_WITH_AS(peak.at("dtype").integer_between(0, 4),
                       "cluster.json: device.peaks[0].dtype: found 5, wanted 0 to 4", Error);
  CHECK_THROWS_WITH_AS(peak.at("name"), "cluster.json: device.peaks[0]: the key 'name' is missing",
                       Error);
  CHECK_THROWS_WITH_AS(document.root().at("nodes"), "cluster.json: the key 'nodes' is missing",
                       Error);
}

TEST_CASE("integers beyond 64 bits are no integers") {
  const JsonDocument document("[9223372036854775807, 9223372036854775808]", "f.json");
  CHECK(document.root().elements()[0].integer() == std::numeric_limits<std::int64_t>::max());
  CHECK_THROWS_AS(document.root().elements()[1].integer(), Error);
}

TEST_CASE("an unknown key is refused with the nearest valid one") {
  const JsonDocument document(R"({"nodes": 2, "devices_per_nod": 8})", "cluster.json");
  CHECK_THROWS_WITH_AS(
      document.root().allow_only({"name", "nodes", "devices_per_node"}),
      "cluster.json: unknown key 'devices_per_nod', did you mean 'devices_per_node'?", Error);
  CHECK_NOTHROW(document.root().allow_only({"nodes", "devices_per_nod"}));
}

TEST_CASE("a key set to null can count as left out") {
  const JsonDocument document(R"({"a": null, "b": 1})", "f.json");
  CHECK(document.root().find("a").has_value());
  CHECK_FALSE(document.root().find_value("a").has_value());
  CHECK(document.root().find_value("b").has_value());
  CHECK_FALSE(document.root().find_value("c").has_value());
}

TEST_CASE("a document can move while cursors look at it") {
  JsonDocument first(R"({"a": [1]})", "f.json");
  const JsonCursor cursor = first.root().at("a");
  const JsonDocument second = std::move(first);
  CHECK(cursor.elements()[0].integer() == 1);
  CHECK(cursor.place() == "f.json: a");
}

TEST_CASE("missing files and folders are refused by path") {
  const auto folder = std::filesystem::temp_directory_path() / "sextant_json_reader_test";
  std::filesystem::create_directories(folder);
  const std::string missing = (folder / "no.json").string();
  CHECK_THROWS_WITH_AS(read_json_file(missing), (missing + ": no such file").c_str(), Error);
  CHECK_THROWS_WITH_AS(read_json_file(folder.string()),
                       (folder.string() + ": is a folder, wanted a file").c_str(), Error);
  const std::string path = (folder / "yes.json").string();
  std::ofstream(path) << R"({"a": 1})";
  CHECK(read_json_file(path).root().at("a").integer() == 1);
  CHECK_THROWS_WITH_AS(read_text_file(path, Bytes(3)),
                       (path + ": larger than the limit of 3 B").c_str(), Error);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace sextant::json_reader_test
