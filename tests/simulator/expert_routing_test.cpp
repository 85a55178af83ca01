// Tokens on experts: shares, places and drops by hand, then what they make of compiled plans.

#include "simulator/costs/expert_routing.h"

#include "compiler/expand/expand.h"
#include "compiler/training/training_graph.h"
#include "core/base/error.h"
#include "models/model.h"
#include "simulator/cluster_files/cluster_file.h"
#include "simulator/costs/models.h"
#include "simulator/costs/routed_graph.h"
#include "simulator/links/flow_model.h"
#include "simulator/modes/simulate.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace sextant::expert_routing_test {
namespace {

std::string refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was refused";
}

ExpertRouting counts(std::vector<double> of_experts) {
  ExpertRouting routing;
  routing.text = "counts";
  routing.counts = std::move(of_experts);
  return routing;
}

// ---------------------------------------------------------------- shares

// 200 choices: 80, 60, 40 and 20 for 60 places each.
TEST_CASE("what finds no place is dropped, what is left over is empty") {
  const ExpertLoad load = expert_load(counts({4, 3, 2, 1}), {4, 2, 100, 60});
  const std::vector<double> filled = {1, 1, 2.0 / 3, 1.0 / 3};
  for (std::size_t e = 0; e < 4; ++e) CHECK(load.filled[e] == doctest::Approx(filled[e]));
  CHECK(load.dropped == doctest::Approx(0.1));
  CHECK(load.capacity_factor_without_drops() == doctest::Approx(1.6));
  CHECK(load.filled_between(2, 4) == doctest::Approx(0.5));
  CHECK(load.filled_between(0, 4) == doctest::Approx(0.75));
  CHECK(load.filled_between(2, 2) == 0);
}

// 1 + 1/2 + 1/3 + 1/4 = 25/12.
TEST_CASE("zipf gives expert e a share that falls with the power of e, uniform all the same") {
  const ExpertLoad zipf = expert_load(parse_expert_routing("zipf=1"), {4, 2, 100, 100});
  CHECK(zipf.share[0] == doctest::Approx(12.0 / 25));
  CHECK(zipf.share[3] == doctest::Approx(3.0 / 25));
  CHECK(zipf.dropped == 0);
  const ExpertLoad even = expert_load(parse_expert_routing("uniform"), {4, 2, 100, 50});
  for (const double filled : even.filled) CHECK(filled == doctest::Approx(1));
  CHECK(even.dropped == doctest::Approx(0));
  CHECK(expert_load(parse_expert_routing("zipf=0"), {4, 2, 100, 50}).share == even.share);
}

