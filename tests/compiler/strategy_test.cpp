// The one-line strategy: what is read, printed and refused.
#include "compiler/strategy.h"

#include "core/error.h"

#include <doctest/doctest.h>

#include <string>

namespace sextant::strategy_test {
namespace {

std::string refusal(const std::string& text) {
  try {
    parse_strategy(text);
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kUsage);
    return error.what();
  }
  return "accepted";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("a printed strategy parses to the same strategy") {
  for (const char* text : {"dp=2 tp=4 pp=2 micro_batch=1 schedule=1f1b zero=1",
                           "dp=1 tp=1 pp=1 micro_batch=8 schedule=gpipe zero=0",
                           "dp=3 tp=1 pp=4 micro_batch=2 schedule=zb-h1 zero=0 first_layers=3 "
                           "last_layers=2",
                           "dp=1 tp=2 pp=1 micro_batch=1 schedule=1f1b zero=0 sp=on pieces=4",
                           "dp=2 tp=2 pp=1 micro_batch=1 schedule=1f1b zero=0 "
                           "pin=layer*.gelu:(S(0),S(1)) pin=up[1]:(S(0)^2,S(0)^1) "
                           "pin=a:b:(B,P(max))"}) {
    CHECK(to_string(parse_strategy(text)) == text);
    CHECK(parse_strategy(to_string(parse_strategy(text))) == parse_strategy(text));
  }
}

TEST_CASE("pins that cannot be read say what was wanted") {
  CHECK(contains(refusal("pin=gelu"), "wanted pin=NAME:(WORD,WORD)"));
  CHECK(contains(refusal("pin=:(B,B)"), "wanted pin=NAME:(WORD,WORD)"));
  CHECK(contains(refusal("pin=gelu:B"), "1 words, wanted one for each axis of [dp, tp]"));
  CHECK(contains(refusal("pin=gelu:(B,P(avg))"), "wanted sum, max or min"));
  CHECK(contains(refusal("pin=gelu:(B,X)"), "strategy: pin=gelu:(B,X): '(B,X)' are not SBP words"));
  CHECK(contains(refusal("pin=gelu:(S(1)^2,B)"),
                 "strategy: pin=gelu:(S(1)^2,B): (S(1)^2, B): the "
                 "splits of dim 1 need no nesting positions"));
  CHECK(contains(refusal("pin=gelu[x]:(B,B)"), "wanted NAME[0], NAME[1]"));
  CHECK(contains(refusal("pin=[1]:(B,B)"), "wanted NAME[0], NAME[1]"));
  CHECK(contains(refusal("pin=a*:(B,B) pin=a*:(B,S(1))"), "strategy: pin=a* is given twice"));
  CHECK(contains(refusal("pin=up[1]:(B,B) pin=up[1]:(B,B)"), "pin=up[1] is given twice"));
  CHECK(parse_strategy("pin=a*:(B,B) pin=ab:(B,S(1)) pin=ab[0]:(B,B)").pins.size() == 3);
}

TEST_CASE("what is left out keeps its default") {
  CHECK(parse_strategy("") == Strategy{});
  CHECK(parse_strategy("  tp=4\t").tp == 4);
  CHECK(parse_strategy("dp=2 tp=3 pp=5").ranks() == 30);
}

TEST_CASE("settings at their defaults change nothing; experts are spread over whole replicas") {
  CHECK(parse_strategy("cp=1 ep=1 sp=off virtual=1 recompute=none") == Strategy{});
  CHECK(contains(refusal("dp=4 ep=3"), "does not divide dp=4"));
}

TEST_CASE("chunks of layers belong to the schedules made for them; zb-v has two") {
  CHECK(parse_strategy("schedule=zb-v pp=2").virtual_stages == 2);
  CHECK(parse_strategy("schedule=zb-v virtual=2") == parse_strategy("schedule=zb-v"));
  CHECK(parse_strategy("schedule=interleaved virtual=3").virtual_stages == 3);
  for (const char* text : {"schedule=zb-v pp=2", "schedule=interleaved virtual=4 pp=2"})
    CHECK(parse_strategy(to_string(parse_strategy(text))) == parse_strategy(text));
  CHECK(contains(refusal("virtual=2"), "virtual=2 with schedule=1f1b"));
  CHECK(contains(refusal("virtual=2 schedule=gpipe"), "want schedule=interleaved"));
  CHECK(contains(refusal("schedule=interleaved"), "wants virtual=2 or more"));
  CHECK(contains(refusal("schedule=interleaved virtual=1"), "it is schedule=1f1b"));
  CHECK(contains(refusal("schedule=zb-v virtual=3"), "which has two chunks"));
  CHECK(contains(refusal("schedule=zb-v virtual=1"), "which has two chunks"));
}

TEST_CASE("pieces belong to products that tp leaves pending, and are no more than can be joined") {
  CHECK(parse_strategy("pieces=1") == Strategy{});
  CHECK(contains(refusal("dp=2 pieces=2"), "pieces=2 with tp=1: products are cut so that"));
  CHECK(contains(refusal("tp=2 pieces=0"), "pieces=0, wanted a whole number from 1 to 256"));
  CHECK(contains(refusal("tp=2 pieces=257"), "pieces=257, wanted a whole number from 1 to 256"));
}

TEST_CASE("a step of more micro-batches than an issue order should hold is refused") {
  CHECK(num_micro_batches(parse_strategy("dp=2"), 2 << 16) == 1 << 16);
  CHECK_THROWS_WITH_AS(num_micro_batches(parse_strategy("dp=2"), 99999999998),
                       doctest::Contains("a step of 49999999999 micro-batches"), Error);
}

TEST_CASE("mistakes are named with what would be accepted") {
  CHECK(contains(refusal("micro_bach=2"), "did you mean 'micro_batch'"));
  CHECK(contains(refusal("schedule=pipedream"), "gpipe, 1f1b, interleaved, zb-h1 or zb-v"));
  CHECK(contains(refusal("dp=0"), "dp=0"));
  CHECK(contains(refusal("tp=-2"), "tp=-2"));
  CHECK(contains(refusal("pp=two"), "pp=two"));
  CHECK(contains(refusal("pp=99999999999999999999"), "whole number"));
  CHECK(contains(refusal("dp=2 dp=2"), "twice"));
  CHECK(contains(refusal("dp"), "'dp' is not key=value"));
  CHECK(contains(refusal("zero=7"), "zero=7 is unknown"));
  CHECK(contains(refusal("first_layers=3"), "together"));
}

TEST_CASE("a step has global batch / (dp x micro_batch) micro-batches") {
  CHECK(num_micro_batches(parse_strategy("dp=4 micro_batch=2"), 64) == 8);
  CHECK(num_micro_batches(parse_strategy("dp=4 micro_batch=2"), 8) == 1);
}

// G63: batch 64 on 3 devices.
TEST_CASE("a batch that does not divide is refused with the values that would do") {
  try {
    num_micro_batches(parse_strategy("dp=3"), 64);
    FAIL("accepted");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kInfeasible);
    const std::string text = error.what();
    CHECK(contains(text, "global batch 64 is not divisible by dp 3 x micro_batch 1"));
    CHECK(contains(text, "1, 2, 4, 8, 16, 32, 64"));
    CHECK(contains(text, "63 or 66"));
  }
  try {
    num_micro_batches(parse_strategy("dp=2 micro_batch=3"), 40);
    FAIL("accepted");
  } catch (const Error& error) {
    // 40 / 2 = 20 samples per replica.
    CHECK(contains(error.what(), "micro_batch that would do with dp=2: 1, 2, 4, 5, 10, 20"));
  }
}

}  // namespace
}  // namespace sextant::strategy_test
