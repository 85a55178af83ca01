// What must hold for any model and any graph in tape mode: monotone in every number of a cluster,
// closed forms exact, bytes conserved. No tolerance anywhere: virtual time is an integer.
#include "core/costs/cluster.h"
#include "experiments/micro/ring_graph.h"
#include "simulator/cluster_files/cluster_file.h"
#include "simulator/costs/models.h"
#include "simulator/modes/simulate.h"
#include "simulator/steps/step_parts.h"
#include "tests/simulator/toy_graph.h"
#include "tests/simulator/toy_pipeline.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <random>

namespace sextant::laws_test {
namespace {

// Two nodes of eight: pipelines of four stages, so that transfers and gradients cross both tiers.
std::vector<PhysicalGraph> graphs_on_two_nodes() {
  std::vector<PhysicalGraph> graphs;
  for (const ToySchedule schedule : {ToySchedule::kGPipe, ToySchedule::kOneFOneB})
    for (const bool launch_groups : {false, true}) {
      if (launch_groups && schedule == ToySchedule::kGPipe) continue;
      ToyPipeline pipeline{{70000, 110000, 50000, 90000}, {130000, 90000, 170000, 110000}};
      if (launch_groups) pipeline = {{100000, 100000, 100000, 100000}, pipeline.forward};
      if (launch_groups) pipeline.backward = pipeline.forward;
      pipeline.micro_batches = 7;
      pipeline.replicas = 4;
      pipeline.schedule = schedule;
      pipeline.optimizer = 40000;
      pipeline.gradient_bytes = 1 << 20;
      pipeline.launch_groups = launch_groups;
      graphs.push_back(make_toy_pipeline(pipeline));
    }
  graphs.push_back(RingGraph::make(hierarchical_all_reduce(16, 8, 1 << 20)));
  return graphs;
}

using Models = std::function<std::unique_ptr<NetworkModel>(const Cluster&)>;

std::vector<Models> network_models() {
  return {[](const Cluster& cluster) { return make_alpha_beta(cluster); },
          [](const Cluster& cluster) { return make_network_model(cluster); },
          [](const Cluster& cluster) { return make_ring_recurrence(cluster); }};
}

// Ends of all launches of the last of four steps, all ranks.
std::vector<Time> ends_of(const PhysicalGraph& graph, const CostModel& cost,
                          const NetworkModel& network) {
  SimulateOptions options;
  options.folded = false;
  const Timeline timeline = simulate_timeline(graph, cost, network, options);
  std::vector<Time> ends;
  for (const RankTimeline& rank : timeline.ranks)
    for (const TimedRun& run : rank.runs) ends.push_back(run.end);
  return ends;
}

bool none_later(const std::vector<Time>& a, const std::vector<Time>& b) {
  REQUIRE(a.size() == b.size());
  return std::equal(a.begin(), a.end(), b.begin(), [](Time x, Time y) { return x <= y; });
}

TEST_CASE("more bandwidth makes no launch later, more latency none earlier") {
  const ToyCost cost(900);
  std::int64_t moved = 0;
  for (const PhysicalGraph& graph : graphs_on_two_nodes())
    for (const Models& models : network_models())
      for (const char* name : {"dgx-h100:nodes=2", "dgx-a100:nodes=2"}) {
        const Cluster base = load_cluster(name);
        const std::vector<Time> before = ends_of(graph, cost, *models(base));
        for (const double factor : {1.01, 1.5, 16.0})
          for (NetworkLink Cluster::*link : {&Cluster::intra_node, &Cluster::inter_node}) {
            Cluster wider = base, slower = base;
            (wider.*link).bandwidth.value *= factor;
            (slower.*link).latency.value *= factor;
            for (CollectiveAlgorithm& way : (slower.*link).algorithms) {
              way.base_latency.value *= factor;
              way.step_latency.value *= factor;
            }
            const std::vector<Time> wide = ends_of(graph, cost, *models(wider));
            const std::vector<Time> slow = ends_of(graph, cost, *models(slower));
            CHECK(none_later(wide, before));
            CHECK(none_later(before, slow));
            moved += (wide != before ? 1 : 0) + (slow != before ? 1 : 0);
          }
      }
  CHECK(moved > 100);  // the law is about something
}

TEST_CASE("the bubble of 1F1B is (p - 1) / (m + p - 1), exactly") {
  for (const std::int32_t p : {1, 2, 4, 8})
    for (const std::int32_t m : {1, 2, 7, 16, 96}) {
      if (m < p && m != 1) continue;
      const auto stages = static_cast<std::size_t>(p);
      ToyPipeline pipeline{std::vector<std::int64_t>(stages, 100),
                           std::vector<std::int64_t>(stages, 200)};
      pipeline.micro_batches = m;
      SimulateOptions options;
      options.steps = 1;
      const Timeline timeline =
          simulate_timeline(make_toy_pipeline(pipeline), ToyCost(), ToyNetwork(), options);
      CHECK(timeline.step_time() == Duration(300 * (m + p - 1)));
      for (const RankTimeline& rank : timeline.ranks) {
        const PartDurations parts = parts_of(rank, timeline.step_time());
        CHECK(parts[static_cast<std::size_t>(TimePart::kCompute)] == Duration(300 * m));
        const Duration idle = parts[static_cast<std::size_t>(TimePart::kBubble)] +
                              parts[static_cast<std::size_t>(TimePart::kHost)] +
                              parts[static_cast<std::size_t>(TimePart::kExposedCommunication)];
        CHECK(idle == Duration(300 * (p - 1)));
      }
    }
}

// Every hop takes alpha + S / (n B) = 2 us + 1 MB / 100 GB/s = 12 us.
TEST_CASE("a ring all-reduce by messages takes 2 (n - 1) (alpha + S / (n B)), exactly") {
  for (const std::int64_t n : {2, 3, 8}) {
    Cluster cluster = load_cluster("dgx-h100:nodes=1");
    cluster.intra_node.bandwidth.value = 100e9;
    cluster.intra_node.efficiency.value = 1;
    cluster.intra_node.latency.value = 2e-6;
    const auto network = make_alpha_beta(cluster);
    for (const bool folded : {false, true}) {
      SimulateOptions options;
      options.steps = 1;
      options.folded = folded;
      const Timeline timeline = simulate_timeline(RingGraph::make(ring_all_reduce(n, n * 1000000)),
                                                  ToyCost(), *network, options);
      CHECK(timeline.step_time() == Duration(2 * (n - 1) * 12000000));
      CHECK(timeline.ranks.size() == static_cast<std::size_t>(folded ? 1 : n));
    }
    const Layout layout{{Shape{n * 1000000}, DType::kBool}, {}, PlacementId(0)};
    const Communication all_reduce{Primitive::kAllReduce, Side::kBoth, 0, ReduceOp::kSum,
                                   DType::kBool,          {},          {}};
    std::vector<Rank> members;
    for (int r = 0; r < n; ++r) members.emplace_back(r);
    CHECK(network->duration({&all_reduce, members, Bytes(n * 1000000), Bytes(0)}) ==
          Duration(2 * (n - 1) * 12000000));
  }
}

// One communication over four ranks, of a tensor of `bytes`.
PhysicalGraph one_collective(Primitive primitive, Sbp from, Sbp to, std::int64_t bytes) {
  ToyProgram program;
  program.name = "p";
  program.ops = {
      {"c", QueueRole::kCollective, 0, {}, ToyCommunication{primitive, Side::kBoth, "g", bytes}}};
  program.order = {{"c"}};
  const ToyRank rank{0, {{"g", "all"}}};
  PhysicalGraph graph =
      make_toy_graph({program}, {rank, rank, rank, rank}, {{"all", {0, 1, 2, 3}}});
  Communication& communication = *graph.blocks[BlockId(0)].actors[0].communication;
  for (const auto& [words, id] : {std::pair{from, &communication.from}, {to, &communication.to}}) {
    graph.layouts.push_back({{Shape{bytes}, DType::kBool}, {words}, PlacementId(0)});
    *id = LayoutId(graph.layouts.size() - 1);
  }
  return graph;
}

// ZeRO 0 all-reduces gradients of S bytes; 1 and 2 reduce-scatter them and gather parameters; 3
// gathers parameters twice.
TEST_CASE("ZeRO 1 and 2 send what an all-reduce sends, ZeRO 3 half as much again") {
  constexpr std::int64_t kBytes = 4000;
  const Sbp P = Sbp::partial(), S = Sbp::split(0), B = Sbp::broadcast();
  const auto sent = [](Primitive primitive, Sbp from, Sbp to, SimulationMode mode) {
    SimulateOptions options;
    options.mode = mode;
    options.keep_traffic = true;
    std::map<Rank, std::int64_t> out, in;
    const Simulation result =
        simulate(one_collective(primitive, from, to, kBytes), ToyCost(), ToyNetwork(), options);
    for (const PairBytes& pair : result.traffic) {
      out[pair.source] += pair.bytes.value;
      in[pair.destination] += pair.bytes.value;
    }
    REQUIRE(out.size() == 4);
    CHECK(out == in);  // what is sent is received, rank by rank in a ring
    return out.begin()->second;
  };
  for (const SimulationMode mode : {SimulationMode::kTape, SimulationMode::kStep}) {
    const std::int64_t all_reduce = sent(Primitive::kAllReduce, P, B, mode);
    const std::int64_t scatter = sent(Primitive::kReduceScatter, P, S, mode);
    const std::int64_t gather = sent(Primitive::kAllGather, S, B, mode);
    CHECK(all_reduce == 2 * 3 * kBytes / 4);
    CHECK(scatter + gather == all_reduce);
    CHECK(2 * (scatter + 2 * gather) == 3 * all_reduce);
  }
}

TEST_CASE("G55: the order of a stream and the edges of the data both count") {
  const auto time = [](bool needs_result) {
    ToyProgram program;
    program.name = "p";
    program.ops = {{"first", QueueRole::kCompute, 10000000},
                   {"sum",
                    QueueRole::kCollective,
                    0,
                    {{"first"}},
                    ToyCommunication{Primitive::kAllReduce, Side::kBoth, "g", 20000000}},
                   {"last", QueueRole::kCompute, 5000000}};
    if (needs_result) program.ops[2].reads = {{"sum"}};
    program.order = {{"first"}, {"sum"}, {"last"}};
    const ToyRank rank{0, {{"g", "all"}}};
    SimulateOptions options;
    options.steps = 1;
    return simulate(make_toy_graph({program}, {rank, rank}, {{"all", {0, 1}}}), ToyCost(),
                    ToyNetwork(), options)
        .step_time;
  };
  // ToyNetwork: one picosecond per byte. 10 + 20 + 5 us; then 10 + max(20, 5) us.
  CHECK(time(true) == Duration(35000000));
  CHECK(time(false) == Duration(30000000));
}

TEST_CASE("G59: a pipeline of unequal stages takes what its schedule takes, not a formula") {
  const auto time = [](std::vector<std::int64_t> forward, std::vector<std::int64_t> backward) {
    ToyPipeline pipeline{std::move(forward), std::move(backward)};
    pipeline.micro_batches = 4;
    SimulateOptions options;
    options.steps = 1;
    return simulate(make_toy_pipeline(pipeline), ToyCost(), ToyNetwork(), options).step_time;
  };
  // Stages of 3, 5, 2: 23; the closed form sum + (m - 1) max says 25 and m max says 20.
  CHECK(time({1500, 2500, 1000}, {1500, 2500, 1000}) == Duration(23000));
  // Backward twice as long, in thirds: 70 / 3 = 23.33.
  CHECK(time({3, 5, 2}, {6, 10, 4}) == Duration(70));
}

TEST_CASE("the parts are the same whether the launches are kept or not") {
  ToyPipeline pipeline{{1500, 2500, 1000}, {1500, 2500, 1000}};
  pipeline.micro_batches = 4;
  const PhysicalGraph graph = make_toy_pipeline(pipeline);
  SimulateOptions kept;
  kept.keep_slices = true;
  const StepParts with = simulate(graph, ToyCost(), ToyNetwork(), kept).parts;
  const StepParts without = simulate(graph, ToyCost(), ToyNetwork()).parts;
  const auto same = [](const StepParts::Spread& a, const StepParts::Spread& b) {
    return a.mean_s == b.mean_s && a.min_s == b.min_s && a.max_s == b.max_s;
  };
  CHECK(with.bubble.mean_s > 0);
  CHECK(same(with.optimizer, without.optimizer));
  CHECK(same(with.compute, without.compute));
  CHECK(same(with.exposed_communication, without.exposed_communication));
  CHECK(same(with.host, without.host));
  CHECK(same(with.bubble, without.bubble));
}

// Every picosecond looked at.
PartDurations parts_by_looking(const RankTimeline& rank, std::int64_t period) {
  PartDurations parts{};
  for (std::int64_t now = 0; now < period; ++now) {
    bool optimizer = false, compute = false, communication = false, outstanding = false;
    const auto covers = [&](Time begin, Time end) {
      // Some now + k * period in [begin, end).
      const std::int64_t from = begin.value + ((now - begin.value) % period + period) % period;
      return from < end.value;
    };
    for (const TimedRun& run : rank.runs) {
      const bool computes = run.queue == QueueRole::kCompute;
      optimizer = optimizer || (computes && run.optimizer && covers(run.begin, run.end));
      compute = compute || (computes && !run.optimizer && covers(run.begin, run.end));
      communication = communication || (!computes && covers(run.arrived, run.end));
      outstanding = outstanding || covers(run.issued, run.end);
    }
    const TimePart part = optimizer       ? TimePart::kOptimizer
                          : compute       ? TimePart::kCompute
                          : communication ? TimePart::kExposedCommunication
                          : outstanding   ? TimePart::kBubble
                                          : TimePart::kHost;
    parts[static_cast<std::size_t>(part)] += Duration(1);
  }
  return parts;
}

TEST_CASE("the parts of a step are what one sees at every instant") {
  std::mt19937 draw(7);
  const auto below = [&](int n) {
    return static_cast<std::int64_t>(draw() % static_cast<unsigned>(n));
  };
  for (int round = 0; round < 300; ++round) {
    RankTimeline rank;
    std::array<std::int64_t, 3> free{};
    const int gap = round % 3 == 0 ? 2 : 25;
    for (int i = 0; i < 12; ++i) {
      const auto queue = static_cast<std::size_t>(below(3));
      TimedRun run;
      run.queue = queue == 0   ? QueueRole::kCompute
                  : queue == 1 ? QueueRole::kCollective
                               : QueueRole::kTransferInForward;
      run.optimizer = below(4) == 0;
      run.begin = Time(free[queue] + below(gap));
      run.issued = Time(std::max<std::int64_t>(0, run.begin.value - below(30)));
      run.arrived = run.begin + Duration(below(6));
      run.end = run.arrived + Duration(below(40));
      free[queue] = run.end.value;
      rank.runs.push_back(run);
    }
    const std::int64_t period = 1 + below(120);
    CHECK(parts_of(rank, Duration(period)) == parts_by_looking(rank, period));
  }
}

}  // namespace
}  // namespace sextant::laws_test
