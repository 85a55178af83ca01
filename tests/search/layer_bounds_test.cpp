// Bounds that know the communication inside layers, against what the simulator says.
#include "compiler/expand/layer_cells.h"
#include "compiler/training/training_graph.h"
#include "compiler/words/stage.h"
#include "search/bounds/kept_bytes.h"
#include "search/bounds/least_costs.h"
#include "search/bounds/node_facts.h"
#include "search/bounds/replica_exchange.h"
#include "search/bounds/shorter_model.h"
#include "simulator/cluster_files/cluster_file.h"
#include "tests/search/small_spaces.h"
#include "tests/support/long_run.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace sextant::layer_bounds_test {
namespace {

using namespace small_spaces;

std::vector<SearchInstance> instances_with_like_layers() {
  Cluster two_nodes = load_cluster("dgx-h100:nodes=1");
  two_nodes.nodes = 2;
  two_nodes.devices_per_node = 4;
  ModelConfig uneven = small_gpt(6, 4);
  uneven.vocab = 387;  // the first and the last layer are split unevenly, blocks are not
  return {{"one node", small_gpt(6, 4), load_cluster("dgx-h100:nodes=1"), 8, DType::kBF16},
          {"odd vocabulary", uneven, load_cluster("dgx-h100:nodes=1"), 8, DType::kBF16},
          {"two nodes", small_gpt(4, 8), two_nodes, 16, DType::kBF16},
          {"processor cores", small_gpt(4, 4), load_cluster("cpu:ranks=4,memory=2GiB"), 8,
           DType::kF32}};
}

constexpr NodeFacts::Share kShares[] = {NodeFacts::Share::kOfWholeSequences,
                                        NodeFacts::Share::kOfAllSamples,
                                        NodeFacts::Share::kOfMicroBatch};

// What a search of the instance knows.
struct Known {
  explicit Known(const SearchInstance& instance, SearchProblem of = {})
      : problem(of.cluster == nullptr ? problem_of(instance) : std::move(of)),
        models(make_search_models(problem)),
        costs(instance.cluster, instance.dtype, *models.cost),
        first(first_graph(problem)),
        facts(problem, instance.cluster, costs, first, models, never) {}

