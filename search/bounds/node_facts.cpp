// Graphs are built once per key, profiles once per number of samples.
#include "search/bounds/node_facts.h"

#include "core/base/check.h"
#include "core/base/divisors.h"
#include "core/graphs/operator.h"
#include "core/text/counted_text.h"

#include <algorithm>
#include <optional>

namespace sextant {
namespace {

// Samples of a micro-batch: a graph in a file has its own.
std::optional<std::int64_t> batch_of(const LogicalGraph& graph) {
  for (const LogicalOp& op : graph.ops()) {
    if (!op.inputs.empty() || !graph.registry().get(op.kind).on_host) continue;
    const Shape& shape = graph.tensor(op.outputs[0]).type.shape;
    if (shape.rank() > 0) return shape[0];
  }
  return std::nullopt;
}

GraphProfile::Open open_at(const SpaceNode& node) {
  return {.recompute = node.level < Level::kRecompute,
          .zero = node.level < Level::kZero,
          .pieces = node.level < Level::kPieces && node.strategy.tp > 1};
}

}  // namespace

bool is_refusal(const Error& error) {
  return error.code() == ErrorCode::kInfeasible || error.code() == ErrorCode::kBadInput;
}

FirstGraph first_graph(const SearchProblem& problem) {
  std::optional<Error> refusal;
  for (const std::int64_t samples : divisors_of(problem.global_batch)) {
    Strategy plain;
    plain.micro_batch = samples;
    try {
      LogicalGraph training = problem.training_graph(plain);
      const std::int64_t batch = batch_of(training).value_or(samples);
      return {std::move(training), batch};
    } catch (const Error& error) {
      if (!is_refusal(error)) throw;
      if (!refusal) refusal = error;
    }
  }
  throw *refusal;
}

const LogicalGraph& NodeFacts::graph_of(const Strategy& strategy) {
  return graphs_.of(strategy, [&] {
    stop_();
    return problem_.training_graph(strategy);
  });
}

const GraphProfile& NodeFacts::profile_of(const Strategy& strategy) {
  const std::int64_t samples = strategy.dp * strategy.micro_batch;
  const auto known = profiles_.find(samples);
  if (known != profiles_.end()) return known->second;
  if (const auto refused = refused_samples_.find(samples); refused != refused_samples_.end())
    throw refused->second;
  try {
    return profiles_.emplace(samples, made_profile(strategy)).first->second;
  } catch (const Error& error) {
    if (is_refusal(error)) refused_samples_.emplace(samples, error);
    throw;
  }
}

GraphProfile NodeFacts::made_profile(const Strategy& strategy) {
  const Strategy plain = plain_strategy(strategy);
  const auto like = shorter_.like_layers();
  stop_();
  std::optional<LogicalGraph> whole;
  if (!like) whole = problem_.training_graph(plain);
  const LogicalGraph& training = like ? shorter_.graph(plain) : *whole;
  stop_();
  const std::int64_t samples = strategy.dp * strategy.micro_batch;
  const std::int64_t batch = batch_of(training).value_or(samples);
  require(batch == samples, ErrorCode::kInfeasible,
          "the graph has a batch of {}, and dp={} x micro_batch={} = {}", counted(batch, "sample"),
          strategy.dp, strategy.micro_batch, samples);
  return like ? GraphProfile(training, *like) : GraphProfile(training);
}

const std::vector<LayerPlace>& NodeFacts::places_of(const Strategy& strategy) {
  const auto key =
      std::tuple(strategy.pp, strategy.virtual_stages, strategy.schedule == Schedule::kZeroBubbleV);
  const auto known = places_.find(key);
  if (known != places_.end()) return known->second;
  return places_.emplace(key, place_layers(first_.training.num_layers(), strategy)).first->second;
}

std::int64_t NodeFacts::micro_batches_of(const Strategy& strategy) const {
  return num_micro_batches(strategy, problem_.global_batch);
}

Duration NodeFacts::bound_of(const SpaceNode& node,
                             const GraphProfile::ReplicasOfLayers& replicas) {
  const Strategy& strategy = node.strategy;
  if (node.level == Level::kMesh) return Duration();
  const std::int64_t micro_batches = micro_batches_of(strategy);
  const GraphProfile& profile = profile_of(strategy);
  const GraphProfile::KnownTimes known{{}, replicas};
  if (node.level == Level::kMicroBatch)
    return profile.least_time(strategy, micro_batches, costs_, known);
  return profile.time_bound(strategy, places_of(strategy), micro_batches, costs_, open_at(node),
                            known);
}

const std::vector<bool>& NodeFacts::layers_like_middle() {
  if (like_middle_.empty())
    for (int layer = 0; layer < first_.training.num_layers(); ++layer)
      like_middle_.push_back(shorter_.is_like_middle(layer));
  return like_middle_;
}

// Samples are split over replicas, so their gradients are, and positions over cp; that no operator
// of the model takes them together is looked up in a step with two parts of each.
bool NodeFacts::sums_over(const Strategy& parts) {
  const auto key = std::pair(parts.cp, parts.context);
  const auto known = sums_over_.find(key);
  if (known != sums_over_.end()) return known->second;
  const std::vector<bool>& alike = layers_like_middle();
  const auto layer = std::find(alike.begin(), alike.end(), true) - alike.begin();
  const auto exchanged = layers_.exchanged(parts, stop_);
  const Bytes all = profile_of(plain_strategy(parts)).gradients_of_layer(static_cast<int>(layer));
  const bool sums = exchanged && exchanged->reads_whole && exchanged->pending >= all;
  sums_over_.emplace(key, sums);
  return sums;
}

bool NodeFacts::replicas_add_up() {
  Strategy plain;
  plain.dp = 2;
  plain.micro_batch = first_.samples;
  return sums_over(plain);
}

bool NodeFacts::parts_of_sequences_add_up(const Strategy& strategy) {
  if (strategy.cp == 1) return false;
  Strategy plain;
  plain.dp = 2;
  plain.cp = 2;
  plain.context = strategy.context;
  plain.micro_batch = first_.samples;
  return sums_over(plain);
}

// Empty: not known. Where nodes are not filled alike, groups of replicas differ.
const GraphProfile::ReplicasOfLayers& NodeFacts::replicas_of(const Strategy& strategy) {
  static const GraphProfile::ReplicasOfLayers none;
  const std::int64_t ranks = strategy.ranks() / strategy.pp;
  const std::int64_t apart = strategy.tp * strategy.cp;
  if (strategy.dp == 1 || strategy.order != kUsualOrder || !strategy.pins.empty()) return none;
  for (const std::int64_t run : {strategy.tp, apart, apart * strategy.ep, ranks})
    if (!lies_alike(cluster_, run)) return none;
  if (!shorter_.has_middle() || !replicas_add_up()) return none;
  const bool over_cp = parts_of_sequences_add_up(strategy);
  const auto [place, is_new] = replicas_.try_emplace(
      ReplicaKey(strategy.dp, strategy.tp, strategy.cp, strategy.ep, over_cp));
  if (is_new)
    place->second = profile_of(strategy).replica_times(
        ReplicaExchange(strategy, first_.training, collective_times_, over_cp),
        layers_like_middle());
  return place->second;
}

// Of the first and the last layer what is known of their queues, where they are like those of the
// shorter model.
GraphProfile::KnownLayers NodeFacts::with_edges(const EdgeLayers& edges) {
  GraphProfile::KnownLayers known(at(first_.training.num_layers()));
  if (shorter_.is_like(0, 0)) known.front().queues = &edges.first;
  const int last = first_.training.num_layers() - 1;
  if (shorter_.is_like(last, ShorterModel::kLayers - 1)) known.back().queues = &edges.last;
  return known;
}

// By layer: those that repeat nothing, and those that repeat all, of recompute=K.
GraphProfile::KnownLayers NodeFacts::known_layers(const Strategy& strategy) {
  const bool by_layer = strategy.recompute.kind == Recompute::Kind::kLayers;
  Strategy plain = strategy, full = strategy;
  if (by_layer) plain.recompute = {};
  full.recompute = {Recompute::Kind::kFull, 0};
  const std::vector<LayerPlace>& places = places_of(strategy);
  const StagedLayer* const staged = layers_.staged(plain, stop_);
  if (staged == nullptr) return {};
  const LayerCells* const of_full = by_layer ? layers_.cells(full, stop_) : nullptr;
  const FetchingLayer* const fetching = layers_.fetching(plain, stop_);
  const FetchingLayer* const fetching_full = by_layer ? layers_.fetching(full, stop_) : nullptr;
  const std::vector<bool> repeats = GraphProfile::repeats_all(strategy, places);
  GraphProfile::KnownLayers known = with_edges(staged->cells.front().edges);
  for (std::size_t layer = 0; layer < places.size(); ++layer) {
    if (!shorter_.is_like_middle(static_cast<int>(layer))) continue;
    const bool is_full = by_layer && repeats[layer];
    known[layer] = {is_full ? of_full : &staged->own(), nullptr,
                    is_full ? fetching_full : fetching};
  }
  return known;
}

bool NodeFacts::knows_layers(const Strategy& leaf) {
  const GraphProfile::KnownLayers known = known_layers(leaf);
  return std::any_of(known.begin(), known.end(),
                     [](const GraphProfile::KnownLayer& one) { return one.cells != nullptr; });
}

Duration NodeFacts::bound_with_layers(const Strategy& leaf) {
  return profile_of(leaf).time_bound(leaf, places_of(leaf), micro_batches_of(leaf), costs_,
                                     GraphProfile::Open(), {known_layers(leaf), replicas_of(leaf)});
}

// Where no device has measured kernels, times are rooflines, and latencies with bytes over
// bandwidths: k times as much takes at most k times as long, operator by operator.
bool NodeFacts::has_shares() const { return !cluster_.device.measured; }

// The layers of one of so many parts of the samples, at least. Every operator is rounded.
NodeFacts::Layers NodeFacts::share_of(const Layers& all, std::int64_t num_ops, std::int64_t parts) {
  const auto share = [&](Duration whole) {
    return Duration(std::max<std::int64_t>(0, whole.value / parts - num_ops));
  };
  const auto of_cell = [&](const LayerCell& cell) {
    return LayerCell{share(cell.to_next), share(cell.alone), share(cell.way_to_next),
                     share(cell.way), share(cell.work)};
  };
  const auto of_queues = [&](const LayerQueues& queues) {
    return LayerQueues{share(queues.forward), share(queues.backward), share(queues.again),
                       share(queues.weight_grad), share(queues.collectives)};
  };
  const LayerCells& middle = all.middle;
  return {{of_cell(middle.forward), of_cell(middle.backward), share(middle.weight_grad),
           share(middle.collectives)},
          {of_queues(all.edges.first), of_queues(all.edges.last)}};
}

// Whose layer says what a choice takes at least, whatever its recomputation and schedule.
Strategy NodeFacts::shared_layer(const Strategy& choice, Share share) const {
  Strategy own = choice;
  own.recompute = {};
  // Backward's products are cut as well.
  own.schedule = Schedule::kZeroBubbleH1;
  if (!has_shares() && share == Share::kOfMicroBatch) return own;
  if (has_shares() && has_all_samples(share)) own.micro_batch = problem_.global_batch;
  if (share == Share::kOfWholeSequences) {
    own.cp = 1;
    own.context = Strategy().context;
  }
  own.pieces = 1;
  return own;
}

// `repeats`: backward may repeat part of forward.
std::optional<NodeFacts::Layers> NodeFacts::least_layers(const Strategy& choice, Share share,
                                                         bool repeats) {
  if (share == Share::kOfWholeSequences && !has_shares()) return std::nullopt;
  Strategy own = shared_layer(choice, share);
  const StagedLayer* const layer = layers_.staged(own, stop_);
  if (layer == nullptr) return std::nullopt;
  const CutLayerCells* const in_pieces = layer->in_pieces(own.pieces > 1 ? 1 : choice.pieces);
  if (in_pieces == nullptr) return std::nullopt;
  const Layers all = repeats ? Layers{in_pieces->repeating, in_pieces->edges_repeating}
                             : Layers{in_pieces->cut, in_pieces->edges};
  if (has_all_samples(share) && has_shares())
    return share_of(all, layer->num_ops,
                    own.micro_batch / choice.micro_batch * (choice.cp / own.cp));
  if (share == Share::kOfAllSamples || has_shares()) return all;
  if (own.pieces == 1 || own.sequence_parallel) return all;
  LayerCells least = all.middle;
  // Other schedules cut nothing of backward.
  own.pieces = 1;
  const LayerCells* const other = layers_.cells(own, stop_);
  if (other == nullptr) return std::nullopt;
  LayerCell& backward = least.backward;
  backward.to_next = std::min(backward.to_next, other->backward.to_next);
  backward.alone = std::min(backward.alone, other->backward.alone);
  backward.way_to_next = std::min(backward.way_to_next, other->backward.way_to_next);
  backward.way = std::min(backward.way, other->backward.way);
  backward.work = std::min(backward.work, other->backward.work);
  least.weight_grad = std::min(least.weight_grad, other->weight_grad);
  least.collectives = std::min(least.collectives, other->collectives);
  return Layers{least, {}};
}

bool NodeFacts::knows_choices(const std::vector<Strategy>& choices, Share share) const {
  return std::all_of(choices.begin(), choices.end(), [&](const Strategy& choice) {
    return layers_.is_staged(shared_layer(choice, share));
  });
}

std::optional<Duration> NodeFacts::bound_with_choices(const SpaceNode& node,
                                                      const std::vector<Strategy>& choices,
                                                      Share share, Duration known) {
  if (!shorter_.has_middle() || node.level < Level::kMicroBatch) return std::nullopt;
  const std::vector<bool>& alike = layers_like_middle();
  const std::int64_t micro_batches = micro_batches_of(node.strategy);
  GraphProfile::Open open = open_at(node);
  open.again = true;
  const bool repeats = node.level < Level::kRecompute || !(node.strategy.recompute == Recompute());
  std::optional<Duration> least;
  // The last ones hide most.
  for (auto choice = choices.rbegin(); choice != choices.rend(); ++choice) {
    // In more pieces a layer is never said to take more.
    if (shares_pieces(share) && choice->pieces != choices.back().pieces) continue;
    const auto least_of = least_layers(*choice, share, repeats);
    if (!least_of) return std::nullopt;
    const GraphProfile& profile = profile_of(*choice);
    GraphProfile::KnownLayers layers = with_edges(least_of->edges);
    for (std::size_t layer = 0; layer < layers.size(); ++layer)
      if (alike[layer]) layers[layer] = {&least_of->middle, nullptr, nullptr};
    const GraphProfile::KnownTimes known_times{layers, replicas_of(*choice)};
    const Duration bound = node.level == Level::kMicroBatch
                               ? profile.least_time(*choice, micro_batches, costs_, known_times)
                               : profile.time_bound(*choice, places_of(*choice), micro_batches,
                                                    costs_, open, known_times);
    if (!least || bound < *least) least = bound;
    if (*least <= known) return least;
  }
  return least;
}

Bytes NodeFacts::room_of(const Strategy& strategy, std::int64_t stage) const {
  const auto room = [](const DeviceKind& device) {
    return device.memory - total(library_memory(device, 0));
  };
  if (cluster_.other_devices.empty()) return cluster_.device.memory - base_libraries_;
  const std::int64_t ranks = strategy.ranks() / strategy.pp;
  Bytes most = room(cluster_.device_of(Rank(static_cast<std::int32_t>(stage * ranks))));
  for (std::int64_t rank = stage * ranks; rank < (stage + 1) * ranks; ++rank)
    most = std::max(most, room(cluster_.device_of(Rank(static_cast<std::int32_t>(rank)))));
  return most;
}

// What libraries take on any device of the stage.
Bytes NodeFacts::least_libraries(const Strategy& strategy, std::int64_t stage) const {
  if (cluster_.other_devices.empty()) return base_libraries_;
  const std::int64_t ranks = strategy.ranks() / strategy.pp;
  Bytes least(std::numeric_limits<std::int64_t>::max());
  for (std::int64_t rank = stage * ranks; rank < (stage + 1) * ranks; ++rank) {
    const DeviceKind& device = cluster_.device_of(Rank(static_cast<std::int32_t>(rank)));
    least = std::min(least, total(library_memory(device, 0)));
  }
  return least;
}

// What the middle layer keeps of a micro-batch, by all that is staged of it; zero: nothing is.
Bytes NodeFacts::known_kept(const Strategy& strategy, Recompute::Kind recompute) {
  Bytes kept;
  const auto look_up = [&](const Strategy& layer, std::int64_t parts) {
    if (!layers_.is_staged(layer)) return;
    if (const StagedLayer* const staged = layers_.staged(layer, stop_))
      kept = std::max(kept, Bytes(staged->kept.value / parts));
  };
  Strategy own = strategy;
  own.recompute = {recompute, 0};
  look_up(own, 1);
  if (recompute != Recompute::Kind::kNone) return kept;
  look_up(shared_layer(own, Share::kOfMicroBatch), 1);
  if (!has_shares()) return kept;
  const std::int64_t parts = problem_.global_batch / own.micro_batch;
  look_up(shared_layer(own, Share::kOfAllSamples), parts);
  look_up(shared_layer(own, Share::kOfWholeSequences), parts * own.cp);
  return kept;
}

GraphProfile::KeptOfLayers NodeFacts::kept_of_layers(const SpaceNode& node) {
  if (node.level < Level::kSequence || !shorter_.has_middle()) return {};
  const auto kept = [&](Recompute::Kind kind) { return known_kept(node.strategy, kind); };
  return {{kept(Recompute::Kind::kNone), kept(Recompute::Kind::kSelective),
           kept(Recompute::Kind::kFull)},
          layers_like_middle()};
}

NodeFacts::Excess NodeFacts::excess_of(const SpaceNode& node) {
  const Strategy& strategy = node.strategy;
  const std::vector<Bytes> bytes =
      profile_of(strategy).memory_bound(strategy, places_of(strategy), micro_batches_of(strategy),
                                        open_at(node), kept_of_layers(node));
  Excess worst;
  Bytes least;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto stage = static_cast<std::int64_t>(i);
    least = std::max(least, bytes[i] + least_libraries(strategy, stage));
    const Bytes room = room_of(strategy, stage);
    if (bytes[i] - room > worst.missing) worst = {bytes[i] - room, bytes[i], room, Bytes()};
  }
  worst.least = least;
  return worst;
}

}  // namespace sextant
