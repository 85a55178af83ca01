// Whole plans of 2 to 8 ranks on one GPU or two: every strategy trains as it does on CPU ranks, and
// copies of one value have equal bits on all ranks.
#include "actor/runtime.h"
#include "core/base/error.h"
#include "io/training_host.h"
#include "models/conv_net.h"
#include "tests/conformance/training/law_compare.h"
#include "tests/conformance/training/training_runs.h"
#include "tests/cuda/gpu.h"
#include "tests/cuda/ranks/rank_cards.h"

#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace sextant::ranks_training_test {
namespace {

constexpr std::uint64_t kSeed = 17;

TrainingResult train_on_cpu(const TrainingCase& training, const PhysicalGraph& graph) {
  return train(training, graph, seeded_cpu(CpuQueueKind::kAsynchronous));
}

std::int64_t sum_of(const std::vector<PairBytes>& pairs) {
  std::int64_t bytes = 0;
  for (const PairBytes& pair : pairs) bytes += pair.bytes.value;
  return bytes;
}

void check_alike(const TrainingCase& training, std::initializer_list<const char*> strategies,
                 const RankCards& cards = kOneCard, const RankTraining& options = {}) {
  for (const std::string strategy : strategies) {
    CAPTURE(cards.text());
    CAPTURE(strategy);
    const PhysicalGraph graph = compile_case(training, strategy);
    REQUIRE(graph.ranks.size() > 1);
    const TrainingResult found = train_on_cards(cards, training, graph, options);
    const TrainingResult expected = train_on_cpu(training, graph);
    REQUIRE(expected.losses.size() == static_cast<std::size_t>(training.steps));
    CHECK(std::abs(expected.losses.back() - expected.losses.front()) > 1e-3);
    const Distance far = distance(found, expected);
    CAPTURE(far.where);
    CHECK(far.error < kF64Bound);
    CHECK(sum_of(found.moved) > 0);
  }
}

TrainingCase odd_case() {
  TrainingCase training;
  training.model = odd_gpt();
  return training;
}

}  // namespace

TEST_CASE("data, tensor and sequence parallelism train on ranks of one GPU as on the CPU" *
          doctest::skip(!has_gpu())) {
  check_alike(odd_case(),
              {"dp=2 micro_batch=2", "dp=4 micro_batch=1", "tp=2 micro_batch=4",
               "tp=2 micro_batch=4 sp=on", "dp=2 tp=2 micro_batch=2 sp=on", "dp=8 micro_batch=1"});
}

TEST_CASE("pipelines train on ranks of one GPU as on the CPU" * doctest::skip(!has_gpu())) {
  check_alike(odd_case(), {"pp=2 micro_batch=2 schedule=1f1b", "pp=4 micro_batch=1 schedule=1f1b",
                           "pp=2 micro_batch=2 schedule=zb-h1", "pp=2 micro_batch=2 schedule=zb-v",
                           "dp=2 tp=2 pp=2 micro_batch=1 schedule=1f1b sp=on zero=1"});
}

TEST_CASE("ZeRO trains on ranks of one GPU as on the CPU" * doctest::skip(!has_gpu())) {
  check_alike(odd_case(), {"dp=2 micro_batch=2 zero=1", "dp=4 micro_batch=1 zero=2",
                           "dp=4 micro_batch=1 zero=3", "dp=2 tp=2 pp=2 micro_batch=1 zero=3"});
}

// They lie channels-last, each rank's share as the whole batch would; losses of bf16 are near.
TEST_CASE("images of a share of the batch train on ranks of one GPU as on the CPU" *
          doctest::skip(!has_gpu())) {
  TrainingCase training;
  training.dtype = DType::kBF16;
  training.build = [](std::int64_t samples, DType dtype) {
    return build_graph(ConvNetConfig{.name = "images",
                                     .height = 16,
                                     .width = 16,
                                     .classes = 8,
                                     .stem_channels = 8,
                                     .blocks = {1, 1},
                                     .channels = {8, 16}},
                       samples, dtype);
  };
  const PhysicalGraph graph = compile_case(training, "dp=2 micro_batch=4");
  const TrainingResult found = train_on_cards(kOneCard, training, graph);
  const TrainingResult expected = train_on_cpu(training, graph);
  REQUIRE(found.losses.size() == expected.losses.size());
  for (std::size_t step = 0; step < found.losses.size(); ++step) {
    CAPTURE(step);
    CHECK(found.losses[step] == doctest::Approx(expected.losses[step]).epsilon(0.03));
  }
}