  const SearchProblem problem;
  const SearchModels models;
  const LeastCosts costs;
  const FirstGraph first;
  const StopPoll never;
  NodeFacts facts;
};

std::vector<SpaceNode> nodes_above(const StrategySpace& space, const Strategy& leaf) {
  std::vector<SpaceNode> above, level = space.meshes();
  while (true) {
    const auto found = std::find_if(level.begin(), level.end(), [&](const SpaceNode& node) {
      return space.contains(node, leaf);
    });
    REQUIRE(found != level.end());
    above.push_back(*found);
    if (above.back().level == Level::kPieces) return above;
    level = space.children(above.back());
  }
}

// Leaves that lie evenly; in long runs many more at random, of the seed in SEXTANT_SEED.
std::vector<std::size_t> sample_of(std::size_t leaves) {
  std::vector<std::size_t> sample;
  const std::size_t stride = std::max<std::size_t>(1, leaves / 16);
  for (std::size_t index = 0; index < leaves; index += stride) sample.push_back(index);
  if (!is_long_run()) return sample;
  constexpr std::size_t kMore = 100;
  const char* const seed = std::getenv("SEXTANT_SEED");
  std::mt19937_64 random(seed == nullptr ? 1 : std::strtoull(seed, nullptr, 10));
  for (std::size_t i = 0; i < kMore; ++i) sample.push_back(random() % leaves);
  return sample;
}

// Heads whose products have odd extents on every device, as large as some layers.
SearchInstance large_head() {
  SearchInstance instance{"large head", small_gpt(4, 8), load_cluster("dgx-h100:nodes=1"), 16,
                          DType::kBF16};
  instance.model.hidden = 1024;
  instance.model.head_size = 128;
  instance.model.ffn = 4096;
  instance.model.vocab = 50257;
  instance.model.sequence = 512;
  return instance;
}

// Two nodes, and layers large enough that collectives are what they wait for.
SearchInstance large_layers() {
  Cluster cluster = load_cluster("dgx-h100:nodes=1");
  cluster.nodes = 2;
  cluster.devices_per_node = 4;
  ModelConfig model = small_gpt(6, 8);
  model.hidden = 2048;
  model.head_size = 256;
  model.ffn = 8192;
  model.sequence = 1024;
  return {"large layers", model, cluster, 32, DType::kBF16};
}

TEST_CASE("no bound with the communication inside layers exceeds what the simulator says") {
  std::vector<SearchInstance> all = instances_with_like_layers();
  all.push_back(large_head());
  if (is_long_run()) all.push_back(large_layers());
  all.push_back(
      {"experts",
       load_model("mixtral-8x7b:layers=4,hidden=64,heads=4,kv_heads=2,ffn=128,vocab=130,seq=32"),
       load_cluster("dgx-h100:nodes=1"), 8, DType::kBF16});
  for (const SearchInstance& instance : all) {
    CAPTURE(instance.name);
    Known known(instance);
    const StrategySpace space = space_of(instance);
    const std::vector<Strategy> leaves = leaves_of(space);
    std::int64_t compiled = 0, higher = 0;
    for (const std::size_t index : sample_of(leaves.size())) {
      const Strategy& strategy = leaves[index];
      const std::string text = to_string(strategy);
      CAPTURE(text);
      try {
        const Candidate candidate = evaluate_strategy(
            known.problem.training_graph(strategy), strategy, instance.global_batch, known.models);
        const Duration bound = known.facts.bound_with_layers(strategy);
        CHECK(bound <= candidate.step_time);
        for (const SpaceNode& node : nodes_above(space, strategy)) {
          CHECK(known.facts.bound_with_replicas(node) <= candidate.step_time);
          for (const NodeFacts::Share share : kShares) {
            const auto shared =
                known.facts.bound_with_choices(node, space.layer_choices(node), share, Duration());
            CHECK(shared.value_or(Duration()) <= candidate.step_time);
          }
          // With what was staged for these.
          if (node.level >= Level::kSchedule)
            CHECK(known.facts.excess_of(node).needed <= candidate.peak_memory);
        }
        if (bound > known.facts.bound_of({Level::kPieces, strategy})) ++higher;
        ++compiled;
      } catch (const Error& error) {
        const std::string reason = error.what();
        CAPTURE(reason);
        CHECK(error.code() == ErrorCode::kInfeasible);
      }
    }
    CHECK(compiled > 3);
    CHECK(higher > compiled / 4);
  }
}

// Products of 50257 columns over 2 or 4 devices are several times slower than their work says, and
// the stage that has them is the slowest.
TEST_CASE("the head counts with what its own products take") {
  const SearchInstance instance = large_head();
  Known known(instance);
  const StrategySpace space = space_of(instance);
  for (const char* text : {"dp=2 tp=4 micro_batch=2", "dp=4 tp=2 micro_batch=2 sp=on",
                           "dp=1 tp=4 pp=2 micro_batch=4", "dp=2 tp=2 pp=2 micro_batch=2 sp=on"}) {
    CAPTURE(text);
    const Strategy strategy = parse_strategy(text);
    const Duration step = evaluate_strategy(known.problem.training_graph(strategy), strategy,
                                            instance.global_batch, known.models)
                              .step_time;
    const auto share = [&](Duration bound) { return to_seconds(bound) / to_seconds(step); };
    const double own = share(known.facts.bound_with_layers(strategy));
    const double work = share(known.facts.bound_with_replicas({Level::kPieces, strategy}));
    CHECK(own <= 1);
    CHECK(own > 0.75);
    CHECK(own > 1.1 * work);
    for (const SpaceNode& node : nodes_above(space, strategy)) {
      if (node.level < Level::kSchedule) continue;
      CAPTURE(to_string(node.level));
      const auto shared = known.facts.bound_with_choices(
          node, space.layer_choices(node), NodeFacts::Share::kOfMicroBatch, Duration());
      REQUIRE(shared);
      CHECK(share(*shared) <= 1);
      CHECK(share(*shared) > 0.6);
    }
  }
}

// Of micro-batches, pieces, sp, recomputation and schedule that are open, of the samples that all
// micro-batches share: no more than what the layers of the leaf are found to take.
TEST_CASE("no bound with layers that leaves share is above what the leaf's own layers say") {
  std::vector<SearchInstance> all = instances_with_like_layers();
  all.push_back(large_layers());
  all.push_back({"experts", load_model("mixtral-8x7b:layers=4,seq=64"),
                 load_cluster("dgx-h100:nodes=1"), 8, DType::kBF16});
  all.push_back({"measured", small_gpt(4, 4), measured_cluster(), 8, DType::kF32});
  for (const SearchInstance& instance : all) {
    CAPTURE(instance.name);
    Known known(instance);
    const StrategySpace space = space_of(instance);
    const std::vector<Strategy> leaves = leaves_of(space);
    const std::size_t stride =
        std::max<std::size_t>(1, leaves.size() / (is_long_run() ? 40 : 16)) | 1;
    std::int64_t compared = 0, higher = 0;
    for (std::size_t index = 0; index < leaves.size(); index += stride) {
      const Strategy& leaf = leaves[index];
      const std::string text = to_string(leaf);
      CAPTURE(text);
      const Duration own = known.facts.bound_with_layers(leaf);
      if (own == known.facts.bound_of({Level::kPieces, leaf})) continue;  // nothing is known
      for (const SpaceNode& node : nodes_above(space, leaf)) {
        CAPTURE(to_string(node.level));
        std::optional<Duration> all_samples;
        for (const NodeFacts::Share share : kShares) {
          const auto shared =
              known.facts.bound_with_choices(node, space.layer_choices(node), share, Duration());
          if (!shared) continue;
          // What is repeated beside a wait hides it from its own bound, and takes no less for that.
          if (*shared > own)
            CHECK(*shared <= evaluate_strategy(known.problem.training_graph(leaf), leaf,
                                               instance.global_batch, known.models)
                                 .step_time);
          if (all_samples) CHECK(*all_samples <= *shared);
          all_samples = shared;
          ++compared;
          if (*shared > known.facts.bound_of(node)) ++higher;
        }
      }
    }
    CHECK(compared > 20);
    CHECK(higher > compared / 4);
  }
}

// The same against the simulator, where layers are large.
TEST_CASE("no bound with layers that leaves share exceeds what the simulator says") {
  const SearchInstance instance = large_layers();
  Known known(instance);
  const StrategySpace space = space_of(instance);
  for (const char* text :
       {"tp=4 pp=2 micro_batch=2 schedule=zb-h1 pieces=4",
        "tp=4 pp=2 micro_batch=1 schedule=zb-v virtual=2 pieces=8",
        "tp=4 pp=2 micro_batch=2 schedule=zb-h1 sp=on pieces=2",
        "dp=2 tp=2 pp=2 micro_batch=2 schedule=gpipe pieces=4 zero=3",
        "tp=4 pp=2 micro_batch=4 schedule=interleaved virtual=3 pieces=8",
        "tp=8 micro_batch=8 pieces=4 recompute=full",
        "tp=8 micro_batch=32 sp=on recompute=selective", "tp=2 pp=4 micro_batch=16 recompute=full",
        "dp=2 pp=4 micro_batch=16 recompute=full", "dp=2 pp=4 micro_batch=8 recompute=1",
        "tp=2 pp=4 micro_batch=32 recompute=selective pieces=8 sp=on",
        "dp=4 cp=2 micro_batch=4 cp_mode=a2a", "dp=8 micro_batch=2 zero=1",
        "cp=2 tp=2 pp=2 micro_batch=16 sp=on", "pp=2 dp=4 micro_batch=8"}) {
    CAPTURE(text);
    const Strategy strategy = parse_strategy(text);
    const Candidate candidate = evaluate_strategy(known.problem.training_graph(strategy), strategy,
                                                  instance.global_batch, known.models);
    CHECK(known.facts.bound_with_layers(strategy) <= candidate.step_time);
    for (const SpaceNode& node : nodes_above(space, strategy)) {
      CAPTURE(to_string(node.level));
      for (const NodeFacts::Share share : kShares) {
        const auto shared =
            known.facts.bound_with_choices(node, space.layer_choices(node), share, Duration());
        CHECK(shared.has_value() == (node.level != Level::kMesh));
        if (shared) CHECK(*shared <= candidate.step_time);
      }
      CHECK(known.facts.bound_of(node) <= candidate.step_time);
    }
  }
}

// Parameters so large that no reduction of theirs shares a launch, few samples, all ZeRO stages.
TEST_CASE("no bound with what replicas exchange exceeds what the simulator says") {
  SearchInstance instance = large_layers();
  instance.model.sequence = 128;
  SearchInstance experts{"experts", load_model("mixtral-8x7b:layers=4,seq=64"), instance.cluster,
                         16, DType::kBF16};
  const std::vector<const char*> texts = {
      "dp=8 micro_batch=1",
      "dp=8 micro_batch=1 zero=1",
      "dp=8 micro_batch=1 zero=2",
      "dp=8 micro_batch=2 zero=3",
      "dp=4 tp=2 micro_batch=1 zero=3 recompute=full",
      "dp=2 cp=4 micro_batch=2 zero=2",
      "dp=4 cp=2 micro_batch=1 zero=1",
      "dp=4 cp=2 micro_batch=4 cp_mode=a2a zero=3",
      "dp=4 pp=2 micro_batch=1 zero=1",
      "dp=4 pp=2 micro_batch=1 schedule=gpipe zero=3",
      "dp=4 pp=2 micro_batch=1 schedule=interleaved virtual=3 zero=1",
      "dp=2 tp=2 pp=2 micro_batch=2 schedule=interleaved virtual=3 sp=on",
      "dp=4 pp=2 micro_batch=1 schedule=zb-h1 zero=2 recompute=1",
      "dp=4 pp=2 micro_batch=1 schedule=zb-v virtual=2 zero=1"};
  const std::vector<const char*> of_experts = {
      "dp=8 ep=4 micro_batch=1 zero=1", "dp=8 ep=8 micro_batch=1 zero=3",
      "dp=4 ep=2 tp=2 micro_batch=1 zero=2", "dp=8 micro_batch=1"};
  for (const auto& [of, strategies] :
       {std::pair(&instance, &texts), std::pair(&experts, &of_experts)}) {
    Known known(*of);
    const StrategySpace space = space_of(*of);
    std::int64_t higher = 0;
    double nearest = 0;
    for (const char* text : *strategies) {
      CAPTURE(text);
      const Strategy strategy = parse_strategy(text);
      const Candidate candidate = evaluate_strategy(known.problem.training_graph(strategy),
                                                    strategy, of->global_batch, known.models);
      for (const SpaceNode& node : nodes_above(space, strategy)) {
        CAPTURE(to_string(node.level));
        const Duration bound = known.facts.bound_with_replicas(node);
        CHECK(bound <= candidate.step_time);
        CHECK(bound >= known.facts.bound_of(node));
        if (bound > known.facts.bound_of(node)) ++higher;
        nearest = std::max(nearest, to_seconds(bound) / to_seconds(candidate.step_time));
      }
      CHECK(known.facts.bound_with_layers(strategy) <= candidate.step_time);
    }
    CHECK(higher > 10);
    CHECK(nearest > 0.85);
  }
}

// What a ZeRO stage, a schedule or a number of chunks exchanges is no less than what all of them
// do.
TEST_CASE("bounds with what replicas exchange grow from a micro-batch down to its leaves") {
  SearchInstance instance = large_layers();
  instance.model.sequence = 128;
  Known known(instance);
  const StrategySpace space =
      space_of(instance, StrategyFilter({"dp=4", "micro_batch=2"}, {"recompute=full", "pieces=4"}));
  std::int64_t compared = 0, higher = 0;
  const auto compare = [&](const auto& self, const SpaceNode& node) -> void {
    const Duration above = known.facts.bound_with_replicas(node);
    if (above > known.facts.bound_of(node)) ++higher;
    for (const SpaceNode& child : space.children(node)) {
      const std::string text = to_string(child.strategy);
      CAPTURE(text);
      CHECK(above <= known.facts.bound_with_replicas(child));
      ++compared;
      self(self, child);
    }
  };
  for (const SpaceNode& mesh : space.meshes())
    for (const SpaceNode& micro_batch : space.children(mesh)) compare(compare, micro_batch);
  CHECK(compared > 500);
  CHECK(higher > compared / 10);
}

// Without sequence parallelism backward is cut where weight gradients are cells of their own.
TEST_CASE("layers in pieces are those of the schedule") {
  const SearchInstance instance = large_layers();
  const Known known(instance);
  ShorterModel shorter(known.problem, known.first.training, known.first.samples);
  LayerTable table(known.models, instance.cluster, shorter);
  const auto cells_of = [&](const std::string& text) {
    const Strategy strategy = parse_strategy(text + " tp=4 micro_batch=2 pieces=4");
    const LayerCells* const cells = table.cells(strategy, known.never);
    REQUIRE(cells != nullptr);
    const StagedGraph staged =
        make_staged_graph(known.problem.shorter_graph(strategy, ShorterModel::kBlocks), strategy, 2,
                          *known.models.boxing);
    CHECK(*cells == layer_cells(staged, ShorterModel::kMiddle, *known.models.cost,
                                *known.models.network, ExpandOptions()));
    return *cells;
  };
  CHECK(cells_of("schedule=zb-h1").backward != cells_of("schedule=1f1b").backward);
}

// A product of half the rows may take less than half of what was measured of the whole, so the
// model is asked for it.
TEST_CASE("with measured kernels whole products say what pieces take at least") {
  SearchInstance instance{"measured", small_gpt(4, 4), measured_cluster(), 8, DType::kF32};
  // The larger a product, the longer it takes per FLOP.
  for (MeasuredKernel& kernel : instance.cluster.device.measured->kernels)
    if (kernel.kernel != "elementwise") kernel.seconds *= std::cbrt(kernel.flops);
  Known known(instance);
  ShorterModel shorter(known.problem, known.first.training, known.first.samples);
  LayerTable table(known.models, instance.cluster, shorter);
  const auto staged = [&](const std::string& text) -> const StagedLayer& {
    const StagedLayer* const layer = table.staged(parse_strategy(text), known.never);
    REQUIRE(layer != nullptr);
    return *layer;
  };
  for (const char* sequence : {"", " sp=on"}) {
    const std::string text = std::string("tp=2 micro_batch=2 schedule=zb-h1") + sequence;
    const StagedLayer& whole = staged(text);
    for (const std::int64_t pieces : {2, 4}) {
      CAPTURE(text);
      CAPTURE(pieces);
      const LayerCells own = staged(text + " pieces=" + std::to_string(pieces)).own();
      const CutLayerCells* const least = whole.in_pieces(pieces);
      REQUIRE(least != nullptr);
      CHECK(least->pieces == pieces);
      CHECK(least->cut.forward.to_next <= own.forward.to_next);
      CHECK(least->cut.forward.work <= own.forward.work);
      CHECK(least->cut.backward.to_next <= own.backward.to_next);
      CHECK(least->cut.backward.work <= own.backward.work);
      CHECK(least->cut.weight_grad <= own.weight_grad);
      CHECK(least->cut.collectives <= own.collectives);
      CHECK(least->cut.forward.work < whole.own().forward.work);
      // Slices and parts of products aside it is what the layer takes.
      CHECK(2 * least->cut.forward.work > own.forward.work);
    }
  }
  // Positions that the pieces of all devices do not fill alike: nothing is said.
  SearchInstance short_rows = instance;
  short_rows.model.sequence = 12;
  Known uneven(short_rows);
  ShorterModel odd(uneven.problem, uneven.first.training, uneven.first.samples);
  LayerTable of_odd(uneven.models, short_rows.cluster, odd);
  const StagedLayer* const layer =
      of_odd.staged(parse_strategy("tp=2 micro_batch=2"), uneven.never);
  REQUIRE(layer != nullptr);
  CHECK(layer->in_pieces(2) != nullptr);
  CHECK(layer->in_pieces(4) == nullptr);

  // Of four numbers of pieces, with and without sp, two layers are staged.
  const SpaceNode node{Level::kMicroBatch, parse_strategy("tp=2 dp=2 micro_batch=2")};
  const std::vector<Strategy> choices = space_of(instance).layer_choices(node);
  CHECK(choices.size() == 8);
  const auto bound =
      known.facts.bound_with_choices(node, choices, NodeFacts::Share::kOfAllSamples, Duration());
  REQUIRE(bound);
  CHECK(*bound > known.facts.bound_of(node));
  CHECK(known.facts.staging_work() == 2);
}

// What a node is said to take at least is no more than what a leaf below it is.
TEST_CASE("bounds grow from a schedule down to its leaves with layers") {
  const SearchInstance instance = instances_with_like_layers()[0];
  Known known(instance);
  const StrategySpace space = space_of(instance, StrategyFilter({"tp=4", "micro_batch=2"}, {}));
  std::int64_t compared = 0, higher = 0;
  const auto compare = [&](const auto& self, const SpaceNode& node) -> void {
    for (const SpaceNode& child : space.children(node)) {
      if (node.level >= Level::kSchedule && compared < 400) {
        const std::string text = to_string(child.strategy);
        CAPTURE(text);
        const bool is_leaf = child.level == Level::kPieces;
        const Duration above = known.facts.bound_of(node);
        const Duration below =
            is_leaf ? known.facts.bound_with_layers(child.strategy) : known.facts.bound_of(child);
        CHECK(above <= below);
        ++compared;
        if (is_leaf && below > known.facts.bound_of(child)) ++higher;
      }
      self(self, child);
    }
  };
  for (const SpaceNode& mesh : space.meshes()) compare(compare, mesh);
  CHECK(compared > 100);
  CHECK(higher > compared / 2);
}

// GPipe has every micro-batch in flight at once, so two more of them take what the layers of a
// stage keep of two, and little else.
TEST_CASE("a micro-batch more takes what its layers are said to keep") {
  SearchInstance instance{"kept", small_gpt(8, 4), load_cluster("dgx-h100:nodes=1"), 8,
                          DType::kBF16};
  instance.model.sequence = 128;
  const SearchProblem problem = problem_of(instance);
  const SearchModels models = make_search_models(problem);
  constexpr std::int64_t kBlocksOfStage = 4;
  std::map<std::string, Bytes> all;
  for (const char* text : {"tp=1", "tp=4", "tp=4 sp=on", "tp=2 cp=2", "tp=4 recompute=selective",
                           "tp=4 recompute=full", "tp=4 sp=on recompute=full", "tp=4 pieces=4"}) {
    CAPTURE(text);
    const Strategy layer = parse_strategy(std::string(text) + " micro_batch=2");
    const Bytes kept =
        kept_by_layer(make_staged_graph(problem.shorter_graph(layer, ShorterModel::kBlocks), layer,
                                        2, *models.boxing),
                      ShorterModel::kMiddle);
    Strategy whole = layer;
    whole.pp = 2;
    whole.schedule = Schedule::kGPipe;
    const auto peak_of = [&](std::int64_t micro_batches) {
      return evaluate_strategy(problem.training_graph(whole), whole, 2 * micro_batches, models)
          .peak_memory;
    };
    const Bytes more = peak_of(8) - peak_of(6);
    CHECK(2 * kBlocksOfStage * kept.value <= more.value * 1.01);
    CHECK(2 * kBlocksOfStage * kept.value >= more.value * 0.6);
    all[text] = kept;
  }
  // Norms and sums are whole where nothing splits the sequence.
  CHECK(2 * all["tp=4"].value > 3 * all["tp=4 sp=on"].value);
  CHECK(all["tp=4 recompute=full"].value == 4 * all["tp=4 sp=on recompute=full"].value);
}

// Two nodes of four: dp goes from one to the other, cp stays inside. All eight together have the
// same ranks and no axis to be whole on.
TEST_CASE("what is whole on cp is not exchanged in parts of it at no cost") {
  const SearchInstance instance = large_layers();
  Known known(instance);
  const Bytes gradient(std::int64_t{1} << 30), copies(std::int64_t{1} << 29);
  CollectiveTimes collectives(*known.models.network);
  const auto times = [&](const char* text, bool sums_over_cp) {
    return ReplicaExchange(parse_strategy(text), known.first.training, collectives, sums_over_cp)
        .times_of(gradient, copies, false, true);
  };
  const ReplicaTimes in_parts = times("dp=2 cp=4", false), whole = times("dp=2 cp=4", true),
                     together = times("dp=8", false);
  CHECK(whole.gather > in_parts.gather);
  CHECK(whole.reduce > in_parts.reduce);
  CHECK(whole.reduce_each > in_parts.reduce_each);
  CHECK(whole.all_reduce > in_parts.all_reduce);
  CHECK(whole.gather <= together.gather);
  CHECK(whole.reduce_each <= together.reduce_each);
  CHECK(whole.all_reduce <= together.all_reduce);
}

// The gathers of a layer stand in front of the collectives of the layer before it.
TEST_CASE("layers wait for gathers of parameters on the queue of collectives") {
  SearchInstance instance = large_layers();
  instance.model.sequence = 256;
  Known known(instance);
  const StrategySpace space = space_of(instance);
  double nearest = 0, most = 0;
  for (const char* text :
       {"dp=2 tp=4 micro_batch=2 zero=3 sp=on", "dp=2 tp=4 micro_batch=2 zero=3",
        "dp=2 tp=4 micro_batch=2 zero=3 sp=on pieces=2", "dp=4 tp=2 micro_batch=1 zero=3 sp=on",
        "dp=4 tp=2 micro_batch=1 zero=3 sp=on recompute=full",
        "dp=4 tp=2 micro_batch=2 zero=3 sp=on recompute=4",
        "dp=2 tp=4 micro_batch=2 zero=3 sp=on recompute=selective",
        "dp=2 tp=2 pp=2 micro_batch=2 zero=3 sp=on schedule=interleaved virtual=3",
        "dp=2 tp=2 pp=2 micro_batch=2 zero=3 sp=on schedule=zb-v virtual=2 pieces=2",
        "dp=2 tp=2 pp=2 micro_batch=1 zero=3 sp=on schedule=zb-h1 recompute=1",
        "dp=2 tp=2 pp=2 micro_batch=4 zero=3 schedule=gpipe recompute=2",
        "dp=2 tp=2 cp=2 micro_batch=2 zero=3 sp=on", "dp=8 micro_batch=1 zero=3",
        "dp=2 tp=2 cp=2 cp_mode=a2a micro_batch=2 zero=3"}) {
    CAPTURE(text);
    const Strategy strategy = parse_strategy(text);
    const Duration step = evaluate_strategy(known.problem.training_graph(strategy), strategy,
                                            instance.global_batch, known.models)
                              .step_time;
    const Duration own = known.facts.bound_with_layers(strategy);
    CHECK(own <= step);
    nearest = std::max(nearest, to_seconds(own) / to_seconds(step));
    const SpaceNode leaf{Level::kPieces, strategy};
    const auto shared = known.facts.bound_with_choices(leaf, space.layer_choices(leaf),
                                                       NodeFacts::Share::kOfMicroBatch, Duration());
    if (shared) most = std::max(most, to_seconds(own) / to_seconds(*shared));
  }
  CHECK(nearest > 0.9);
  CHECK(most > 1.05);
}

TEST_CASE("gathers of the middle one of three blocks speak for those of a longer model") {
  const SearchInstance instance = large_layers();
  const SearchProblem problem = problem_of(instance);
  const SearchModels models = make_search_models(problem);
  const auto fetching = [&](const std::string& text, int blocks, int layer) {
    const Strategy strategy = parse_strategy(text + " micro_batch=2");
    const StagedGraph staged =
        make_staged_graph(problem.shorter_graph(strategy, blocks), strategy, 2, *models.boxing);
    return fetching_layer(staged, layer, *models.cost, *models.network, ExpandOptions());
  };
  for (const char* text : {"dp=2 tp=4 zero=3 sp=on", "dp=4 tp=2 zero=3 recompute=full",
                           "dp=2 tp=4 zero=3 sp=on pieces=2", "dp=2 tp=2 cp=2 zero=3"}) {
    CAPTURE(text);
    const std::optional<FetchingLayer> middle = fetching(text, 3, 2);
    REQUIRE(middle);
    for (const FetchingCell& cell : {middle->forward, middle->backward}) {
      CHECK(cell.fetch > Duration());
      CHECK(cell.to_next >= cell.fetch + cell.alone);
    }
    for (const int layer : {2, 3, 5}) CHECK(fetching(text, 6, layer) == middle);
  }
  CHECK(!fetching("dp=2 tp=4 zero=2", 3, 2));
}

// What was asked of one mesh is there for others whose groups are the same ranks.
TEST_CASE("a group is the ranks of its steps, and what it takes is what the network says") {
  const SearchInstance instance = large_layers();
  const Known known(instance);
  CollectiveTimes times(*known.models.network);
  const auto values = [&](const CollectiveTimes::Steps& steps) {
    std::vector<std::int32_t> ranks;
    for (const Rank rank : times.group(steps).members) ranks.push_back(rank.value);
    return ranks;
  };
  CHECK(values({}) == std::vector<std::int32_t>{0});
  CHECK(values({{4, 2}}) == std::vector<std::int32_t>{0, 4});
  CHECK(values({{4, 2}, {1, 2}}) == std::vector<std::int32_t>{0, 1, 4, 5});
  CollectiveTimes::Group& group = times.group({{2, 4}});
  CHECK(&group == &times.group({{2, 4}}));
  const Bytes own(std::int64_t{1} << 26);
  for (int again = 0; again < 2; ++again)
    for (const Primitive primitive : {Primitive::kAllReduce, Primitive::kAllGather}) {
      Communication communication;
      communication.primitive = primitive;
      const std::vector<Rank> members = {Rank(0), Rank(2), Rank(4), Rank(6)};
      CHECK(times.duration(primitive, own, group) ==
            known.models.network->duration({.communication = &communication,
                                            .members = members,
                                            .global_bytes = own,
                                            .largest_volume = own}));
    }
}

TEST_CASE("three blocks say of a deep model what all of its layers say") {
  std::vector<SearchInstance> deep = instances_with_like_layers();
  deep.resize(2);
  for (const char* model : {"llama:layers=7,hidden=64,heads=4,kv_heads=2,ffn=128,vocab=130,seq=32",
                            "mixtral-8x7b:layers=6,seq=64"})
    deep.push_back({model, load_model(model), load_cluster("dgx-h100:nodes=1"), 8, DType::kBF16});
  for (const SearchInstance& instance : deep) {
    CAPTURE(instance.name);
    SearchProblem whole = problem_of(instance);
    whole.shorter_graph = nullptr;
    Known of_blocks(instance), of_all(instance, std::move(whole));
    CHECK(ShorterModel(of_blocks.problem, of_blocks.first.training, of_blocks.first.samples)
              .like_layers()
              .has_value());
    for (const char* text : {"dp=8 micro_batch=1 zero=3", "dp=2 tp=4 micro_batch=2 zero=1",
                             "tp=2 pp=4 micro_batch=4", "pp=2 dp=4 micro_batch=1 recompute=full",
                             "tp=8 micro_batch=8 recompute=selective sp=on"}) {
      CAPTURE(text);
      const SpaceNode leaf{Level::kPieces, parse_strategy(text)};
      CHECK(of_blocks.facts.bound_of(leaf) == of_all.facts.bound_of(leaf));
      CHECK(of_blocks.facts.excess_of(leaf).needed == of_all.facts.excess_of(leaf).needed);
    }
  }
}

// One layer between two like ones takes what it takes, however many there are.
TEST_CASE("the middle one of three blocks speaks for all blocks of a longer model") {
  const SearchInstance instance = instances_with_like_layers()[0];
  const SearchProblem problem = problem_of(instance);
  const SearchModels models = make_search_models(problem);
  for (const char* text : {"tp=2", "dp=2 tp=4", "dp=2 tp=2 sp=on", "tp=4 sp=on pieces=2",
                           "tp=2 pieces=4", "tp=2 sp=on recompute=full", "tp=2 recompute=selective",
                           "cp=2 tp=2", "dp=2 cp=2 cp_mode=a2a", "dp=4"}) {
    CAPTURE(text);
    const Strategy strategy = parse_strategy(std::string(text) + " micro_batch=2");
    const auto cells_of = [&](int blocks, int layer) {
      const StagedGraph staged =
          make_staged_graph(problem.shorter_graph(strategy, blocks), strategy, 2, *models.boxing);
      return layer_cells(staged, layer, *models.cost, *models.network, ExpandOptions());
    };
    const std::optional<LayerCells> middle = cells_of(3, 2);
    REQUIRE(middle);
    CHECK(middle->forward.alone <= middle->forward.to_next);
    CHECK(middle->forward.work <= middle->forward.alone);
    for (const int layer : {2, 3, 5}) CHECK(cells_of(6, layer) == middle);
  }
}

}  // namespace
}  // namespace sextant::layer_bounds_test
