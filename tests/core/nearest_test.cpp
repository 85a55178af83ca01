// Guesses of mistyped names.
#include "core/base/nearest.h"

#include <doctest/doctest.h>

#include <vector>

namespace sextant::nearest_test {
namespace {

TEST_CASE("edit distance counts insertions, deletions, substitutions and swaps") {
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("kitten", "sitting") == 3);  // k->s, e->i, +g
  CHECK(edit_distance("schedule", "shcedule") == 1);
  CHECK(edit_distance("GPT2", "gpt2") == 0);
}

TEST_CASE("the nearest name is the first of the closest, and never a far-fetched one") {
  const std::vector<std::string> valid = {"micro_batch", "zero", "tp", "pp"};
  CHECK(nearest("microbatch", valid) == "micro_batch");
  CHECK(nearest("xp", valid) == "tp");
  CHECK(nearest("banana", valid) == std::nullopt);
  CHECK(did_you_mean("zer", valid) == ", did you mean 'zero'?");
  CHECK(did_you_mean("banana", valid).empty());
  CHECK(comma_list(valid) == "micro_batch, zero, tp, pp");
}

TEST_CASE("a very long text is compared with nothing") {
  const std::vector<std::string> valid = {std::string(300, 'a')};
  CHECK(nearest(std::string(299, 'a'), valid) == std::nullopt);
}

}  // namespace
}  // namespace sextant::nearest_test
