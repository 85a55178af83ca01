// Timed mode on compiled plans of real architectures: equal to the stepped actors where no link is
// shared, never earlier than the tape where some is, folded as unfolded, and nothing gets lost.

#include "compiler/expand/expand.h"
#include "compiler/training/training_graph.h"
#include "models/any_model.h"
#include "simulator/cluster_files/cluster_file.h"
#include "simulator/costs/models.h"
#include "simulator/costs/ranked_costs.h"
#include "simulator/links/flow_model.h"
#include "simulator/modes/simulate.h"
#include "simulator/reports/link_use.h"
#include "simulator/reports/step_path.h"
#include "simulator/steps/step_parts.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace sextant::timed_plans_test {
namespace {

// The links of another model, so wide that nothing ever fills one.
class WideLinks : public NetworkModel {
 public:
  explicit WideLinks(const NetworkModel& base)
      : base_(base), links_(base.links().begin(), base.links().end()) {
    for (SharedLink& link : links_) link.bytes_per_second *= 1e9;
  }
  void complete(const CollectiveCost& cost, std::span<const Time> arrivals,
                std::span<Time> done) const override {
    base_.complete(cost, arrivals, done);
  }
  Duration duration(const CollectiveCost& cost) const override { return base_.duration(cost); }
  bool completes_together() const override { return base_.completes_together(); }
  std::span<const SharedLink> links() const override { return links_; }
  void demand(const CollectiveCost& cost, NetworkDemand& out) const override {
    base_.demand(cost, out);
  }

