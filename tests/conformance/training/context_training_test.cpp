// Attention over split sequences on the whole stack: a strategy with cp trains as one rank does.
#include "core/base/check.h"
#include "tests/conformance/training/training_runs.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace sextant::context_training_test {
namespace {

constexpr const char* kOneRank = "dp=1 tp=1 pp=1 micro_batch=4";
constexpr double kF64Bound = 1e-10;

CpuOptions inline_cpu() {
  CpuOptions options;
  options.queues = CpuQueueKind::kInline;
  options.seed = 17;
  options.rendezvous_timeout_ms = 60'000;
  return options;
}

CpuOptions stress_cpu() {
  CpuOptions options = inline_cpu();
  options.queues = CpuQueueKind::kStress;
  return options;
}

double largest(const std::vector<double>& values) {
  double result = 0;
  for (const double value : values) result = std::max(result, std::abs(value));
  return result;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double result = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(a[i])) return INFINITY;
    result = std::max(result, std::abs(a[i] - b[i]));
  }
  return result;
}

// "p", "m" or "v": each has its scale, because softmax does not see a bias of the keys, whose
// gradient is noise around zero.
std::string kind_of(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  const std::string suffix = dot == std::string::npos ? "" : name.substr(dot);
  return suffix == ".m" || suffix == ".v" || suffix == ".step" ? suffix : "p";
}

double worst_error(const TrainingResult& found, const TrainingResult& expected) {
  if (found.losses.size() != expected.losses.size() || found.state.size() != expected.state.size())
    return INFINITY;
  double worst = largest_difference(found.losses, expected.losses) / largest(expected.losses);
  std::map<std::string, double> scales;
  for (const auto& [name, values] : expected.state)
    scales[kind_of(name)] = std::max(scales[kind_of(name)], largest(values));
  for (const auto& [name, values] : expected.state) {
    const auto other = found.state.find(name);
    if (other == found.state.end()) return INFINITY;
    worst = std::max(worst, largest_difference(other->second, values) / scales.at(kind_of(name)));
  }
  return worst;
}

std::vector<PairBytes> times(std::vector<PairBytes> traffic, std::int64_t steps) {
  for (PairBytes& entry : traffic) entry.bytes = entry.bytes * steps;
  return traffic;
}

TrainingCase case_of(ModelConfig model, std::int64_t heads, std::int64_t kv_heads,
                     std::int64_t sequence) {
  model.layers = 2;
  model.heads = heads;
  model.kv_heads = kv_heads;
  model.sequence = std::max(model.sequence, sequence);
  TrainingCase training;
  training.model = model;
  training.sequence = sequence;
  training.global_batch = 4;
  training.steps = 2;
  return training;
}

void check_all(const TrainingCase& training, const std::vector<std::string>& strategies) {
  const TrainingResult expected = train(training, kOneRank, inline_cpu());
  for (const std::string& strategy : strategies) {
    CAPTURE(strategy);
    const TrainingResult found = train(training, strategy, stress_cpu());
    CHECK(worst_error(found, expected) < kF64Bound);
    CHECK(found.moved == times(planned_traffic(training, strategy), training.steps));
  }
}

// With dp, tp and pp of 1 or 2 each.
std::vector<std::string> combinations(const std::string& context) {
  std::vector<std::string> strategies;
  for (const int dp : {1, 2})
    for (const int tp : {1, 2})
      for (const int pp : {1, 2})
        strategies.push_back(
            fmt::format("dp={} tp={} pp={} micro_batch=1 {}", dp, tp, pp, context));
  return strategies;
}

TEST_CASE("all-to-all attention trains a GPT with learned positions as one rank does") {
  for (const int cp : {2, 3, 4}) {
    CAPTURE(cp);
    // 7 positions split unevenly over any cp.
    check_all(case_of(tiny_gpt(), 2 * cp, 2 * cp, 7),
              combinations(fmt::format("cp={} cp_mode=a2a", cp)));
  }
}

TEST_CASE("all-to-all attention trains a Llama with grouped heads and rotary positions") {
  for (const int cp : {2, 3, 4}) {
    CAPTURE(cp);
    check_all(case_of(tiny_llama(), 4 * cp, 2 * cp, 9),
              combinations(fmt::format("cp={} cp_mode=a2a", cp)));
  }
}

TEST_CASE(
    "all-to-all attention works beside ZeRO, every schedule, and with more parts than tokens") {
  check_all(case_of(tiny_llama(), 8, 4, 3),
            {"dp=2 cp=4 micro_batch=1 cp_mode=a2a zero=1",
             "dp=1 cp=2 pp=2 micro_batch=1 cp_mode=a2a schedule=zb-h1",
             "dp=1 cp=2 tp=2 pp=2 micro_batch=1 cp_mode=a2a schedule=gpipe"});
}

TEST_CASE("ring attention trains a GPT with learned positions as one rank does") {
  for (const int cp : {2, 3, 4}) {
    CAPTURE(cp);
    check_all(case_of(tiny_gpt(), 4, 4, 2 * cp), combinations(fmt::format("cp={}", cp)));
  }
}

TEST_CASE("ring attention trains a Llama with grouped heads and rotary positions") {
  for (const int cp : {2, 3, 4}) {
    CAPTURE(cp);
    check_all(case_of(tiny_llama(), 8, 2, 3 * cp), combinations(fmt::format("cp={}", cp)));
  }
}

// Chunks of one position; an odd number of heads.
TEST_CASE("ring attention works with any heads, beside ZeRO, and under every schedule") {
  check_all(case_of(tiny_gpt(), 5, 5, 4), {"cp=4 micro_batch=1", "cp=2 micro_batch=1"});
  check_all(case_of(tiny_llama(), 4, 2, 8),
            {"dp=2 cp=4 micro_batch=1 zero=1", "cp=2 pp=2 micro_batch=1 schedule=zb-h1",
             "cp=2 tp=2 pp=2 micro_batch=1 schedule=gpipe"});
}

TEST_CASE("split sequences go with every ZeRO stage and with sequence parallelism") {
  const TrainingCase training = case_of(tiny_llama(), 8, 4, 8);
  for (const char* mode : {"ring", "a2a"})
    check_all(training, {fmt::format("dp=2 cp=2 micro_batch=1 zero=2 cp_mode={}", mode),
                         fmt::format("dp=2 cp=2 tp=2 micro_batch=1 zero=3 cp_mode={}", mode),
                         fmt::format("cp=2 tp=2 micro_batch=2 sp=on cp_mode={}", mode),
                         fmt::format("cp=2 tp=2 micro_batch=2 pieces=3 cp_mode={}", mode),
                         fmt::format("cp=2 tp=2 pp=2 micro_batch=1 sp=on pieces=2 schedule=zb-h1 "
                                     "recompute=selective cp_mode={}",
                                     mode)});
}

}  // namespace
}  // namespace sextant::context_training_test
