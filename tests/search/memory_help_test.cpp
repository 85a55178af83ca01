// Remedies that are not compiled against those that are, and strategies that share boxing plans
// against strategies that do not.
#include "search/search/memory_help.h"

#include "compiler/training/training_graph.h"
#include "core/base/error.h"
#include "models/model.h"
#include "search/search/search.h"
#include "simulator/cluster_files/cluster_file.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace sextant::memory_help_test {
namespace {

struct Instance {
  ModelConfig model;
  Cluster cluster = load_cluster("dgx-h100:nodes=1");
  std::int64_t global_batch = 16;
  explicit Instance(const char* family = "gpt2-124m") : model(load_model(family)) {
    model.layers = 4;
    model.hidden = 64;
    model.heads = model.kv_heads = 8;
    model.head_size = 8;
    model.ffn = 256;
    model.vocab = 384;
    model.sequence = 32;
    cluster.device.library_memory = {};
  }
};

SearchProblem problem_of(const Instance& instance) {
  SearchProblem problem;
  const ModelConfig model = instance.model;
  problem.training_graph = [model](const Strategy& strategy) {
    return make_training_graph(
        build_graph(model, strategy.dp * strategy.micro_batch, model.sequence, DType::kBF16),
        strategy);
  };
  problem.global_batch = instance.global_batch;
  problem.cluster = &instance.cluster;
  problem.compute_dtype = DType::kBF16;
  return problem;
}

const std::vector<std::string>& strategies() {
  static const std::vector<std::string> texts = {
      "dp=8 micro_batch=1 schedule=gpipe",
      "dp=4 tp=2 micro_batch=2 sp=on",
      "dp=2 tp=2 pp=2 micro_batch=1 zero=1",
      "dp=4 pp=2 micro_batch=2 schedule=gpipe",
  };
  return texts;
}

const MemoryRemedy* find(const std::vector<MemoryRemedy>& remedies, const std::string& change) {
  const auto found =
      std::find_if(remedies.begin(), remedies.end(),
                   [&](const MemoryRemedy& remedy) { return remedy.change == change; });
  return found == remedies.end() ? nullptr : &*found;
}

}  // namespace

