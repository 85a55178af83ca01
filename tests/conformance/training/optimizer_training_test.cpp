// Optimizers, clipping and loss scales through the whole stack: equal to plain formulas on one
// rank, equal to one rank under every strategy, and of one mind on all ranks.
#include "core/base/counter_rng.h"
#include "tests/conformance/training/law_compare.h"
#include "tests/conformance/training/linear_model.h"
#include "tests/conformance/training/optimizer_oracle.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

namespace sextant::optimizer_training_test {
namespace {

using Numbers = std::vector<double>;

constexpr std::uint64_t kSeed = 17;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

CpuOptions cpu_of(CpuQueueKind queues, CpuKernels kernels = CpuKernels::kReference) {
  return seeded_cpu(queues, kernels);
}

TrainingCase linear_case(std::vector<LinearWeight> weights, int layers,
                         const std::string& optimizer, std::int64_t batch, std::int64_t steps) {
  TrainingCase training;
  training.build = linear_model(std::move(weights), layers);
  training.global_batch = batch;
  training.steps = steps;
  training.optimizer = parse_optimizer(optimizer);
  return training;
}

double metric(const LinearRun& run, std::size_t step, const std::string& name) {
  return run.steps.at(step).values.at(name);
}

// --- formulas ------------------------------------------------------------------------------------

// "count" is 1 or 2, so that tokens are not samples; the gradients of step 2 are large.
double drawn(const std::string& name, std::int64_t sample, std::int64_t place) {
  if (name == "count") return static_cast<double>(1 + sample % 2);
  const double scale = sample / 4 == 2 ? 30.0 : 1.0;
  return scale * CounterRng(3, name).normal(static_cast<std::uint64_t>(sample * 64 + place));
}

const std::vector<LinearWeight>& small_weights() {
  static const std::vector<LinearWeight> weights = {
      {.name = "w", .layer = 0, .size = 5},
      {.name = "bias", .layer = 1, .size = 3, .decays = false, .deviation = 0.0},
      {.name = "norm", .layer = 1, .size = 2, .decays = false, .deviation = 0.5},
      {.name = "v", .layer = 1, .size = 4, .deviation = 0.1}};
  return weights;
}

OptimizerOracle oracle_of(const OptimizerOptions& options) {
  OptimizerOracle oracle(options);
  for (const LinearWeight& weight : small_weights()) {
    OracleTensor& tensor = oracle.tensors[weight.name];
    tensor.decays = weight.decays;
    const CounterRng random(kSeed, weight.name);
    for (std::int64_t i = 0; i < weight.size; ++i)
      tensor.p.push_back(weight.deviation > 0
                             ? weight.deviation * random.normal(static_cast<std::uint64_t>(i))
                             : 0.0);
  }
  return oracle;
}

void step_once(OptimizerOracle& oracle, std::int64_t step, std::int64_t batch) {
  std::map<std::string, Numbers> gradients;
  double tokens = 0;
  for (std::int64_t sample = step * batch; sample < (step + 1) * batch; ++sample) {
    tokens += drawn("count", sample, 0);
    for (const LinearWeight& weight : small_weights()) {
      Numbers& gradient = gradients[weight.name];
      gradient.resize(static_cast<std::size_t>(weight.size));
      for (std::int64_t i = 0; i < weight.size; ++i)
        gradient[static_cast<std::size_t>(i)] += drawn("x." + weight.name, sample, i);
    }
  }
  oracle.step(gradients, tokens);
}

void check_near(const Numbers& found, const Numbers& expected, const std::string& name) {
  CAPTURE(name);
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    CHECK(found[i] == doctest::Approx(expected[i]).epsilon(1e-12));
}

const char* const kOptimizers[] = {
    "sgd lr=0.1 decay=0.2",
    "sgd lr=0.1 warmup=3 clip=0.5",
    "momentum lr=0.05 momentum=0.8 decay=0.2 schedule=linear steps=4 min_lr=0.01",
    "momentum lr=0.05 nesterov=on warmup=2 clip=0.3 loss_scale=64",
    "adamw lr=0.05 beta1=0.7 beta2=0.9 eps=0.001 warmup=2 schedule=cosine steps=4 min_lr=0.01",
    "adamw lr=0.05 decay=0.3 clip=0.5 loss_scale=dynamic:1024 scale_interval=2",
    "lamb lr=0.05 beta1=0.7 beta2=0.9 eps=0.001 decay=0.4 clip=2",
    "lamb lr=0.05 warmup=3 schedule=linear steps=5 loss_scale=16"};

TEST_CASE("five steps of every optimizer equal its formulas, schedules and clipping included") {
  constexpr std::int64_t kBatch = 4, kSteps = 5;
  for (const char* text : kOptimizers) {
    CAPTURE(text);
    const TrainingCase training = linear_case(small_weights(), 2, text, kBatch, kSteps);
    OptimizerOracle oracle = oracle_of(training.optimizer);
    const LinearRun run =
        run_linear(training, "micro_batch=2", drawn, cpu_of(CpuQueueKind::kInline));
    bool clipped = false;
    for (std::int64_t step = 0; step < kSteps; ++step) {
      step_once(oracle, step, kBatch);
      clipped = clipped || oracle.last_norm() > training.optimizer.max_gradient_norm;
      const auto& values = run.steps.at(static_cast<std::size_t>(step)).values;
      if (const auto norm = values.find("grad_norm"); norm != values.end())
        CHECK(norm->second == doctest::Approx(oracle.last_norm()).epsilon(1e-12));
    }
    CHECK(clipped);
    for (const auto& [name, tensor] : oracle.tensors) {
      check_near(run.state.at(name), tensor.p, name);
      if (training.optimizer.kind == OptimizerKind::kMomentum)
        check_near(run.state.at(name + ".momentum"), tensor.m, name + ".momentum");
      if (!tensor.v.empty()) check_near(run.state.at(name + ".m"), tensor.m, name + ".m");
      if (!tensor.v.empty()) check_near(run.state.at(name + ".v"), tensor.v, name + ".v");
      CHECK(run.state.at(name + ".step") == Numbers{5});
    }
  }
}

TEST_CASE("the loss scale grows after its interval and changes no number that it should not") {
  const char* const text = "adamw lr=0.05 loss_scale=dynamic:1024 scale_interval=2";
  const LinearRun run = run_linear(linear_case(small_weights(), 2, text, 4, 5), "micro_batch=4",
                                   drawn, cpu_of(CpuQueueKind::kInline));
  // Steps 0 and 1 at 1024, then doubled; 2 and 3; doubled again after step 3.
  const double expected[] = {1024, 1024, 2048, 2048, 4096};
  for (std::size_t step = 0; step < 5; ++step)
    CHECK(metric(run, step, "loss_scale") == expected[step]);
  CHECK(run.state.at("loss_scale") == Numbers{4096});
  CHECK(run.state.at("loss_scale:1") == Numbers{1});
  const LinearRun unscaled = run_linear(linear_case(small_weights(), 2, "adamw lr=0.05", 4, 5),
                                        "micro_batch=4", drawn, cpu_of(CpuQueueKind::kInline));
  // Powers of two: equal to the last bit.
  for (const LinearWeight& weight : small_weights())
    CHECK(run.state.at(weight.name) == unscaled.state.at(weight.name));
}

// --- strategies ----------------------------------------------------------------------------------

// Wide enough for ZeRO to shard: 12 x 91 elements and more.
ModelConfig wide_gpt() {
  ModelConfig config = tiny_gpt();
  config.ffn = 91;
  return config;
}

TEST_CASE("every optimizer with clipping trains under every strategy as on one rank") {
  const char* const strategies[] = {"dp=4 micro_batch=1",
                                    "tp=4 micro_batch=4",
                                    "pp=4 micro_batch=2",
                                    "dp=4 micro_batch=2 zero=1",
                                    "dp=2 tp=2 micro_batch=2 zero=1",
                                    "dp=4 micro_batch=1 zero=2",
                                    "dp=2 tp=2 micro_batch=1 zero=3 sp=on",
                                    "pp=2 micro_batch=1 schedule=interleaved virtual=2",
                                    "dp=2 pp=2 micro_batch=1 schedule=zb-v zero=2",
                                    "dp=2 tp=2 pp=2 micro_batch=1 schedule=zb-h1 zero=1"};
  for (const std::string text :
       {"sgd lr=0.3 clip=0.1", "momentum lr=0.1 clip=0.1 nesterov=on",
        "adamw lr=0.02 eps=0.0001 clip=0.1 loss_scale=dynamic:8 scale_interval=1",
        "lamb lr=0.02 eps=0.0001 clip=0.1 warmup=2"}) {
    TrainingCase training;
    training.model = wide_gpt();
    training.optimizer = parse_optimizer(text);
    const CpuOptions cpu = cpu_of(CpuQueueKind::kAsynchronous);
    const TrainingResult expected = train(training, "micro_batch=8", cpu);
    for (const char* strategy : strategies) {
      const Distance far = distance(train(training, strategy, cpu), expected);
      INFO(text << " | " << strategy << ": " << far.where);
      CHECK(far.error < 1e-10);
    }
  }
}

TEST_CASE("clipping changes what is trained, and less than everything") {
  TrainingCase training;
  training.model = tiny_gpt();
  training.optimizer = parse_optimizer("sgd lr=0.3 clip=0.1");
  const CpuOptions cpu = cpu_of(CpuQueueKind::kInline);
  const TrainingResult clipped = train(training, "micro_batch=8", cpu);
  training.optimizer = parse_optimizer("sgd lr=0.3");
  CHECK(distance(train(training, "micro_batch=8", cpu), clipped).error > 1e-3);
  training.optimizer = parse_optimizer("sgd lr=0.3 clip=1000000");
  const TrainingResult loose = train(training, "micro_batch=8", cpu);
  training.optimizer = parse_optimizer("sgd lr=0.3");
  CHECK(distance(train(training, "micro_batch=8", cpu), loose).error == 0);
}

// --- acceptance ----------------------------------------------------------------------------------

// Two rounds of four micro-batches through a pipeline, each with gradient 2 and one token. Scaling
// the running sum after each round gave (8 / 4 + 8) / 4 = 2.5.
TEST_CASE("G29: the mean over all micro-batches is 2, formed once at the end") {
  const auto twos = [](const std::string& name, std::int64_t, std::int64_t) {
    return name == "count" ? 1.0 : 2.0;
  };
  for (const char* strategy : {"pp=4 micro_batch=1", "pp=4 micro_batch=1 schedule=gpipe",
                               "dp=2 pp=2 micro_batch=1 schedule=zb-h1"}) {
    const LinearRun run = run_linear(linear_case({{.name = "w", .layer = 1, .deviation = 0.0}}, 6,
                                                 "sgd lr=1 decay=0 clip=100", 8, 1),
                                     strategy, twos, cpu_of(CpuQueueKind::kAsynchronous));
    CHECK(run.state.at("w") == Numbers{-2.0});
    CHECK(metric(run, 0, "grad_norm") == 2.0);
  }
}

// A replicated weight with gradient 3, one split over all ranks with norm 4: 3^2 + 16 x 1^2 = 5^2.
TEST_CASE("G30: a replicated weight counts once in the norm, whatever holds it") {
  const auto value = [](const std::string& name, std::int64_t, std::int64_t) {
    return name == "x.replicated" ? 3.0 : 1.0;
  };
  const std::vector<LinearWeight> weights = {
      {.name = "replicated", .layer = 0},
      {.name = "split", .layer = 1, .size = 16, .tensor_parallel_dim = 0}};
  for (const char* strategy :
       {"tp=8 micro_batch=8", "dp=8 micro_batch=1", "dp=2 tp=4 micro_batch=4",
        "dp=2 tp=2 pp=2 micro_batch=2 zero=1", "micro_batch=8"}) {
    CAPTURE(strategy);
    const LinearRun run = run_linear(linear_case(weights, 4, "sgd lr=1 clip=2.5 decay=0", 8, 1),
                                     strategy, value, cpu_of(CpuQueueKind::kAsynchronous));
    CHECK(metric(run, 0, "grad_norm") == 5.0);  // not 9.380832, with the replicated one eight times
    // Clipped to half: 3 -> 1.5.
    const double before = CounterRng(kSeed, "replicated").normal(0);
    CHECK(run.state.at("replicated")[0] == doctest::Approx(before - 1.5).epsilon(1e-14));
  }
}

// Each rank's own sum holds hundreds everywhere, which cancel: what is left after reduce-scatter is
// 3 in one half and 4 in the other. A norm that looked at anything but owned shards would see them.
TEST_CASE("G31: the norm of sharded gradients is that of the owned elements") {
  constexpr std::int64_t kSize = 1027;  // uneven over 2 and over 4
  const auto value = [](const std::string& name, std::int64_t sample, std::int64_t place) {
    if (name == "count") return 0.25;
    const double poison = sample % 2 == 0 ? 100.0 : -100.0;
    const bool is_first = sample % 4 == 0;
    if (place == 0 && is_first) return poison + 3.0;
    if (place == kSize - 1 && is_first) return poison + 4.0;
    return poison;
  };
  for (const char* strategy : {"dp=2 micro_batch=2 zero=1", "dp=4 micro_batch=1 zero=1",
                               "dp=2 tp=2 micro_batch=1 zero=1", "dp=2 micro_batch=1 zero=0"}) {
    CAPTURE(strategy);
    for (const CpuQueueKind queues : {CpuQueueKind::kInline, CpuQueueKind::kStress}) {
      const LinearRun run = run_linear(
          linear_case({{.name = "w", .layer = 0, .size = kSize, .tensor_parallel_dim = 0}}, 1,
                      "adamw clip=1", 4, 2),
          strategy, value, cpu_of(queues));
      CHECK(metric(run, 0, "grad_norm") == 5.0);
      CHECK(metric(run, 1, "grad_norm") == 5.0);
    }
  }
}

// --- G32 -----------------------------------------------------------------------------------------

struct Overflow {
  const char* strategy;
  const char* input;    // where the bad number is
  std::int64_t sample;  // of step 1
  std::int64_t place;
};

// Of step 1, the second of three.
InputValue with_overflow(const Overflow& overflow, std::int64_t batch, double bad) {
  return [=](const std::string& name, std::int64_t sample, std::int64_t place) {
    if (name == overflow.input && sample == batch + overflow.sample && place == overflow.place)
      return bad;
    return drawn(name, sample, place);
  };
}

const std::vector<LinearWeight>& staged_weights() {
  static const std::vector<LinearWeight> weights = {
      {.name = "first", .layer = 0, .size = 6},
      {.name = "split", .layer = 1, .size = 1030, .tensor_parallel_dim = 0},
      {.name = "last", .layer = 3, .size = 6}};
  return weights;
}

void check_skipped_step(const Overflow& overflow, const std::string& optimizer, double bad) {
  constexpr std::int64_t kBatch = 4;
  const std::string text = optimizer + " lr=0.01 loss_scale=dynamic:8";
  const InputValue value = with_overflow(overflow, kBatch, bad);
  const auto run = [&](std::int64_t steps) {
    return run_linear(linear_case(staged_weights(), 4, text, kBatch, steps), overflow.strategy,
                      value, cpu_of(CpuQueueKind::kAsynchronous));
  };
  const LinearRun before = run(1), skipped = run(2), after = run(3);
  CHECK(metric(skipped, 1, "grad_norm") == kInfinity);
  CHECK(metric(skipped, 1, "loss_scale") == 8);
  // collect_state refuses ranks that hold different bits of one tensor: 4 is 4 everywhere.
  CHECK(skipped.state.at("loss_scale") == Numbers{4});
  CHECK(skipped.state.at("loss_scale:1") == Numbers{0});
  CHECK(before.state.size() == skipped.state.size());
  for (const auto& [name, values] : before.state)
    if (!name.starts_with("loss_scale") && !name.ends_with(".direction"))
      CHECK_MESSAGE(skipped.state.at(name) == values, name);
  // The next step is an update again, the second.
  CHECK(metric(after, 2, "loss_scale") == 4);
  CHECK(after.state.at("first.step") == Numbers{2});
  CHECK(after.state.at("last") != skipped.state.at("last"));
}

TEST_CASE("G32: an overflow on one rank, one stage or one tensor-parallel part skips everywhere") {
  const Overflow overflows[] = {
      {"dp=2 micro_batch=1", "x.first", 3, 2},                    // the other replica has none
      {"dp=4 micro_batch=1 zero=1", "x.split", 0, 1029},          // one shard of four
      {"pp=2 micro_batch=1", "x.first", 1, 0},                    // the first stage
      {"pp=2 micro_batch=1 schedule=zb-h1", "x.last", 2, 5},      // the last stage
      {"tp=2 micro_batch=2", "x.split", 0, 3},                    // one half
      {"dp=2 tp=2 pp=2 micro_batch=1 zero=1", "x.split", 2, 600}  // all at once
  };
  for (const Overflow& overflow : overflows)
    for (const char* optimizer : {"adamw", "lamb", "momentum", "sgd"})
      for (const double bad : {kInfinity, std::nan("")}) {
        INFO(overflow.strategy << " | " << overflow.input << " | " << optimizer << " | " << bad);
        check_skipped_step(overflow, optimizer, bad);
      }
}

TEST_CASE("without a loss scale an overflow is skipped where gradients are clipped, else trained") {
  const Overflow overflow{"dp=2 micro_batch=2", "x.first", 3, 2};
  const auto weight = [&](const std::string& optimizer) {
    return run_linear(linear_case(staged_weights(), 4, optimizer, 4, 2), overflow.strategy,
                      with_overflow(overflow, 4, kInfinity), cpu_of(CpuQueueKind::kInline))
        .state.at("first")[2];
  };
  CHECK(std::isfinite(weight("sgd clip=1")));
  CHECK(std::isfinite(weight("sgd loss_scale=2")));
  CHECK(!std::isfinite(weight("sgd")));
}

// --- mixed precision -----------------------------------------------------------------------------

double last_losses(const TrainingResult& result) {
  return std::accumulate(result.losses.end() - 3, result.losses.end(), 0.0) / 3;
}

TEST_CASE("bf16 and f16 with f32 masters learn what f32 learns, under every way to split them") {
  TrainingCase training;
  training.model = wide_gpt();
  training.global_batch = 16;
  training.steps = 15;
  const CpuOptions cpu = cpu_of(CpuQueueKind::kAsynchronous);
  training.dtype = DType::kF32;
  training.optimizer = parse_optimizer("adamw lr=0.02 clip=1");
  const TrainingResult exact = train(training, "micro_batch=16", cpu);
  CHECK(last_losses(exact) < 0.9 * exact.losses.front());
  for (const DType dtype : {DType::kBF16, DType::kF16})
    // With the usual 65,536 the first steps in f16 overflow and are skipped.
    for (const char* optimizer : {"adamw lr=0.02 clip=1 loss_scale=dynamic:256",
                                  "adamw lr=0.02 clip=1 loss_scale=256 gradients=compute"})
      for (const char* strategy : {"micro_batch=16", "dp=2 tp=2 pp=2 micro_batch=4 zero=1"}) {
        training.dtype = dtype;
        training.optimizer = parse_optimizer(optimizer);
        const TrainingResult result = train(training, strategy, cpu);
        INFO(to_string(dtype) << " | " << optimizer << " | " << strategy);
        // 8 bits of mantissa: losses to a per cent, over a few steps.
        CHECK(result.losses.front() == doctest::Approx(exact.losses.front()).epsilon(0.01));
        CHECK(last_losses(result) == doctest::Approx(last_losses(exact)).epsilon(0.05));
      }
}

TEST_CASE(
    "f16 has a dynamic loss scale without being told, and skips until it fits; bf16 has none") {
  TrainingCase training;
  training.model = tiny_gpt();
  training.optimizer = parse_optimizer("adamw lr=0.02");
  training.dtype = DType::kF16;
  training.steps = 6;
  const CpuOptions cpu = cpu_of(CpuQueueKind::kInline);
  const TrainingResult half = train(training, "micro_batch=8", cpu);
  CHECK(half.state.at("loss_scale")[0] < 65536);
  CHECK(half.state.at("loss_scale")[0] >= 1024);
  const double updates = half.state.at("final.norm.weight.step")[0];
  CHECK(half.state.at("loss_scale")[0] == 65536 * std::pow(0.5, 6 - updates));
  CHECK(updates > 0);
  training.dtype = DType::kBF16;
  CHECK(train(training, "micro_batch=8", cpu).state.count("loss_scale") == 0);
}

TEST_CASE("f16 gradients that vanish without a loss scale arrive with one") {
  TrainingCase training;
  training.model = tiny_gpt();
  training.model.initializer_range = 0.001;
  training.dtype = DType::kF16;
  training.steps = 1;
  const auto zeros = [&](const std::string& optimizer) {
    training.optimizer = parse_optimizer(optimizer);
    const TrainingResult result = train(training, "micro_batch=8", cpu_of(CpuQueueKind::kInline));
    const Numbers& m = result.state.at("layer1.attention.q.weight.m");
    return std::count(m.begin(), m.end(), 0.0);
  };
  CHECK(zeros("adamw loss_scale=none") > zeros("adamw loss_scale=1024"));
}

}  // namespace
}  // namespace sextant::optimizer_training_test
