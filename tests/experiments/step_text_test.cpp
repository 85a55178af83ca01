// Steps in one word, with models that have colons of their own.
#include "experiments/step_text.h"

#include "core/base/error.h"

#include <doctest/doctest.h>

namespace sextant::step_text_test {
namespace {

TEST_CASE("a step is read from the right, whatever its model is called") {
  const StepText plain = parse_step("gpt2-medium:16x1024");
  CHECK(plain.model == "gpt2-medium");
  CHECK(plain.batch == 16);
  CHECK(plain.sequence == 1024);
  CHECK(plain.layers == 0);
  const StepText word = parse_step("gpt:layers=2,hidden=64,heads=4,seq=128:4x128");
  CHECK(word.model == "gpt:layers=2,hidden=64,heads=4,seq=128");
  CHECK(word.batch == 4);
  CHECK(parse_step("conv:blocks=2x2,channels=8x8:32x1").model == "conv:blocks=2x2,channels=8x8");
  const StepText cut = parse_step("mixtral-8x7b:2x4096:3");
  CHECK(cut.model == "mixtral-8x7b");
  CHECK(cut.sequence == 4096);
  CHECK(cut.layers == 3);
}

TEST_CASE("what is no step is refused with the text") {
  for (const char* text :
       {"", ":", "gpt2", "gpt2:", "gpt2:16", "gpt2:16x", "gpt2:x16", "gpt2:0x16", "gpt2:16x16x",
        "gpt2:1x16:", "gpt2:1x16:0", "gpt2:-1x16", ":1x16", "gpt2:1x99999999999999999999", "2:3:4"})
    CHECK_THROWS_WITH_AS(parse_step(text), doctest::Contains("MODEL:BATCHxSEQUENCE"), Error);
}

}  // namespace
}  // namespace sextant::step_text_test