TEST_CASE("what is said of a remedy that was not compiled is true when it is") {
  const Instance instance;
  const SearchProblem problem = problem_of(instance);
  const SearchModels models = make_search_models(problem);
  int bounded = 0, too_large = 0;
  for (const std::string& text : strategies()) {
    CAPTURE(text);
    const Strategy strategy = parse_strategy(text);
    const Bytes peak =
        evaluate_strategy(problem.training_graph(strategy), strategy, instance.global_batch, models)
            .needed_memory;
    // Devices of several sizes, so that some remedies fit, some do not, and some cannot.
    for (const std::int64_t percent : {30, 80}) {
      Instance small = instance;
      small.cluster.device.memory = Bytes(peak.value * percent / 100);
      const SearchProblem tight = problem_of(small);
      const SearchModels tight_models = make_search_models(tight);
      const auto help = [&](std::int64_t acts) {
        return memory_remedies(tight, strategy, tight_models, peak, small.cluster.device.memory,
                               acts);
      };
      const std::vector<MemoryRemedy> all = help(1'000'000'000), few = help(0);
      CHECK(std::all_of(all.begin(), all.end(),
                        [](const MemoryRemedy& remedy) { return remedy.is_compiled; }));
      CHECK(std::count_if(few.begin(), few.end(), [](const MemoryRemedy& remedy) {
              return remedy.is_compiled;
            }) == (all.empty() ? 0 : 1));
      for (const MemoryRemedy& remedy : all) {
        CHECK(remedy.peak < peak);
        CHECK((remedy.known == MemoryRemedy::Known::kFits) ==
              (remedy.peak <= small.cluster.device.memory));
        CHECK(find(few, remedy.change) != nullptr);
      }
      for (const MemoryRemedy& remedy : few) {
        const MemoryRemedy* compiled = find(all, remedy.change);
        if (remedy.is_compiled) {
          REQUIRE(compiled != nullptr);
          CHECK(compiled->peak == remedy.peak);
          CHECK(compiled->known == remedy.known);
          continue;
        }
        ++bounded;
        CHECK(remedy.known != MemoryRemedy::Known::kFits);
        if (compiled == nullptr) continue;  // no smaller after all
        CHECK(remedy.peak <= compiled->peak);
        if (remedy.known != MemoryRemedy::Known::kTooLarge) continue;
        ++too_large;
        CHECK(compiled->known == MemoryRemedy::Known::kTooLarge);
      }
    }
  }
  CHECK(bounded > 0);
  CHECK(too_large > 0);
}

TEST_CASE("fewer replicas hold the experts of a remedy that divides the replicas") {
  const Instance instance("mixtral-8x7b");
  const SearchProblem problem = problem_of(instance);
  const SearchModels models = make_search_models(problem);
  for (const char* text : {"dp=2 micro_batch=1 ep=2", "dp=2 micro_batch=1 ep=2 zero=1",
                           "dp=4 pp=2 micro_batch=1 ep=4 zero=2"}) {
    CAPTURE(text);
    const std::vector<MemoryRemedy> remedies = memory_remedies(
        problem, parse_strategy(text), models, instance.cluster.device.memory, Bytes(1));
    int divided = 0;
    for (const MemoryRemedy& remedy : remedies) {
      CAPTURE(remedy.change);
      CHECK_NOTHROW(parse_strategy(to_string(remedy.strategy)));
      if (remedy.strategy.dp < parse_strategy(text).dp) {
        ++divided;
        CHECK(remedy.change.find("ep=") != std::string::npos);
      }
    }
    CHECK(divided > 0);
  }
}

TEST_CASE("texts tell what was compiled from what was not") {
  const auto remedy = [](MemoryRemedy::Known known, bool compiled, std::int64_t gib) {
    return MemoryRemedy{.strategy = {},
                        .change = "zero=3",
                        .known = known,
                        .is_compiled = compiled,
                        .peak = Bytes(gib << 30)};
  };
  using Known = MemoryRemedy::Known;
  const std::vector<std::string> texts =
      remedy_texts({remedy(Known::kFits, true, 2), remedy(Known::kMayFit, false, 1),
                    remedy(Known::kTooLarge, true, 5), remedy(Known::kTooLarge, false, 6)},
                   Bytes(std::int64_t{8} << 30));
  CHECK(texts == std::vector<std::string>{
                     "zero=3 needs 2.00 GiB, which fits",
                     "zero=3 needs at least 1.00 GiB and may be enough: it was not tried",
                     "zero=3 needs 5.00 GiB: 3.00 GiB less, not enough alone",
                     "zero=3 needs at least 6.00 GiB, not enough alone"});
}

TEST_CASE("strategies that share boxing plans are compiled as each alone") {
  const Instance instance;
  const SearchProblem problem = problem_of(instance);
  const SearchModels shared = make_search_models(problem);
  REQUIRE(shared.boxing != nullptr);
  std::size_t alone_plans = 0;
  for (int round = 0; round < 2; ++round)
    for (const std::string& text : strategies()) {
      CAPTURE(text);
      const Strategy strategy = parse_strategy(text);
      const LogicalGraph training = problem.training_graph(strategy);
      const SearchModels own = make_search_models(problem);
      const Candidate a = evaluate_strategy(training, strategy, instance.global_batch, shared);
      const Candidate b = evaluate_strategy(training, strategy, instance.global_batch, own);
      CHECK(a.step_time == b.step_time);
      CHECK(a.needed_memory == b.needed_memory);
      CHECK(a.memory_by_class == b.memory_by_class);
      alone_plans += own.boxing->chosen.size();
    }
  CHECK(shared.boxing->chosen.size() * 2 <= alone_plans);
}

}  // namespace sextant::memory_help_test