 private:
  const NetworkModel& base_;
  std::vector<SharedLink> links_;
};

struct Case {
  std::string model, strategy;
};

const char* const kGpt = "gpt:layers=8,hidden=1536,heads=24,vocab=50257,seq=1024";
const char* const kGpt2 = "gpt2-124m";
const char* const kLlama = "llama3.2-1b:layers=8,seq=2048";
const char* const kMoe =
    "gpt:layers=4,hidden=1024,heads=16,vocab=32000,seq=512,experts=8,top_k=2,capacity_factor=1.25";
const char* const kConv = "conv:blocks=2x2,channels=64x128,height=32";

std::vector<Case> cases() {
  return {{kGpt2, "dp=8 micro_batch=1"},
          {kGpt2, "dp=2 tp=4 pp=2 micro_batch=1 schedule=1f1b"},
          {kGpt2, "dp=2 tp=2 pp=4 micro_batch=1 schedule=interleaved virtual=3"},
          {kGpt, "dp=1 tp=1 pp=4 micro_batch=1 schedule=gpipe"},
          {kGpt, "dp=4 tp=8 pp=2 micro_batch=1 schedule=1f1b"},
          {kGpt, "dp=16 tp=4 micro_batch=1"},
          {kGpt, "dp=2 tp=3 pp=4 micro_batch=1 schedule=zb-h1"},
          {kGpt, "dp=4 tp=2 pp=4 micro_batch=1 schedule=zb-v"},
          {kGpt, "dp=16 micro_batch=1 zero=1"},
          {kGpt, "dp=8 tp=2 pp=2 micro_batch=1 zero=2"},
          {kGpt, "dp=8 tp=4 micro_batch=1 zero=3"},
          {kGpt, "dp=2 tp=4 pp=2 micro_batch=1 recompute=full"},
          {kGpt, "dp=2 tp=4 pp=2 micro_batch=1 recompute=selective sp=on"},
          {kGpt, "dp=4 tp=4 micro_batch=1 pieces=4"},
          {kLlama, "dp=2 tp=4 cp=2 pp=2 micro_batch=1 sp=on"},
          {kLlama, "dp=2 cp=8 micro_batch=1 cp_mode=ring"},
          {kLlama, "dp=4 cp=4 micro_batch=1 cp_mode=a2a zero=1"},
          {kLlama, "dp=4 tp=4 pp=4 micro_batch=1 schedule=interleaved virtual=2"},
          {kMoe, "dp=8 ep=8 micro_batch=1"},
          {kMoe, "dp=4 ep=4 tp=2 pp=2 micro_batch=1 zero=1"},
          {kMoe, "dp=16 ep=4 micro_batch=1"},
          {kConv, "dp=8 micro_batch=2"},
          {kConv, "dp=16 micro_batch=1 zero=1"}};
}

std::vector<std::string> clusters() {
  return {"dgx-a100:nodes=8", "dgx-h100:nodes=8,leaf=2,oversubscription=4", "dgx1-v100:nodes=8",
          "tpu-v4:x=4,y=4,z=4"};
}

struct Compiled {
  Cluster cluster;
  std::unique_ptr<CostModel> cost;
  std::unique_ptr<NetworkModel> network;  // with links
  PhysicalGraph graph;
};

Compiled compiled(const Case& one, const std::string& cluster_text,
                  const std::vector<Straggler>& stragglers = {}) {
  Compiled made;
  made.cluster = load_cluster(cluster_text);
  const AnyModel model = load_any_model(one.model);
  const Strategy strategy = parse_strategy(one.strategy);
  const std::int64_t samples = strategy.dp * strategy.micro_batch;
  const DType dtype = own_dtype(model).value_or(DType::kF32);
  made.cost = make_ranked_costs(made.cluster, dtype, stragglers);
  made.network = make_flow_network(made.cluster, make_network_model(made.cluster));
  const LogicalGraph training =
      make_training_graph(build_graph(model, samples, default_sequence(model), dtype), strategy);
  made.graph = compile(training, strategy, 4 * samples, *made.cost, *made.network);
  return made;
}

SimulateOptions with_window() {
  SimulateOptions options;
  options.window = 24;
  return options;
}

Timeline timed_by(const Compiled& plan, const NetworkModel& network, SimulationMode mode,
                  bool folded, std::vector<OverlapShares> overlap = {}) {
  SimulateOptions options = with_window();
  options.mode = mode;
  options.folded = folded;
  options.overlap = std::move(overlap);
  return simulate_timeline(plan.graph, *plan.cost, network, options);
}

// Of the last step, by run.
std::vector<TimedRun> runs_of(const Timeline& timeline, std::size_t rank) {
  std::vector<TimedRun> runs =
      timeline.ranks[static_cast<std::size_t>(timeline.place_of[rank])].runs;
  std::sort(runs.begin(), runs.end(),
            [](const TimedRun& a, const TimedRun& b) { return a.run < b.run; });
  return runs;
}

// How many ranks have a launch with other times; -1 where steps end at other times.
std::int64_t ranks_that_differ(const Timeline& a, const Timeline& b) {
  if (a.step_end != b.step_end) return -1;
  std::int64_t different = 0;
  for (std::size_t rank = 0; rank < a.place_of.size(); ++rank) {
    const std::vector<TimedRun> left = runs_of(a, rank), right = runs_of(b, rank);
    const bool same = std::equal(left.begin(), left.end(), right.begin(), right.end(),
                                 [](const TimedRun& x, const TimedRun& y) {
                                   return x.run == y.run && x.issued == y.issued &&
                                          x.arrived == y.arrived && x.begin == y.begin &&
                                          x.end == y.end;
                                 });
    different += same ? 0 : 1;
  }
  return different;
}

// How many launches are over earlier in `b` than in `a`.
std::int64_t earlier_launches(const Timeline& a, const Timeline& b) {
  std::int64_t earlier = 0;
  for (std::size_t rank = 0; rank < a.place_of.size(); ++rank) {
    const std::vector<TimedRun> left = runs_of(a, rank), right = runs_of(b, rank);
    REQUIRE(left.size() == right.size());
    for (std::size_t i = 0; i < left.size(); ++i) earlier += right[i].end < left[i].end ? 1 : 0;
  }
  for (std::size_t step = 0; step < a.step_end.size(); ++step)
    earlier += b.step_end[step] < a.step_end[step] ? 1 : 0;
  return earlier;
}

void check_parts(const Timeline& timeline) {
  for (const RankTimeline& rank : timeline.ranks) {
    const PartDurations parts = parts_of(rank, timeline.step_time());
    CHECK(std::accumulate(parts.begin(), parts.end(), Duration()) == timeline.step_time());
    CHECK(*std::min_element(parts.begin(), parts.end()) >= Duration());
  }
}

void check_equal(const LinkUses& a, const LinkUses& b) {
  CHECK(a.idle == b.idle);
  REQUIRE(a.used.size() == b.used.size());
  for (std::size_t i = 0; i < a.used.size(); ++i) {
    CHECK(a.used[i].name == b.used[i].name);
    CHECK(a.used[i].links == b.used[i].links);
    CHECK(a.used[i].bytes == b.used[i].bytes);
    CHECK(a.used[i].busy == b.used[i].busy);
  }
}

double bytes_on_links(const LinkUses& links) {
  double bytes = 0;
  for (const LinkUse& use : links.used)
    bytes += static_cast<double>(use.links) * static_cast<double>(use.bytes.value);
  return bytes;
}

void check_path(const Compiled& plan, const Timeline& tape) {
  const StepPath path = simulate_path(plan.graph, *plan.cost, *plan.network, with_window());
  Duration length;
  for (const StepPath::Row& row : path.rows) length += row.end - row.begin;
  CHECK(path.step_time == tape.step_time());
  if (path.steady) CHECK(length == tape.step_time());
  for (const StepPath::QueueSlack& queue : path.slack) CHECK(queue.least >= Duration());
}

// The last steps are alike, so what a step carries it carries in its own time.
bool is_steady(const Timeline& timeline) {
  const std::vector<Duration> steps = timeline.step_times();
  return steps[steps.size() - 2] == steps.back();
}

struct Seen {
  std::int64_t plans = 0, contended = 0, folded = 0, steady = 0;
};

void check_plan(const Compiled& plan, Seen& seen) {
  const auto run = [&](const NetworkModel& network, SimulationMode mode, bool folded,
                       std::vector<OverlapShares> overlap = {}) {
    return timed_by(plan, network, mode, folded, std::move(overlap));
  };
  const Timeline step = run(*plan.network, SimulationMode::kStep, false);
  const Timeline tape = run(*plan.network, SimulationMode::kTape, false);
  const Timeline folded_tape = run(*plan.network, SimulationMode::kTape, true);
  CHECK(ranks_that_differ(step, tape) == 0);
  CHECK(ranks_that_differ(step, folded_tape) == 0);
  const Timeline blocks = run(*plan.network, SimulationMode::kBlock, true);
  CHECK(blocks.step_end == tape.step_end);
  const WideLinks wide(*plan.network);
  CHECK(ranks_that_differ(step, run(wide, SimulationMode::kTimed, false)) == 0);
  CHECK(ranks_that_differ(step, run(wide, SimulationMode::kTimed, true)) == 0);
  const Timeline timed = run(*plan.network, SimulationMode::kTimed, false);
  const Timeline folded = run(*plan.network, SimulationMode::kTimed, true);
  CHECK(ranks_that_differ(timed, folded) == 0);
  CHECK(earlier_launches(tape, timed) == 0);
  const std::vector<OverlapShares> shares(plan.graph.ranks.size(), {0.8, 0.7});
  const Timeline slowed = run(*plan.network, SimulationMode::kTimed, false, shares);
  CHECK(ranks_that_differ(slowed, run(*plan.network, SimulationMode::kTimed, true, shares)) == 0);
  CHECK(earlier_launches(tape, slowed) == 0);
  for (const Timeline* one : {&tape, &folded_tape, &timed, &folded, &slowed}) check_parts(*one);
  check_path(plan, tape);

  const LinkUses on_tape = link_uses(plan.graph, tape, *plan.network);
  const LinkUses in_time = link_uses(plan.graph, timed, *plan.network);
  check_equal(on_tape, link_uses(plan.graph, folded_tape, *plan.network));
  check_equal(in_time, link_uses(plan.graph, folded, *plan.network));
  CHECK(bytes_on_links(on_tape) == doctest::Approx(bytes_on_links(in_time)).epsilon(1e-9));
  CHECK(on_tape.idle == in_time.idle);
  if (is_steady(timed))
    for (const LinkUse& use : in_time.used) CHECK(use.utilisation <= 1.001);
  ++seen.plans;
  seen.contended += ranks_that_differ(tape, timed) != 0 ? 1 : 0;
  seen.folded += folded.ranks.size() < timed.ranks.size() ? 1 : 0;
  seen.steady += is_steady(timed) ? 1 : 0;
}

TEST_CASE("timed mode of compiled plans obeys its laws on switches, leaves, cables and tori") {
  Seen seen;
  const std::vector<Case> all = cases();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string cluster = clusters()[i % clusters().size()];
    CAPTURE(cluster);
    CAPTURE(all[i].model);
    CAPTURE(all[i].strategy);
    check_plan(compiled(all[i], cluster), seen);
  }
  CHECK(seen.plans == static_cast<std::int64_t>(all.size()));
  CHECK(seen.contended >= 6);
  CHECK(seen.folded >= 15);
  CHECK(seen.steady >= 15);
}

// Members that end together do so whoever of them leaves a kernel alone first.
TEST_CASE("timed mode of compiled plans obeys its laws under stragglers, which split classes") {
  Seen seen;
  const std::vector<std::pair<std::string, Case>> slowed = {
      {"dgx1-v100:nodes=1", {kConv, "dp=8 micro_batch=2"}},
      {"v100x8:nodes=2", {kGpt, "dp=16 micro_batch=1 zero=1"}},
      {"tpu-v4:x=2,y=2,z=4", {kLlama, "dp=2 cp=8 micro_batch=1 cp_mode=ring"}},
      {"dgx-h100:nodes=2,leaf=1,oversubscription=16", {kMoe, "dp=8 ep=8 micro_batch=1"}}};
  for (const auto& [cluster, one] : slowed) {
    CAPTURE(cluster);
    CAPTURE(one.strategy);
    check_plan(compiled(one, cluster, {{Rank(2), 1.3}, {Rank(5), 1.1}}), seen);
  }
  CHECK(seen.plans == 4);
  CHECK(seen.folded >= 3);
}

}  // namespace
}  // namespace sextant::timed_plans_test