TEST_CASE("routings that cannot be are refused by name") {
  for (const char* text : {"zipf=", "zipf=-1", "zipf=x", "zipf=11", "zipf=nan", "often"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(parse_expert_routing(text), Error);
  }
  CHECK(refusal([] {
          expert_load(parse_expert_routing("zipf=2"), {4, 2, 100, 60});
        }).find("expert 0 would get 70.2 % of the choices") != std::string::npos);
  CHECK(refusal([] {
          expert_load(counts({1, 1, 1}), {4, 2, 100, 60});
        }) == "routing 'counts' has 3 experts, the model 4");
}

TEST_CASE("a file has one number per expert, others are refused with their line") {
  const std::filesystem::path file = std::filesystem::temp_directory_path() / "expert_tokens.txt";
  const auto parsed = [&](const std::string& text) {
    std::ofstream(file) << text;
    return parse_expert_routing(file.string());
  };
  const ExpertRouting routing = parsed("# tokens\n400,\n 300\n\n200 # of expert 2\r\n100\n");
  CHECK(routing.counts == std::vector<double>{400, 300, 200, 100});
  CHECK(routing.provenance == Provenance::kMeasured);
  CHECK(refusal([&] { parsed("1\n2\nmany\n"); }).find("line 3: 'many'") != std::string::npos);
  for (const char* text : {"-1\n", "1 2\n", "0\n0\n", "", "inf\n", "nan\n"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(parsed(text), Error);
  }
  std::filesystem::remove(file);
}

// ---------------------------------------------------------------- graphs

struct Compiled {
  Cluster cluster;
  std::unique_ptr<CostModel> cost;
  PhysicalGraph graph;
};

// 4 experts, 2 per token, 100 tokens a sample; a capacity factor of 1.2 gives them 60 places.
Compiled compiled(const std::string& text, const std::string& sizes = "hidden=64",
                  const std::string& capacity = "1.2") {
  Compiled made;
  made.cluster = load_cluster("dgx-h100:nodes=1");
  made.cost = make_cost_model(made.cluster, DType::kBF16);
  const Strategy strategy = parse_strategy(text);
  const ModelConfig model = load_model("gpt:layers=2,heads=4,vocab=130,seq=100,experts=4,top_k=2," +
                                       sizes + ",capacity_factor=" + capacity);
  const std::int64_t samples = strategy.dp * strategy.micro_batch;
  const LogicalGraph training =
      make_training_graph(build_graph(model, samples, model.sequence, DType::kBF16), strategy);
  made.graph =
      compile(training, strategy, 4 * samples, *made.cost, *make_network_model(made.cluster));
  return made;
}

// Works of a rank's operators with such names, of layer 1.
std::map<std::string, Work> works_of(const PhysicalGraph& graph, Rank rank) {
  std::map<std::string, Work> works;
  for (const Instance& instance : graph.program_of(rank).instances) {
    if (instance.layer != 1) continue;
    for (const Actor& actor : graph.block_of(instance).actors)
      if (!actor.communication) works[actor.name] = actor.work;
  }
  return works;
}

// One expert per rank, 4 samples x 60 places for it; two thirds of rank 2's are filled.
TEST_CASE("expert kernels of a rank work on the places that are filled") {
  const Compiled plan = compiled("dp=4 ep=4 micro_batch=1");
  const RoutedGraph routed = routed_graph(plan.graph, counts({4, 3, 2, 1}));
  CHECK(routed.graph.programs.size() == 3);  // ranks 0 and 1 are full
  CHECK(routed.graph.ranks[Rank(0)].program == routed.graph.ranks[Rank(1)].program);
  CHECK(works_of(routed.graph, Rank(0)).at("mlp.experts.up").kernel == "matmul:240x256x64");
  const std::map<std::string, Work> full = works_of(plan.graph, Rank(2)),
                                    part = works_of(routed.graph, Rank(2));
  const Work& up = part.at("mlp.experts.up");
  CHECK(up.kernel == "matmul:160x256x64");
  CHECK(up.flops == doctest::Approx(2.0 * 160 * 256 * 64));
  CHECK(up.read == Bytes(2 * (160 * 64 + 64 * 256)));  // the weights whole
  const Work& weight = part.at("mlp.experts.up.grad_weight");
  CHECK(weight.kernel == "matmul:64x256x160");
  CHECK(weight.flops == doctest::Approx(2.0 * 160 * 256 * 64));
  CHECK(weight.written == full.at("mlp.experts.up.grad_weight").written);
  std::size_t changed = 0;
  for (const auto& [name, work] : full) {
    const bool of_experts = name.find("mlp.experts.") == 0 || name.find("mlp.dispatch") == 0 ||
                            name.find("mlp.combine") == 0 || name.find("mlp.computed") == 0;
    CAPTURE(name);
    if (name.find(".weight") != std::string::npos || !of_experts)
      CHECK(part.at(name) == work);  // the optimizer's, and all that is not of experts
    else
      changed += part.at(name) == work ? 0 : 1;
  }
  CHECK(changed >= 8);
}

// What the network is asked about.
class Recorder : public NetworkModel {
 public:
  explicit Recorder(std::vector<CollectiveCost>& asked) : asked_(asked) {}
  void complete(const CollectiveCost&, std::span<const Time>, std::span<Time>) const override {}
  Duration duration(const CollectiveCost& cost) const override {
    asked_.push_back(cost);
    return {};
  }

 private:
  std::vector<CollectiveCost>& asked_;
};

std::vector<Communication> communications_of(const RoutedGraph& routed) {
  std::vector<Communication> found;
  for (const Instance& instance : routed.graph.program_of(Rank(0)).instances)
    for (const Actor& actor : routed.graph.block_of(instance).actors)
      if (actor.communication && routed.is_routed(actor.communication->from) &&
          std::find(found.begin(), found.end(), *actor.communication) == found.end())
        found.push_back(*actor.communication);
  return found;
}

// A pair moves 8 samples x 60 places x 1,024 x 2 B = 983,040 B where they are full. Dispatched,
// expert j's share of that goes to member j from each of three others: 3 x (1 + 1 + 2/3 + 1/3) of
// it moves, at most 3 into one member. On the way back it is the same with the ends exchanged.
TEST_CASE("an all_to_all of expert tokens moves what finds a place, the fullest member decides") {
  const Compiled plan = compiled("dp=4 ep=4 micro_batch=8", "hidden=1024");
  constexpr std::int64_t kPair = 983'040;
  const RoutedGraph routed = routed_graph(plan.graph, counts({4, 3, 2, 1}));
  std::vector<CollectiveCost> asked;
  const auto network = make_routed_network(routed, std::make_unique<Recorder>(asked));
  const auto links =
      make_routed_network(routed, make_flow_network(plan.cluster, make_alpha_beta(plan.cluster)));
  const std::vector<Rank> members = {Rank(0), Rank(1), Rank(2), Rank(3)};
  const std::vector<Communication> communications = communications_of(routed);
  CHECK(communications.size() == 2);
  for (const Communication& communication : communications) {
    REQUIRE(communication.primitive == Primitive::kAllToAll);
    const CollectiveCost cost{&communication, members, Bytes(12 * kPair), Bytes(3 * kPair)};
    network->duration(cost);
    CHECK(asked.back().global_bytes == Bytes(9 * kPair));
    CHECK(asked.back().largest_volume == Bytes(3 * kPair));
    NetworkDemand demand;
    links->demand(cost, demand);
    std::map<std::string, double> carried;
    for (const LinkLoad& load : demand.loads)
      carried[links->links()[static_cast<std::size_t>(load.link)].name] = load.bytes;
    const bool dispatches = shard_of(routed.graph, communication.from, Rank(0)).dims[0].extent == 4;
    const std::string to = dispatches ? "in" : "out", from = dispatches ? "out" : "in";
    const std::vector<double> of_expert = {3, 3, 2, 1}, others = {2, 2, 7.0 / 3, 8.0 / 3};
    for (std::size_t e = 0; e < 4; ++e) {
      const std::string port = "node0.device" + std::to_string(e) + ".nvlink4.";
      CHECK(carried.at(port + to) == doctest::Approx(of_expert[e] * kPair));
      CHECK(carried.at(port + from) == doctest::Approx(others[e] * kPair));
    }
    // The same communication of a tensor that is none of experts stays as it is.
    Communication plain = communication;
    plain.from = plain.to = LayoutId(0);
    network->duration({&plain, members, Bytes(12 * kPair), Bytes(3 * kPair)});
    CHECK(asked.back().global_bytes == Bytes(12 * kPair));
  }
}

// The experts' weights [4, 240, 960] look like their tokens [4, 4 x 60, ...].
TEST_CASE("weights of experts are no tokens though their extents are the same") {
  const Compiled plan = compiled("dp=4 ep=2 micro_batch=1 zero=1", "hidden=240");
  const RoutedGraph routed = routed_graph(plan.graph, counts({4, 3, 2, 1}));
  std::size_t seen = 0;
  for (const Instance& instance : routed.graph.program_of(Rank(0)).instances)
    for (const Actor& actor : routed.graph.block_of(instance).actors) {
      if (!actor.communication || !routed.is_routed(actor.communication->from)) continue;
      ++seen;
      CAPTURE(actor.name);
      CHECK(actor.name.find("weight") == std::string::npos);
      CHECK(actor.phase != Phase::kOptimizer);
    }
  CHECK(seen >= 4);
}

// ---------------------------------------------------------------- times

struct Routed {
  RoutedGraph graph;
  std::unique_ptr<NetworkModel> network;
};

std::unique_ptr<Routed> routed_plan(const Compiled& plan, const ExpertRouting& routing) {
  auto made = std::make_unique<Routed>();
  made->graph = routed_graph(plan.graph, routing);
  made->network = make_routed_network(
      made->graph, make_flow_network(plan.cluster, make_network_model(plan.cluster)));
  return made;
}

Simulation timed(const PhysicalGraph& graph, const CostModel& cost, const NetworkModel& network,
                 SimulationMode mode, bool folded) {
  SimulateOptions options;
  options.mode = mode;
  options.folded = folded;
  return simulate(graph, cost, network, options);
}

TEST_CASE("full places take the time of the plan, in all modes") {
  for (const char* strategy : {"dp=4 ep=4 micro_batch=1", "dp=4 ep=2 tp=2 micro_batch=1 zero=1"}) {
    const Compiled plan = compiled(strategy, "hidden=64", "1");
    const auto full = routed_plan(plan, parse_expert_routing("uniform"));
    const auto network = make_flow_network(plan.cluster, make_network_model(plan.cluster));
    for (const SimulationMode mode :
         {SimulationMode::kTape, SimulationMode::kStep, SimulationMode::kTimed})
      CHECK(timed(full->graph.graph, *plan.cost, *full->network, mode, true).step_time ==
            timed(plan.graph, *plan.cost, *network, mode, true).step_time);
  }
}

TEST_CASE("uneven experts split rank classes before the run and keep the laws of the modes") {
  std::int64_t split = 0;
  for (const std::string strategy :
       {"dp=4 ep=4 micro_batch=1", "dp=8 ep=2 micro_batch=1", "dp=4 ep=4 tp=2 micro_batch=1",
        "dp=4 ep=2 pp=2 micro_batch=1 zero=1"}) {
    CAPTURE(strategy);
    const Compiled plan = compiled(strategy, "hidden=512", "1.2");
    const auto network = make_flow_network(plan.cluster, make_network_model(plan.cluster));
    const Simulation before = timed(plan.graph, *plan.cost, *network, SimulationMode::kTape, true);
    const auto routed = routed_plan(plan, counts({4, 3, 2, 1}));
    const auto run = [&](SimulationMode mode, bool folded) {
      return timed(routed->graph.graph, *plan.cost, *routed->network, mode, folded);
    };
    const Simulation tape = run(SimulationMode::kTape, true);
    CHECK(tape.ranks_simulated >= before.ranks_simulated);
    split += tape.ranks_simulated > before.ranks_simulated ? 1 : 0;
    CHECK(tape.ranks_simulated < static_cast<std::int64_t>(plan.graph.ranks.size()));
    CHECK(tape.step_time < before.step_time);
    CHECK(tape.peak_memory == before.peak_memory);
    CHECK(run(SimulationMode::kTape, false).step_time == tape.step_time);
    CHECK(run(SimulationMode::kStep, true).step_time == tape.step_time);
    const Simulation in_time = run(SimulationMode::kTimed, true);
    CHECK(in_time.step_time >= tape.step_time);
    CHECK(run(SimulationMode::kTimed, false).step_time == in_time.step_time);
    CHECK(tape.parts.compute.max_s > tape.parts.compute.min_s);
  }
  CHECK(split >= 3);
}

TEST_CASE("a graph without experts takes no routing") {
  const Compiled plan = compiled("dp=4 ep=4 micro_batch=1");
  CHECK(expert_sizes(plan.graph) == std::vector<ExpertSizes>{{4, 2, 100, 60}});
  PhysicalGraph dense = plan.graph;
  for (Block& block : dense.blocks)
    for (Actor& actor : block.actors)
      if (actor.kind == "moe_dispatch") actor.kind = "identity";
  CHECK(expert_sizes(dense).empty());
  CHECK(refusal([&] { routed_graph(dense, parse_expert_routing("uniform")); }) ==
        "routing 'uniform': the model has no experts");
}

TEST_CASE("mixtures of different sizes are listed, and take no routing") {
  PhysicalGraph graph = compiled("dp=4 ep=4 micro_batch=1").graph;
  for (Block& block : graph.blocks) {
    const auto dispatch =
        std::find_if(block.actors.begin(), block.actors.end(),
                     [](const Actor& actor) { return actor.kind == "moe_dispatch"; });
    if (dispatch == block.actors.end()) continue;
    Actor smaller = *dispatch;
    smaller.attributes.set("capacity", std::int64_t{50});
    block.actors.push_back(smaller);
  }
  CHECK(expert_sizes(graph) == std::vector<ExpertSizes>{{4, 2, 100, 60}, {4, 2, 100, 50}});
  CHECK(
      refusal([&] { routed_graph(graph, parse_expert_routing("uniform")); }) ==
      "routing 'uniform': the model has mixtures of experts of different sizes (4 experts with 60 "
      "places, 4 with 50)");
}

}  // namespace
}  // namespace sextant::expert_routing_test
