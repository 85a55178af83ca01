// The one-line strategy: what is read, printed and refused.
#include "compiler/strategy/strategy.h"

#include "compiler/strategy/strategy_settings.h"
#include "core/base/error.h"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <string>
#include <string_view>
#include <vector>

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
                           "dp=3 tp=1 pp=4 micro_batch=2 schedule=zb-h1 zero=0 layers=3,*,*,2",
                           "dp=4 tp=2 pp=2 micro_batch=1 schedule=1f1b zero=0 ep=2 "
                           "layers=7,9 order=dp,tp,cp,ep,pp",
                           "dp=1 tp=1 pp=2 micro_batch=1 schedule=zb-v zero=0 virtual=2 "
                           "layers=1,2,3,4",
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

TEST_CASE("layers= has one positive number, or a share, for every virtual stage") {
  CHECK(parse_strategy("pp=4 layers=7,8,9,8").layers == std::vector<int>{7, 8, 9, 8});
  CHECK(parse_strategy("layers=7,*,8 pp=3").layers == std::vector<int>{7, kEvenShare, 8});
  for (const char* text : {"pp=2 layers=balanced", "pp=2 layers=*,*"})
    CHECK(parse_strategy(text) == parse_strategy("pp=2"));
  for (const char* entry : {"0", "-1", "1.5", "x", "", "2000000"}) {
    const std::string list = fmt::format("7,{}", entry);
    CHECK(
        contains(refusal("pp=2 layers=" + list),
                 fmt::format("layers={}: '{}' is no number of blocks, wanted 1 to", list, entry)));
  }
  CHECK(contains(refusal("pp=4 layers=7,8,9"),
                 "layers=7,8,9 counts 3 stages, and pp=4 makes 4: wanted one number for each"));
  CHECK(contains(refusal("pp=2 schedule=interleaved virtual=2 layers=7,8"),
                 "counts 2 virtual stages, and pp=2 x virtual=2 makes 4"));
  CHECK(contains(refusal("pp=2 layers=7,8 first_layers=7 last_layers=8"), "give one of them"));
}

TEST_CASE("first_layers and last_layers are the older name of a list") {
  CHECK(parse_strategy("pp=4 first_layers=3 last_layers=2") ==
        parse_strategy("pp=4 layers=3,*,*,2"));
  CHECK(parse_strategy("pp=3 schedule=interleaved virtual=2 first_layers=3 last_layers=2") ==
        parse_strategy("pp=3 schedule=interleaved virtual=2 layers=2,*,1,1,*,1"));
  // The second chunks of zb-v come back: the last virtual stage is of the first stage.
  CHECK(parse_strategy("pp=3 schedule=zb-v first_layers=3 last_layers=2") ==
        parse_strategy("pp=3 schedule=zb-v layers=2,*,1,1,*,1"));
  CHECK(contains(refusal("pp=1 first_layers=4 last_layers=5"), "one stage is both first and last"));
  CHECK(contains(refusal("pp=3 schedule=zb-v first_layers=4 last_layers=1"),
                 "last_layers=1 with virtual=2: every chunk of a stage wants a layer"));
  CHECK(contains(refusal("pp=1048576 schedule=interleaved virtual=1048576 first_layers=1048576 "
                         "last_layers=1048576"),
                 "more stages than any model has layers"));
}

TEST_CASE(
    "order= takes the axes from neighbouring ranks outwards; an axis of one may be left out") {
  using enum RankAxis;
  CHECK(parse_strategy("order=tp,cp,ep,dp,pp") == Strategy{});
  CHECK(parse_strategy("dp=2 tp=2 pp=2 order=pp,dp,tp").order ==
        RankOrder{kPp, kEp, kDp, kTp, kCp});
  // Texts from before ep had a place of its own: it stands inside dp.
  CHECK(parse_strategy("dp=4 ep=2 order=tp,cp,dp,pp") == parse_strategy("dp=4 ep=2"));
  CHECK(parse_strategy("dp=4 ep=2 order=ep,pp,dp").order == RankOrder{kEp, kPp, kDp, kTp, kCp});
  CHECK(contains(refusal("tp=2 order=dp,pp"), "order= leaves out tp, which has 2 members"));
  CHECK(contains(refusal("order=tp,dp,tp"), "order=tp,dp,tp names tp twice"));
  CHECK(contains(refusal("order=tp,sp"), "order=tp,sp: 'sp' is no axis, wanted tp, cp, ep, dp"));
}

TEST_CASE("every setting is a row: it reads what it prints, and its choices are all accepted") {
  const Strategy usual;
  for (const StrategySetting& setting : strategy_settings()) {
    CAPTURE(setting.key);
    CHECK(find_strategy_setting(setting.key) == &setting);
    CHECK_FALSE(setting.values.empty());
    CHECK_FALSE(setting.meaning.empty());
    if (setting.write == nullptr) continue;
    StrategyDraft draft;
    setting.read(draft, default_of(setting));
    CHECK(draft.strategy == usual);
    for (const std::string_view choice : setting.choices) {
      setting.read(draft, choice);
      CHECK(setting.write(draft.strategy) == choice);
    }
  }
  CHECK(find_strategy_setting("dq") == nullptr);
  CHECK(contains(strategy_settings_help(), "  zero         0, 1, 2 or 3 (0): what dp divides"));
}

TEST_CASE("settings that change nothing are named with the reason, others are not") {
  const auto idle = [](const char* text) { return settings_without_effect(parse_strategy(text)); };
  using Notes = std::vector<std::string>;
  CHECK(idle("").empty());
  CHECK(idle("dp=2 tp=2 cp=2 pp=2 zero=1 sp=on cp_mode=a2a layers=3,4 order=dp,tp,cp,pp").empty());
  CHECK(idle("sp=on") == Notes{"sp=on has no effect: tp=1"});
  CHECK(idle("tp=2 zero=1") == Notes{"zero=1 has no effect: dp=1"});
  CHECK(idle("cp_mode=a2a") == Notes{"cp_mode=a2a has no effect: cp=1"});
  CHECK(idle("layers=12") == Notes{"layers=12 has no effect: one stage has all layers"});
  CHECK(idle("schedule=zb-v layers=6,6").empty());
  CHECK(idle("tp=8 order=dp,tp,cp,pp") ==
        Notes{"order=ep,dp,tp,cp,pp has no effect: there are no two axes to order"});
  CHECK(idle("dp=2 tp=8 order=tp,pp,dp") ==
        Notes{"order=tp,pp,ep,dp,cp has no effect: the axes in use stand as they always do"});
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
