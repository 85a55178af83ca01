// Every architecture, in small: any strategy trains it as one rank does.
#include "tests/conformance/training_runs.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace sextant {
namespace {

constexpr double kF64Bound = 1e-10;  // sums of another order: 1e-16 per term, carried on by steps

CpuOptions cpu_of(CpuQueueKind queues) {
  CpuOptions options;
  options.queues = queues;
  options.seed = 17;
  options.rendezvous_timeout_ms = 60'000;
  return options;
}

// Largest difference relative to the largest value; a tensor of another size counts as infinite.
double difference(const std::vector<double>& found, const std::vector<double>& expected) {
  if (found.size() != expected.size()) return INFINITY;
  double error = 0, scale = 1;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!std::isfinite(found[i])) return INFINITY;
    error = std::max(error, std::abs(found[i] - expected[i]));
    scale = std::max(scale, std::abs(expected[i]));
  }
  return error / scale;
}

double difference(const TrainingResult& found, const TrainingResult& expected) {
  if (found.state.size() != expected.state.size()) return INFINITY;
  double worst = difference(found.losses, expected.losses);
  for (const auto& [name, values] : expected.state) {
    const auto other = found.state.find(name);
    if (other == found.state.end()) return INFINITY;
    worst = std::max(worst, difference(other->second, values));
  }
  return worst;
}

void check_strategies(const TrainingCase& training, const std::string& one_rank,
                      std::initializer_list<const char*> strategies) {
  const TrainingResult expected = train(training, one_rank, cpu_of(CpuQueueKind::kInline));
  // Something is learned, so that equal results say something.
  REQUIRE(expected.losses.size() == static_cast<std::size_t>(training.steps));
  CHECK(std::abs(expected.losses.back() - expected.losses.front()) > 1e-3);
  for (const std::string strategy : strategies) {
    CAPTURE(strategy);
    CHECK(difference(train(training, strategy, cpu_of(CpuQueueKind::kAsynchronous)), expected) <
          kF64Bound);
  }
}

ModelConfig tiny_experts() {
  ModelConfig config = tiny_llama();
  config.name = "tiny-experts";
  config.layers = 2;
  config.experts = 4;
  config.top_k = 2;
  return config;
}

TEST_CASE("a model with experts trains alike under every strategy, dropping or not") {
  TrainingCase training;
  training.model = tiny_experts();
  for (const std::optional<double> factor : {std::optional<double>(), std::optional<double>(0.8)}) {
    training.model.capacity_factor = factor;
    check_strategies(training, "micro_batch=8",
                     {"dp=2 micro_batch=2", "tp=2 micro_batch=4", "dp=2 tp=2 micro_batch=1 zero=1",
                      "dp=2 pp=2 micro_batch=1 schedule=zb-h1"});
  }
}

TEST_CASE("a model with dropout and smoothed labels trains alike under every strategy") {
  TrainingCase training;
  training.model = tiny_gpt();
  training.model.residual_dropout = 0.2;
  training.model.embedding_dropout = 0.1;
  training.model.label_smoothing = 0.1;
  // The mask of an element is named by its micro-batch: these have the same ones, two of four.
  check_strategies(training, "micro_batch=4",
                   {"dp=4 micro_batch=1", "tp=4 micro_batch=4", "dp=2 tp=2 micro_batch=2 zero=1"});
}

}  // namespace
}  // namespace sextant
