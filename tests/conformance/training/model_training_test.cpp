// Every architecture, in small: any strategy trains it as one rank does.
#include "models/class_head.h"
#include "models/conv_net.h"
#include "models/face_net.h"
#include "models/wide_deep.h"
#include "tests/conformance/training/law_compare.h"
#include "tests/conformance/training/training_runs.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace sextant::model_training_test {
namespace {

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

void check_strategies(const TrainingCase& training, const std::string& one_rank,
                      std::initializer_list<const char*> strategies) {
  const TrainingResult expected = train(training, one_rank, seeded_cpu(CpuQueueKind::kInline));
  // Something is learned, so that equal results say something.
  REQUIRE(expected.losses.size() == static_cast<std::size_t>(training.steps));
  CHECK(std::abs(expected.losses.back() - expected.losses.front()) > 1e-3);
  for (const std::string strategy : strategies) {
    CAPTURE(strategy);
    const TrainingResult found = train(training, strategy, seeded_cpu(CpuQueueKind::kAsynchronous));
    const Distance far = distance(found, expected);
    CAPTURE(far.where);
    CHECK(far.error < kF64Bound);
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
                      "dp=2 pp=2 micro_batch=1 schedule=zb-h1", "dp=4 ep=2 micro_batch=1",
                      "dp=2 ep=2 tp=2 micro_batch=2 recompute=full"});
  }
}

// Two of two experts: each is chosen by all six tokens of a sample and has ceil(0.5 * 6 * 2 / 2) =
// 3 places, so 2 * 3 choices find none: 6 for each of 2 layers and 8 samples, 96 a step.
TEST_CASE("a step counts the choices that its experts drop, under every strategy") {
  TrainingCase training;
  training.model = tiny_experts();
  training.model.experts = 2;
  training.model.capacity_factor = 0.5;
  training.sequence = 6;
  training.steps = 2;
  const auto dropped = [&](const char* strategy) {
    return train(training, strategy, seeded_cpu(CpuQueueKind::kInline)).dropped;
  };
  for (const char* strategy :
       {"micro_batch=8", "dp=2 tp=2 micro_batch=1 sp=on", "cp=2 micro_batch=4",
        "dp=4 ep=2 pp=2 micro_batch=1 zero=2 order=pp,ep,dp recompute=full"}) {
    CAPTURE(strategy);
    CHECK(dropped(strategy) == std::vector<double>{96, 96});
  }
  // A place for every token: nothing can be dropped, and nothing is counted.
  training.model.capacity_factor = 1.0;
  CHECK(dropped("micro_batch=8").empty());
}

template <typename Config>
TrainingCase case_of(const Config& config) {
  TrainingCase training;
  training.build = [config](std::int64_t samples, DType dtype) {
    return build_graph(config, samples, dtype);
  };
  return training;
}

ConvNetConfig tiny_conv_net(bool bottleneck) {
  return {.name = "tiny-conv",
          .image_channels = 2,
          .height = 7,
          .width = 5,
          .classes = 5,
          .stem_channels = 3,
          .stem_kernel = 3,
          .stem_stride = 1,
          .bottleneck = bottleneck,
          .blocks = {1, 1},
          .channels = {3, 5}};
}

TEST_CASE("a conv net trains alike under every strategy that leaves its batches as they are") {
  for (const bool bottleneck : {false, true}) {
    CAPTURE(bottleneck);
    // Batch statistics belong to a micro-batch, so these have the same ones: two of four samples.
    check_strategies(case_of(tiny_conv_net(bottleneck)), "micro_batch=4",
                     {"dp=2 micro_batch=2", "dp=4 micro_batch=1", "tp=2 micro_batch=4",
                      "dp=2 tp=2 micro_batch=2 zero=1", "dp=2 pp=2 micro_batch=2 schedule=zb-h1",
                      "dp=2 micro_batch=2 recompute=full"});
  }
}

TEST_CASE("a net of faces with sampled classes trains alike, its classes split or not") {
  FaceNetConfig config{.name = "tiny-face",
                       .image_channels = 2,
                       .height = 8,
                       .width = 8,
                       .stem_channels = 3,
                       .blocks = {1, 1},
                       .channels = {3, 4},
                       .strides = {2, 2},
                       .expansions = {},
                       .features = 5,
                       .classes = 24,
                       .sampled = 16,
                       .buckets = 4,
                       .initializer_range = 0.3};
  for (const bool is_mobile : {false, true}) {
    CAPTURE(is_mobile);
    if (is_mobile) config.expansions = {2, 1}, config.last_channels = 6;
    check_strategies(case_of(config), "micro_batch=4",
                     {"dp=2 micro_batch=2 pin=head.weight:(S(0),B)", "tp=2 micro_batch=4",
                      "dp=4 micro_batch=1 pin=head.weight:(S(0),B)", "dp=2 tp=2 micro_batch=2",
                      "dp=2 micro_batch=2 recompute=full"});
  }
}

TEST_CASE("running statistics move once per step, by the average over its micro-batches") {
  TrainingCase training = case_of(tiny_conv_net(false));
  training.steps = 1;
  // The mean of all samples is the average of the means of equal parts of them; the stem's input
  // does not depend on statistics before it.
  const auto mean_after = [&](const char* strategy) {
    return train(training, strategy, seeded_cpu(CpuQueueKind::kInline))
        .state.at("stem.norm.running_mean");
  };
  const std::vector<double> whole = mean_after("micro_batch=8");
  CHECK(difference(mean_after("micro_batch=1"), whole) < 1e-14);
  CHECK(difference(mean_after("dp=2 micro_batch=1"), whole) < 1e-14);
  // They start at 0 and move a tenth of the way to a mean.
  CHECK(std::abs(whole[0]) > 1e-4);
}

TEST_CASE("wide and deep trains alike under every strategy") {
  check_strategies(case_of(WideDeepConfig{.name = "tiny-wide-deep",
                                          .wide_fields = 2,
                                          .wide_vocab = 11,
                                          .deep_fields = 3,
                                          .deep_vocab = 23,
                                          .embedding = 3,
                                          .dense = 5,
                                          .hidden = {7, 5, 3},
                                          .initializer_range = 0.3}),
                   "micro_batch=8",
                   {"dp=4 micro_batch=1", "tp=2 micro_batch=4", "dp=2 tp=2 micro_batch=2 zero=1",
                    "dp=2 pp=2 micro_batch=1 schedule=1f1b"});
}

TEST_CASE("a classifier split by classes trains alike, also by a pin on data-parallel ranks") {
  check_strategies(
      case_of(ClassHeadConfig{.name = "tiny-classifier",
                              .features = 5,
                              .hidden = {7, 3},
                              .classes = 13,
                              .initializer_range = 0.3}),
      "micro_batch=8",
      {"dp=2 micro_batch=2", "tp=4 micro_batch=4", "dp=4 micro_batch=1 pin=head.weight:(S(1),B)",
       "dp=2 pp=2 micro_batch=2 schedule=gpipe zero=1"});
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
}  // namespace sextant::model_training_test
