// Settings in one text: what is read, and what is refused.
#include "core/text/settings_text.h"

#include "core/base/error.h"

#include <doctest/doctest.h>

#include <string>

namespace sextant::settings_text_test {
namespace {

std::string read_back(std::string_view text, std::string_view separators) {
  std::string all;
  for (const Setting& setting : parse_settings(text, separators, text))
    all += setting.key + "=" + setting.value + ";";
  return all;
}

TEST_CASE("settings are read in their order, values keep what is not a separator") {
  CHECK(read_back("", ",") == "");
  CHECK(read_back("nodes=2", ",") == "nodes=2;");
  CHECK(read_back("b=1,a=x=y", ",") == "b=1;a=x=y;");
  CHECK(read_back("  mtbf=1h   every=2,5s ", " ") == "mtbf=1h;every=2,5s;");
}

TEST_CASE("a setting without key or value, and a key that is given twice, are refused") {
  for (const char* text : {"nodes", "nodes=", "=2", "=", ",", "nodes=2,", ",nodes=2", "a=1,,b=2"})
    CHECK_THROWS_WITH_AS(parse_settings(text, ",", text),
                         doctest::Contains("of the form key=value"), Error);
  CHECK_THROWS_WITH_AS(parse_settings("nodes=2,nodes=3", ",", "dgx:nodes=2,nodes=3"),
                       "'dgx:nodes=2,nodes=3': the key 'nodes' appears twice", Error);
  CHECK_THROWS_WITH_AS(parse_settings("a=1 b=2 a=1", " ", "x"), "'x': the key 'a' appears twice",
                       Error);
}

}  // namespace
}  // namespace sextant::settings_text_test