TEST_CASE("context and expert parallelism train on ranks of one GPU as on the CPU" *
          doctest::skip(!has_gpu())) {
  TrainingCase training;
  training.model = tiny_gpt();
  training.sequence = 4;  // a ring divides it
  check_alike(training, {"cp=2 micro_batch=2", "cp=4 micro_batch=1", "cp=2 tp=2 micro_batch=1",
                         "dp=2 cp=2 micro_batch=1 zero=2 cp_mode=a2a"});
  training.model = tiny_llama();
  training.sequence = 5;
  training.model.layers = 2;
  training.model.experts = 4;
  training.model.top_k = 2;
  training.model.capacity_factor = 0.8;
  check_alike(training, {"dp=2 ep=2 micro_batch=2", "dp=4 ep=2 micro_batch=1",
                         "dp=2 ep=2 tp=2 micro_batch=2"});
}

namespace {

void check_bad_data(const RankCards& cards, std::initializer_list<const char*> strategies,
                    bool graphs = false) {
  // Ids of no token for one rank, in step 3.
  class BadTokens final : public HostActors {
   public:
    explicit BadTokens(const TokenData& tokens) : good_(tokens, 5) {}
    void act(const HostAct& act) override {
      good_.act(act);
      if (act.actor->name != "tokens" || act.step != 3 || act.rank != Rank(1)) return;
      const std::int32_t bad = 1 << 20;
      std::memcpy(act.outputs[0].data(), &bad, sizeof(bad));
    }

   private:
    TrainingHost good_;
  };
  TrainingCase training = odd_case();
  const TokenData tokens(std::vector<std::int32_t>(400, 3));
  for (const std::string strategy : strategies) {
    CAPTURE(cards.text());
    CAPTURE(strategy);
    const PhysicalGraph graph = compile_case(training, strategy);
    CudaWorldOptions options = cards.options(graph.ranks.size());
    options.graphs_of_several = graphs;
    CudaWorld world(graph, options);
    BadTokens host(tokens);
    const auto begin = std::chrono::steady_clock::now();
    try {
      run_all(graph, world.devices(), host, 50);
      FAIL("no error");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::kBadInput);
      CHECK_MESSAGE(std::string(error.what()).find("embedding") != std::string::npos, error.what());
    }
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));
  }
}

}  // namespace

TEST_CASE("bad data on one rank of several ends all of them, naming the operator" *
          doctest::skip(!has_gpu())) {
  check_bad_data(kOneCard, {"dp=2 micro_batch=2", "dp=2 tp=2 micro_batch=2"});
}

TEST_CASE("bad data on one of two GPUs ends both, launched singly or as graphs" *
          doctest::skip(!has_gpus(2))) {
  for (const bool graphs : {false, true})
    check_bad_data(kTwoCardsNccl, {"dp=2 micro_batch=2"}, graphs);
  check_bad_data(kTwoCards, {"dp=2 tp=2 micro_batch=2"});
}

TEST_CASE("every strategy of two ranks trains on two GPUs as on the CPU, by both exchanges" *
          doctest::skip(!has_gpus(2))) {
  for (const RankCards& cards : {kTwoCardsNccl, kTwoCards})
    check_alike(odd_case(),
                {"dp=2 micro_batch=2", "tp=2 micro_batch=4", "tp=2 micro_batch=4 sp=on",
                 "pp=2 micro_batch=2 schedule=1f1b", "pp=2 micro_batch=2 schedule=zb-h1",
                 "pp=2 micro_batch=2 schedule=zb-v", "dp=2 micro_batch=2 zero=1",
                 "dp=2 micro_batch=2 zero=2", "dp=2 micro_batch=2 zero=3"},
                cards);
  check_alike(odd_case(), {"dp=2 tp=2 pp=2 micro_batch=1 zero=3"}, kTwoCards);
}

