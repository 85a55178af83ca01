// What links carry in a step: bytes and times by hand, and the laws that rows and traffic obey.

#include "simulator/reports/link_use.h"

#include "simulator/cluster_files/cluster_file.h"
#include "simulator/costs/models.h"
#include "simulator/links/flow_model.h"
#include "simulator/modes/simulate.h"
#include "tests/simulator/toy_graph.h"
#include "tests/simulator/toy_pipeline.h"

#include <doctest/doctest.h>

#include <map>
#include <string>

namespace sextant::link_use_test {
namespace {

// A communication of b bytes takes b picoseconds on the port of each member, and on a bus that all
// share.
class BusNetwork : public ToyNetwork {
 public:
  BusNetwork(std::int64_t devices, double bus) {
    for (std::int64_t device = 0; device < devices; ++device)
      links_.push_back({"device" + std::to_string(device) + ".port", 1e12});
    links_.push_back({"bus", bus});
  }
  std::span<const SharedLink> links() const override { return links_; }
  void demand(const CollectiveCost& cost, NetworkDemand& out) const override {
    out = {};
    const auto bytes = static_cast<double>(duration(cost).value);
    if (bytes == 0) return;
    for (const Rank member : cost.members) out.loads.push_back({member.value, bytes});
    out.loads.push_back({static_cast<std::int32_t>(links_.size()) - 1, bytes});
  }

