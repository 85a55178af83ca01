// The text form of physical graphs on what the compiler makes: random plans of every family, and
// built-in models of every architecture in their own size.
#include "compiler/expand/expand.h"
#include "compiler/training/training_graph.h"
#include "core/base/check.h"
#include "core/graphs/physical_graph_text.h"
#include "models/any_model.h"
#include "simulator/cluster_files/cluster_file.h"
#include "simulator/costs/models.h"
#include "tests/conformance/law/law_generator.h"
#include "tests/conformance/law/law_models.h"
#include "tests/conformance/law/law_runner.h"
#include "tests/conformance/training/training_runs.h"
#include "tests/support/long_run.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>

namespace sextant::graph_text_test {
namespace {

constexpr std::uint64_t kSeed = 11;

void check_text(const PhysicalGraph& graph) {
  const std::string text = to_text(graph);
  const PhysicalGraph again = physical_graph_from_text(text);
  CHECK(again == graph);
  CHECK(to_text(again) == text);
}

// What a refused plan is refused for is not this test's.
bool check_plan(const LawPlan& plan) {
  try {
    check_text(compile_case(training_case(plan), to_string(plan.strategy), expand_options(plan)));
    return true;
  } catch (const Error&) {
    return false;
  }
}

TEST_CASE("the graph of a random plan comes back from its text unchanged") {
  const std::uint64_t count = is_long_run() ? 4000 : 200;
  std::set<std::string> models;
  std::uint64_t compiled = 0;
  for (std::uint64_t index = 0; index < count; ++index) {
    const LawPlan plan = draw_plan(kSeed, index);
    CAPTURE(to_line(plan));
    if (!check_plan(plan)) continue;
    models.insert(plan.model);
    ++compiled;
  }
  CHECK(compiled > count * 9 / 10);
  CHECK(models.size() == law_models().size());
}

struct BuiltIn {
  const char* model;
  const char* strategy;
  std::int64_t sequence, global_batch;
};

TEST_CASE("the graph of a built-in model comes back from its text unchanged") {
  const Cluster cluster = load_cluster("dgx-h100:nodes=4");
  const auto cost = make_cost_model(cluster, DType::kBF16);
  const auto network = make_network_model(cluster);
  for (const BuiltIn& one :
       {BuiltIn{"llama2-7b", "dp=2 tp=4 pp=4 schedule=interleaved virtual=2", 4096, 32},
        BuiltIn{"gpt2-124m", "dp=4 tp=1 pp=2 zero=2 schedule=zb-h1", 1024, 32},
        BuiltIn{"mixtral-8x7b", "dp=4 tp=2 pp=4 ep=4 zero=1", 1024, 16},
        BuiltIn{"resnet50", "dp=8", 1, 64}, BuiltIn{"wide-deep", "dp=4", 1, 64},
        BuiltIn{"class-head-1m", "dp=2 tp=4", 1, 64}}) {
    CAPTURE(std::string(one.model));
    const AnyModel model = load_any_model(one.model);
    const Strategy strategy = parse_strategy(one.strategy);
    const std::int64_t samples = strategy.dp * strategy.micro_batch;
    const LogicalGraph training = make_training_graph(
        build_graph(model, samples, one.sequence, own_dtype(model).value_or(DType::kBF16)),
        strategy);
    check_text(compile(training, strategy, one.global_batch, *cost, *network));
  }
}

}  // namespace
}  // namespace sextant::graph_text_test
