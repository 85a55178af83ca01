// The numerics law over random plans: whatever legal plan the compiler makes of a model, its
// losses, gradients, parameters and states are those of one device (README, "Numerics law").
#include "tests/conformance/law/law_generator.h"
#include "tests/conformance/law/law_models.h"
#include "tests/conformance/law/law_runner.h"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

namespace sextant::law_test {
namespace {

constexpr std::int64_t kMostShrunk = 3;

std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

struct Tally {
  std::int64_t drawn = 0, executed = 0, broken = 0;
  std::map<std::string, std::int64_t> refused;
  std::map<std::string, double> worst;  // by dtype
  std::map<std::string, std::int64_t> features;
};

// What the plans of a run have covered, for the reader who wonders.
void note_features(const LawPlan& plan, Tally& tally) {
  const Strategy& strategy = plan.strategy;
  const auto note = [&](bool used, const std::string& name) {
    if (used) ++tally.features[name];
  };
  note(true, plan.model);
  note(true, plan.optimizer);
  note(strategy.dp > 1, "dp");
  note(strategy.tp > 1, "tp");
  note(strategy.pp > 1, fmt::format("pp {}", to_string(strategy.schedule)));
  note(strategy.cp > 1, fmt::format("cp {}", to_string(strategy.context)));
  note(strategy.ep > 1, "ep");
  note(strategy.sequence_parallel, "sp");
  note(strategy.pieces > 1, "pieces");
  note(strategy.zero > 0 && strategy.dp > 1, fmt::format("zero={}", strategy.zero));
  note(strategy.recompute != Recompute(), "recompute=" + to_string(strategy.recompute));
  note(!strategy.layers.empty(), "layers");
  note(strategy.order != kUsualOrder, "order");
  note(!strategy.pins.empty(), "pins");
}

std::string summary(const Tally& tally) {
  std::string text = fmt::format("{} plans executed of {} drawn, {} broken", tally.executed,
                                 tally.drawn, tally.broken);
  for (const auto& [reason, count] : tally.refused)
    text += fmt::format("\n  refused: {} ({})", reason, count);
  for (const auto& [dtype, error] : tally.worst)
    text += fmt::format("\n  worst relative error in {}: {:.2e}", dtype, error);
  text += "\n  covered:";
  for (const auto& [feature, count] : tally.features)
    text += fmt::format(" {} {}", feature, count) + ",";
  return text;
}

void check_plan(LawRunner& runner, const LawPlan& plan, Tally& tally) {
  const std::string line = to_line(plan);
  CAPTURE(line);
  REQUIRE(plan_from_line(line) == plan);
  ++tally.drawn;
  const LawReport report = runner.run(plan);
  if (report.outcome == LawReport::Outcome::kRefused) {
    ++tally.refused[report.reason];
    return;
  }
  ++tally.executed;
  note_features(plan, tally);
  double& worst = tally.worst[std::string(to_string(plan.dtype))];
  if (report.outcome == LawReport::Outcome::kHolds) {
    worst = std::max(worst, report.error);
    return;
  }
  ++tally.broken;
  // At once: what follows may take minutes.
  std::fprintf(stderr, "broken: SEXTANT_LAW_PLAN='%s'\n  %s\n", line.c_str(),
               report.reason.c_str());
  FAIL_CHECK(report.reason);
  if (tally.broken > kMostShrunk) return;
  const LawPlan smaller = runner.shrink(plan);
  MESSAGE(fmt::format("shrunk: SEXTANT_LAW_PLAN='{}'\n  {}", to_line(smaller),
                      runner.run(smaller).reason));
}

TEST_CASE("every legal plan trains as one device does, or is refused by name") {
  LawRunner runner;
  Tally tally;
  if (const char* const line = std::getenv("SEXTANT_LAW_PLAN")) {
    check_plan(runner, plan_from_line(line), tally);
  } else {
    const std::uint64_t seed = number_from("SEXTANT_LAW_SEED", 1);
    const auto wanted = static_cast<std::int64_t>(number_from("SEXTANT_LAW_PLANS", 300));
    MESSAGE("seed " << seed);
    for (std::uint64_t index = 0; tally.executed < wanted; ++index) {
      CAPTURE(index);
      check_plan(runner, draw_plan(seed, index), tally);
      REQUIRE(tally.drawn <= 2 * wanted + 20);  // most drawn plans are legal
    }
  }
  MESSAGE(summary(tally));
}

}  // namespace
}  // namespace sextant::law_test
