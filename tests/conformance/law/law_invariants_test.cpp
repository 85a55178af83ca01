// What the numerics law implies bit by bit: choices that move work in time or in space, but leave
// every sum as it is, change nothing at all.
#include "tests/conformance/law/law_generator.h"
#include "tests/conformance/law/law_models.h"
#include "tests/conformance/law/law_runner.h"
#include "tests/conformance/training/law_compare.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace sextant::law_invariants_test {
namespace {

constexpr std::uint64_t kSeed = 2;

bool is_equal(const TrainingResult& a, const TrainingResult& b) {
  return a.losses == b.losses && a.state == b.state;
}

TrainingResult run(const LawPlan& plan) {
  return train(training_case(plan), to_string(plan.strategy), cpu_options(plan),
               expand_options(plan));
}

// Plans without pins, which are legal, with the wanted property.
template <typename IsWanted>
std::vector<LawPlan> plans_where(std::size_t count, const IsWanted& is_wanted) {
  std::vector<LawPlan> plans;
  for (std::uint64_t index = 0; plans.size() < count; ++index) {
    REQUIRE(index < 10'000);
    LawPlan plan = draw_plan(kSeed, index);
    if (!plan.strategy.pins.empty() || !is_wanted(plan)) continue;
    plan.steps = 3;
    plans.push_back(plan);
  }
  return plans;
}

TEST_CASE("queues, slots, launch groups and buckets change no bit of a random plan") {
  for (const LawPlan& plan :
       plans_where(12, [](const LawPlan& plan) { return plan.strategy.ranks() > 1; })) {
    CAPTURE(to_line(plan));
    LawPlan other = plan;
    other.queues =
        plan.queues == CpuQueueKind::kStress ? CpuQueueKind::kInline : CpuQueueKind::kStress;
    other.options.launch_groups = !plan.options.launch_groups;
    other.options.plan_memory = !plan.options.plan_memory;
    other.options.in_place = !plan.options.in_place;
    other.options.symmetric = !plan.options.symmetric;
    other.options.slot_lifetime = plan.options.slot_lifetime == SlotLifetime::kModelled
                                      ? SlotLifetime::kIssueOrder
                                      : SlotLifetime::kModelled;
    other.options.transfer_order = plan.options.transfer_order == TransferOrder::kEarly
                                       ? TransferOrder::kLate
                                       : TransferOrder::kEarly;
    other.buckets = plan.buckets == "off" ? "large" : "off";
    CHECK(is_equal(run(other), run(plan)));
  }
}

TEST_CASE("recomputation changes no bit of a random plan") {
  if (!is_available("recompute=full")) {
    MESSAGE("skipped: this version does not recompute");
    return;
  }
  for (const LawPlan& plan : plans_where(
           12, [](const LawPlan& plan) { return plan.strategy.recompute != Recompute(); })) {
    CAPTURE(to_line(plan));
    LawPlan kept = plan;
    kept.strategy.recompute = {};
    CHECK(is_equal(run(kept), run(plan)));
  }
}

TEST_CASE("which device does the work of which rank changes no bit of a random plan") {
  for (const LawPlan& plan :
       plans_where(8, [](const LawPlan& plan) { return plan.strategy.ranks() > 3; })) {
    CAPTURE(to_line(plan));
    // Neighbours part: 0, 3, 6, 1, ... where 3 does not divide the number of ranks.
    const std::int64_t ranks = plan.strategy.ranks();
    const std::int64_t stride = ranks % 3 == 0 ? ranks - 1 : 3;
    std::vector<Rank> devices;
    for (std::int64_t rank = 0; rank < ranks; ++rank)
      devices.push_back(Rank(static_cast<std::int32_t>(rank * stride % ranks)));
    const TrainingCase training = training_case(plan);
    const PhysicalGraph elsewhere =
        compile_case_on(devices, training, to_string(plan.strategy), expand_options(plan));
    CHECK(is_equal(train(training, elsewhere, cpu_options(plan)), run(plan)));
  }
}

TEST_CASE("how the batch is cut into micro-batches changes sums by no more than rounding") {
  for (const LawPlan& plan : plans_where(8, [](const LawPlan& plan) {
         return plan.dtype == DType::kF64 && plan.strategy.pp == 1 &&
                !law_model(plan.model).depends_on_micro_batch;
       })) {
    const TrainingResult whole = run(plan);
    const std::int64_t replica = plan.global_batch / plan.strategy.dp;
    for (std::int64_t size = 1; size <= replica; ++size) {
      if (replica % size != 0) continue;
      LawPlan cut = plan;
      cut.strategy.micro_batch = size;
      CAPTURE(to_line(cut));
      CHECK(distance(run(cut), whole).error <= law_bound(plan));
    }
  }
}

TEST_CASE("another seed of the weights is another run, and one changed element is seen") {
  LawPlan plan;
  const TrainingResult expected = run(plan);
  LawPlan other = plan;
  other.seed = plan.seed + 1;
  CHECK(distance(run(other), expected).error > 0.01);
  for (const auto& [name, values] : expected.state) {
    if (std::all_of(values.begin(), values.end(), [](double value) { return value == 0; }))
      continue;
    CAPTURE(name);
    TrainingResult changed = expected;
    double& element = changed.state[name].back();
    element = std::nextafter(element, INFINITY);
    CHECK(!is_equal(changed, expected));
    element += 1e-3;
    CHECK(distance(changed, expected).error > law_bound(plan));
    changed.state.erase(name);
    CHECK(std::isinf(distance(changed, expected).error));
  }
}

bool sums(const Actor& actor) {
  return actor.communication && actor.communication->primitive == Primitive::kAllReduce &&
         actor.communication->reduce == ReduceOp::kSum;
}

TEST_CASE("one kind of reduction that takes the largest instead of the sum breaks the law") {
  LawPlan plan;
  plan.strategy = parse_strategy("dp=2 tp=2 micro_batch=2");
  const TrainingCase training = training_case(plan);
  const PhysicalGraph graph = compile_case(training, to_string(plan.strategy));
  const TrainingResult expected = train(training, graph, cpu_options(plan));
  std::set<std::string> names;
  for (const Block& block : graph.blocks)
    for (const Actor& actor : block.actors)
      if (sums(actor)) names.insert(actor.name);
  // Softmax does not see it: sum and maximum are both zero, up to rounding.
  CHECK(names.erase("attention.k.biased.grad_weight.all_reduce") == 1);
  CHECK(names.size() > 10);
  for (const std::string& name : names) {
    CAPTURE(name);
    // On every rank, or their fingerprints would differ.
    PhysicalGraph changed = graph;
    for (Block& block : changed.blocks)
      for (Actor& actor : block.actors)
        if (actor.name == name && sums(actor)) actor.communication->reduce = ReduceOp::kMax;
    CHECK(distance(train(training, changed, cpu_options(plan)), expected).error > law_bound(plan));
  }
}

TEST_CASE("the line of a plan says all of it") {
  for (std::uint64_t index = 0; index < 200; ++index) {
    const LawPlan plan = draw_plan(kSeed, index);
    CAPTURE(to_line(plan));
    CHECK(plan_from_line(to_line(plan)) == plan);
  }
}

}  // namespace
}  // namespace sextant::law_invariants_test