// From the third step on; the case has enough.
TEST_CASE("steps of two GPUs as graphs train as on the CPU, and leave the bits of single launches" *
          doctest::skip(!has_gpus(2))) {
  TrainingCase training = odd_case();
  training.steps = 8;
  for (const std::string strategy :
       {"dp=2 micro_batch=2 zero=2", "tp=2 micro_batch=4 sp=on", "pp=2 micro_batch=2 schedule=1f1b",
        "pp=2 micro_batch=2 schedule=zb-v"}) {
    CAPTURE(strategy);
    const PhysicalGraph graph = compile_case(training, strategy);
    const TrainingResult single =
        train_on_cards(kTwoCardsNccl, training, graph, {.deterministic = true});
    const TrainingResult replayed =
        train_on_cards(kTwoCardsNccl, training, graph, {.deterministic = true, .graphs = true});
    CHECK(single.losses == replayed.losses);
    CHECK(single.state == replayed.state);
    const Distance far = distance(replayed, train_on_cpu(training, graph));
    CAPTURE(far.where);
    CHECK(far.error < kF64Bound);
  }
}

namespace {

// The losses of so many steps with tokens that repeat.
std::vector<double> losses_of(const PhysicalGraph& graph, std::int64_t steps, bool graphs) {
  CudaWorldOptions options = kTwoCardsNccl.options(2);
  options.each.seed = kSeed;
  options.graphs_of_several = graphs;
  CudaWorld world(graph, options);
  std::vector<std::int32_t> ids;
  for (std::int32_t i = 0; i < 4000; ++i) ids.push_back(i * i % 31);
  const TokenData tokens(std::move(ids));
  TrainingHost host(tokens, 5);
  run_all(graph, world.devices(), host, steps);
  std::vector<double> losses;
  for (const StepMetrics& metrics : host.steps()) losses.push_back(metrics.loss());
  return losses;
}

// SEXTANT_SOAK=200 takes minutes: starts of every strategy, and as many times 50 replays.
std::int64_t soak_starts() {
  const char* text = std::getenv("SEXTANT_SOAK");
  return text == nullptr ? 5 : std::atoll(text);
}

}  // namespace

TEST_CASE("two GPUs start again and again, and replay for long, without a hang" *
          doctest::skip(!has_gpus(2))) {
  std::vector<PhysicalGraph> graphs;
  for (const std::string strategy :
       {"dp=2 micro_batch=2", "dp=2 micro_batch=2 zero=3", "tp=2 micro_batch=4 sp=on",
        "pp=2 micro_batch=2 schedule=1f1b", "pp=2 micro_batch=2 schedule=zb-v"})
    graphs.push_back(compile_case(odd_case(), strategy));
  std::vector<std::vector<double>> first;
  for (std::int64_t start = 0; start < soak_starts(); ++start) {
    const auto kind = static_cast<std::size_t>(start) % graphs.size();
    CAPTURE(start);
    const std::vector<double> losses = losses_of(graphs[kind], 20, start % 2 == 0);
    REQUIRE(losses.size() == 20);
    if (first.size() == kind) first.push_back(losses);
    for (std::size_t step = 0; step < losses.size(); ++step)
      CHECK(std::abs(losses[step] - first[kind][step]) < kF64Bound);
  }
  for (const PhysicalGraph& graph : graphs) {
    const std::int64_t steps = 50 * soak_starts();
    CHECK(losses_of(graph, steps, true).size() == static_cast<std::size_t>(steps));
  }
}

TEST_CASE("with deterministic, two runs of several ranks on one GPU leave the same bits" *
          doctest::skip(!has_gpu())) {
  TrainingCase training = odd_case();
  training.dtype = DType::kBF16;
  for (const std::string strategy : {"dp=4 micro_batch=1 zero=2", "dp=2 tp=2 micro_batch=2 sp=on",
                                     "pp=2 micro_batch=1 schedule=1f1b"}) {
    CAPTURE(strategy);
    const PhysicalGraph graph = compile_case(training, strategy);
    const TrainingResult first = train_on_cards(kOneCard, training, graph, {.deterministic = true});
    const TrainingResult second =
        train_on_cards(kOneCard, training, graph, {.deterministic = true});
    CHECK(first.losses == second.losses);
    CHECK(first.state == second.state);
  }
}

}  // namespace sextant::ranks_training_test