 private:
  std::vector<SharedLink> links_;
};

ToyOp reduce(const char* name, const char* group, std::int64_t bytes) {
  return {name,
          QueueRole::kCollective,
          0,
          {},
          ToyCommunication{Primitive::kAllReduce, Side::kBoth, group, bytes}};
}

// Ranks 0 and 1 compute 10 and reduce 30; 2 and 3 compute 20 and reduce 50; 4 has nobody.
PhysicalGraph two_pairs() {
  const auto program = [](const char* name, std::int64_t kernel, std::int64_t bytes) {
    ToyProgram made{name,
                    {{"kernel", QueueRole::kCompute, kernel}, reduce("reduce", "pair", bytes)},
                    {{"kernel"}, {"reduce"}}};
    made.ops[1].reads = {{"kernel"}};
    return made;
  };
  const ToyProgram alone{"alone", {{"kernel", QueueRole::kCompute, 5}}, {{"kernel"}}};
  return make_toy_graph({program("first", 10, 30), program("second", 20, 50), alone},
                        {{0, {{"pair", "a"}}},
                         {0, {{"pair", "a"}}},
                         {1, {{"pair", "b"}}},
                         {1, {{"pair", "b"}}},
                         {2, {}}},
                        {{"a", {0, 1}}, {"b", {2, 3}}});
}

LinkUses uses_of(const PhysicalGraph& graph, const NetworkModel& network, SimulationMode mode,
                 bool folded, std::int64_t steps = 4) {
  SimulateOptions options;
  options.mode = mode;
  options.folded = folded;
  options.steps = steps;
  return link_uses(graph, simulate_timeline(graph, ToyCost(), network, options), network);
}

void check_equal(const LinkUses& a, const LinkUses& b) {
  CHECK(a.idle == b.idle);
  CHECK(a.is_crowded == b.is_crowded);
  REQUIRE(a.used.size() == b.used.size());
  for (std::size_t i = 0; i < a.used.size(); ++i) {
    CHECK(a.used[i].name == b.used[i].name);
    CHECK(a.used[i].links == b.used[i].links);
    CHECK(a.used[i].bytes == b.used[i].bytes);
    CHECK(a.used[i].busy == b.used[i].busy);
    CHECK(a.used[i].utilisation == b.used[i].utilisation);
  }
}

const LinkUse& named(const LinkUses& links, const std::string& name) {
  for (const LinkUse& use : links.used)
    if (use.name == name) return use;
  FAIL("no link " << name);
  return links.used.front();
}

// One step: a from 10 to 40, b from 20 to 70. The bus is in use from 10 to 70, for 80 bytes.
TEST_CASE("links are busy while a communication is in progress and carry what it loads") {
  const PhysicalGraph graph = two_pairs();
  const BusNetwork network(6, 4e12);
  for (const bool folded : {true, false})
    for (const SimulationMode mode : {SimulationMode::kTape, SimulationMode::kStep}) {
      const LinkUses links = uses_of(graph, network, mode, folded, 1);
      CHECK(links.step_time == Duration(70));
      CHECK(links.idle == 2);
      CHECK_FALSE(links.is_crowded);
      REQUIRE(links.used.size() == 3);
      CHECK(links.used[0].name == "device2.port");  // 5/7, 3/7 and 2/7
      CHECK(links.used[0].links == 2);
      CHECK(links.used[0].utilisation == doctest::Approx(50.0 / 70));
      const LinkUse& first = named(links, "device0.port");
      CHECK(first.links == 2);
      CHECK(first.bytes == Bytes(30));
      CHECK(first.busy == Duration(30));
      const LinkUse& bus = named(links, "bus");
      CHECK(bus.links == 1);
      CHECK(bus.bytes == Bytes(80));
      CHECK(bus.busy == Duration(60));
      CHECK(bus.utilisation == doctest::Approx(80.0 / 280));
    }
}

// On a bus of 1 B/ps a has half of it from 20 on and is over at 60; b has 30 left then, and 20 when
// the next step's a takes half again at 70: it is over at 110. On the tape both pretend to be
// alone.
TEST_CASE(
    "a link that would carry more than it can is crowded on the tape and full in timed mode") {
  const PhysicalGraph graph = two_pairs();
  const BusNetwork network(5, 1e12);
  const LinkUses tape = uses_of(graph, network, SimulationMode::kTape, true, 1);
  CHECK(tape.is_crowded);
  CHECK(named(tape, "bus").utilisation == doctest::Approx(80.0 / 70));
  const LinkUses timed = uses_of(graph, network, SimulationMode::kTimed, true, 1);
  CHECK_FALSE(timed.is_crowded);
  CHECK(timed.step_time == Duration(110));
  CHECK(named(timed, "bus").bytes == Bytes(80));
  CHECK(named(timed, "bus").busy == Duration(100));
}

// The step takes 30, as the reduction does; it begins 10 after the kernel, and is in use all the
// time though no step holds it whole.
TEST_CASE("what reaches into the next step is busy as long as it lasts") {
  ToyProgram program{"one",
                     {{"kernel", QueueRole::kCompute, 10}, reduce("reduce", "all", 30)},
                     {{"kernel"}, {"reduce"}}};
  const PhysicalGraph graph =
      make_toy_graph({program}, {{0, {{"all", "all"}}}, {0, {{"all", "all"}}}}, {{"all", {0, 1}}});
  const LinkUses links = uses_of(graph, BusNetwork(2, 1e12), SimulationMode::kTape, true);
  CHECK(links.step_time == Duration(30));
  for (const LinkUse& use : links.used) {
    CHECK(use.busy == Duration(30));
    CHECK(use.utilisation == doctest::Approx(1));
  }
}

TEST_CASE("a step without communication uses no link") {
  ToyPipeline pipeline{{70}, {130}};
  const LinkUses links =
      uses_of(make_toy_pipeline(pipeline), BusNetwork(3, 1e12), SimulationMode::kTape, true);
  CHECK(links.used.empty());
  CHECK(links.idle == 4);
  CHECK(uses_of(two_pairs(), ToyNetwork(), SimulationMode::kTape, true).used.empty());
}

// Ranks 4-7 reduce 96,000 among themselves and all eight 64,000: over a switch each port of a ring
// carries what its rank sends.
TEST_CASE("ports of a switch carry what the traffic says that ranks send and receive") {
  const ToyProgram plain{"plain", {reduce("all", "all", 64'000)}, {{"all"}}};
  const ToyProgram busy{
      "busy", {reduce("sub", "sub", 96'000), reduce("all", "all", 64'000)}, {{"sub"}, {"all"}}};
  std::vector<ToyRank> ranks;
  for (int rank = 0; rank < 8; ++rank)
    ranks.push_back(rank < 4 ? ToyRank{0, {{"all", "all"}}}
                             : ToyRank{1, {{"all", "all"}, {"sub", "sub"}}});
  const PhysicalGraph graph = make_toy_graph(
      {plain, busy}, ranks, {{"all", {0, 1, 2, 3, 4, 5, 6, 7}}, {"sub", {4, 5, 6, 7}}});
  const Cluster cluster = load_cluster("dgx-h100:nodes=1");
  const auto network = make_flow_network(cluster, make_alpha_beta(cluster));
  SimulateOptions options;
  options.keep_traffic = true;
  const Timeline timeline = simulate_timeline(graph, ToyCost(), *network, options);
  std::map<std::int64_t, std::int64_t> ports;  // how many carry so much
  for (int rank = 0; rank < 8; ++rank) {
    std::int64_t out = 0, in = 0;
    for (const auto& [pair, bytes] : timeline.traffic) {
      if (pair.first == Rank(rank)) out += bytes.value;
      if (pair.second == Rank(rank)) in += bytes.value;
    }
    ++ports[out];
    ++ports[in];
  }
  const LinkUses links = link_uses(graph, timeline, *network);
  std::map<std::int64_t, std::int64_t> carried;
  for (const LinkUse& use : links.used) carried[use.bytes.value] += use.links;
  CHECK(carried == ports);
  CHECK(carried == std::map<std::int64_t, std::int64_t>{{112'000, 8}, {256'000, 8}});
  check_equal(links, uses_of(graph, *network, SimulationMode::kTape, true));
}

TEST_CASE("folded and unfolded pipelines use links alike, never beyond capacity in timed mode") {
  for (const ToySchedule schedule : {ToySchedule::kGPipe, ToySchedule::kOneFOneB})
    for (const std::int32_t replicas : {1, 2, 4})
      for (const double bus : {1e12, 1e18}) {
        ToyPipeline pipeline{{70, 110, 50, 90}, {130, 90, 170, 110}};
        pipeline.micro_batches = 7;
        pipeline.replicas = replicas;
        pipeline.schedule = schedule;
        pipeline.optimizer = 40;
        pipeline.gradient_bytes = 60;
        const PhysicalGraph graph = make_toy_pipeline(pipeline);
        const BusNetwork network(16, bus);
        for (const SimulationMode mode : {SimulationMode::kTape, SimulationMode::kTimed})
          check_equal(uses_of(graph, network, mode, true), uses_of(graph, network, mode, false));
        const LinkUses timed = uses_of(graph, network, SimulationMode::kTimed, true, 8);
        CHECK_FALSE(timed.is_crowded);
        for (const LinkUse& use : timed.used) CHECK(use.utilisation <= 1.001);
      }
}

}  // namespace
}  // namespace sextant::link_use_test
