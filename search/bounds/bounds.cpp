// Sums over layers, then over stages; everything divided by the largest share a device can be
// spared.

#include "search/bounds/bounds.h"

#include "compiler/strategy/schedule.h"
#include "compiler/training/recompute.h"
#include "core/base/at.h"
#include "core/graphs/fused_kinds.h"
#include "core/graphs/operator.h"
#include "core/graphs/views.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace sextant {

namespace {

std::int64_t ceil_divide(std::int64_t number, std::int64_t by) { return (number + by - 1) / by; }

// What cuts products and joins their pieces (compiler/words/product_pieces).
constexpr std::string_view kKindsOfPieces[] = {"slice", "reshape", "concat"};

// W is a cell of its own, so it may be put off until after the last B.
bool parts_backward(Schedule schedule) {
  return schedule == Schedule::kZeroBubbleH1 || schedule == Schedule::kZeroBubbleV;
}

}  // namespace

GraphProfile::FusedUse GraphProfile::fused_use(const std::string& kind,
                                               const std::set<std::string>& kinds,
                                               const LeastCosts& costs) {
  FusedUse use = FusedUse::kNone;
  for (const FusedKind& fused : fused_kinds()) {
    if (!costs.fuses(fused.kind)) continue;
    const auto links = fused.members();
    const bool may_occur = std::all_of(links.begin(), links.end(), [&](const auto& link) {
      return kinds.contains(std::string(link.kind));
    });
    if (!may_occur) continue;
    for (std::size_t i = 0; i < links.size(); ++i)
      // What a product reads may be cut out of something larger; the product costs what it does.
      if (links[i].kind == kind)
        use = std::max(use, i == 0 || kind == "matmul" || kind == "scaled_matmul"
                                ? FusedUse::kLeads
                                : FusedUse::kFollows);
  }
  return use;
}

const std::vector<GraphProfile::FusedUse>& GraphProfile::fused_uses(bool in_pieces,
                                                                    const LeastCosts& costs) const {
  std::vector<FusedUse>& uses = fused_uses_[in_pieces ? 1 : 0];
  if (!uses.empty()) return uses;
  std::set<std::string> occurring;
  for (const OpWork& op : ops_) occurring.insert(op.kind);
  if (in_pieces) occurring.insert(std::begin(kKindsOfPieces), std::end(kKindsOfPieces));
  std::map<std::string, FusedUse> of_kind;
  for (const std::string& kind : occurring) of_kind[kind] = fused_use(kind, occurring, costs);
  for (const OpWork& op : ops_) uses.push_back(of_kind.at(op.kind));
  return uses;
}

std::vector<bool> GraphProfile::repeats_all(const Strategy& strategy,
                                            const std::vector<LayerPlace>& places) {
  std::vector<bool> repeats;
  for (const Again again : again_of_layers(strategy, places))
    repeats.push_back(again == Again::kAll);
  return repeats;
}

std::vector<GraphProfile::Again> GraphProfile::again_of_layers(
    const Strategy& strategy, const std::vector<LayerPlace>& places) {
  std::vector<Again> again(places.size(), Again::kNothing);
  switch (strategy.recompute.kind) {
    case Recompute::Kind::kNone:
      return again;
    case Recompute::Kind::kSelective:
      again.assign(places.size(), Again::kSelective);
      return again;
    case Recompute::Kind::kFull:
      again.assign(places.size(), Again::kAll);
      return again;
    case Recompute::Kind::kLayers:
      break;
  }
  // The first and the last layer of the model are no blocks.
  int in_chunk = 0;
  for (std::size_t layer = 1; layer + 1 < places.size(); ++layer) {
    const bool begins =
        layer == 1 || places[layer].virtual_stage != places[layer - 1].virtual_stage;
    in_chunk = begins ? 1 : in_chunk + 1;
    if (in_chunk <= strategy.recompute.layers) again[layer] = Again::kAll;
  }
  return again;
}

const std::vector<GraphProfile::StageBytes>& GraphProfile::parameters_of_layers(
    const Strategy& strategy, int zero) const {
  const auto [place, is_new] =
      layer_parameters_.try_emplace(ShareKey(strategy.dp, strategy.tp, strategy.ep, zero));
  if (!is_new) return place->second;
  std::vector<StageBytes>& layers = place->second;
  layers.resize(at(num_layers_));
  for (const Parameter& parameter : parameters_) {
    // The part of the first rank: never smaller than that of another.
    const auto part_of = [&](Bytes whole, std::int64_t extent, std::int64_t parts) {
      if (extent == 0 || parts == 1) return whole;
      return Bytes(whole.value / extent * ceil_divide(extent, parts));
    };
    const bool is_expert = parameter.expert_extent > 0 && strategy.ep > 1;
    const auto share = [&](Bytes whole) {
      const Bytes part = part_of(whole, parameter.split_extent, strategy.tp);
      return is_expert ? part_of(part, parameter.expert_extent, strategy.ep) : part;
    };
    // Replicas that are left to divide what ep has not.
    const std::int64_t replicas = is_expert ? strategy.dp / strategy.ep : strategy.dp;
    StageBytes& layer = layers[at(parameter.layer)];
    layer.states += Bytes(share(parameter.states).value / (zero >= 1 ? replicas : 1));
    layer.gradients += Bytes(share(parameter.gradient).value / (zero >= 2 ? replicas : 1));
    // What every micro-batch gathers it from is there all the time.
    const bool is_gathered = zero == 3 && parameter.in_parts;
    layer.copies += Bytes(share(parameter.copies).value / (is_gathered ? replicas : 1));
    if (is_gathered && replicas > 1)
      layer.gathered += share(parameter.copies) + share(parameter.read_whole);
    if (zero < 3 && zero >= 1 && replicas > 1) layer.copies += share(parameter.read_whole);
  }
  return layers;
}

// By stage and chunk, without what is saved.
std::vector<GraphProfile::StageBytes> GraphProfile::parameter_bytes(
    const Strategy& strategy, const std::vector<LayerPlace>& places, int zero) const {
  const auto chunks = at(strategy.virtual_stages);
  std::vector<StageBytes> bytes(at(strategy.pp) * chunks);
  const std::vector<StageBytes>& layers = parameters_of_layers(strategy, zero);
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    StageBytes& chunk = bytes[at(places[layer].stage) * chunks + at(places[layer].chunk)];
    chunk.states += layers[layer].states;
    chunk.gradients += layers[layer].gradients;
    chunk.copies += layers[layer].copies;
  }
  return bytes;
}

std::vector<Bytes> GraphProfile::gradient_bytes(const Strategy& strategy,
                                                const std::vector<LayerPlace>& places) const {
  const auto chunks = at(strategy.virtual_stages);
  std::vector<Bytes> by_stage(at(strategy.pp));
  const std::vector<StageBytes> bytes = parameter_bytes(strategy, places, 0);
  for (std::size_t chunk = 0; chunk < bytes.size(); ++chunk)
    by_stage[chunk / chunks] += bytes[chunk].gradients;
  return by_stage;
}

std::vector<Bytes> GraphProfile::memory_bound(const Strategy& strategy,
                                              const std::vector<LayerPlace>& places,
                                              std::int64_t micro_batches, Open open,
                                              const KeptOfLayers& kept) const {
  return held(strategy, places, micro_batches, open, {}, kept);
}

std::vector<Bytes> GraphProfile::likely_memory(const Strategy& strategy,
                                               const std::vector<LayerPlace>& places,
                                               std::int64_t micro_batches, Open open,
                                               const std::vector<Whole>& whole) const {
  return held(strategy, places, micro_batches, open, whole, KeptOfLayers());
}

// Bytes that the layer keeps of a micro-batch between forward and backward. What
// recompute=selective does not keep is at most whole over tp.
Bytes GraphProfile::least_kept(const Strategy& strategy, std::size_t layer, Again again,
                               const KeptBytes& kept) const {
  const auto saved = [&](Again kind) { return saved_[kind][layer]; };
  switch (again) {
    case Again::kNothing:
      return kept.plain;
    case Again::kSelective: {
      const Bytes dropped = saved(Again::kNothing) - saved(Again::kSelective);
      const Bytes left = kept.plain - Bytes(ceil_divide(dropped.value, strategy.dp * strategy.cp));
      return std::max(kept.selective, left);
    }
    case Again::kAll:
      break;
  }
  return kept.full;
}

std::vector<Bytes> GraphProfile::held(const Strategy& strategy,
                                      const std::vector<LayerPlace>& places,
                                      std::int64_t micro_batches, Open open,
                                      const std::vector<Whole>& whole,
                                      const KeptOfLayers& kept) const {
  const int zero = open.zero && strategy.dp > 1 ? 3 : strategy.zero;
  std::vector<StageBytes> bytes = parameter_bytes(strategy, places, zero);
  const auto chunks = at(strategy.virtual_stages);
  const std::int64_t shares = strategy.dp * strategy.cp * strategy.tp;
  const std::vector<Again> again = again_of_layers(strategy, places);
  for (int layer = 0; layer < num_layers_; ++layer) {
    Bytes saved = saved_[again[at(layer)]][at(layer)];
    if (open.recompute)
      for (const std::vector<Bytes>& kept : saved_) saved = std::min(saved, kept[at(layer)]);
    const auto part_of = [&](Bytes all) {
      const Bytes part = Bytes(all.value / shares);
      if (whole.empty()) return part;
      return Bytes(static_cast<std::int64_t>(
          static_cast<double>(part.value) *
          (1 + whole[at(layer)].saved * static_cast<double>(strategy.tp - 1))));
    };
    const LayerPlace& place = places[at(layer)];
    StageBytes& chunk = bytes[at(place.stage) * chunks + at(place.chunk)];
    Bytes own = part_of(saved);
    // The layer before is one of these too, so it does not count what is this one's.
    if (!kept.alike.empty() && layer > 0 && kept.alike[at(layer)] && kept.alike[at(layer - 1)])
      own = std::max(own, least_kept(strategy, at(layer), again[at(layer)], kept.bytes));
    chunk.saved += own;
    chunk.awaited += part_of(awaited_[at(layer)]);
    if (!whole.empty()) chunk.awaited += whole[at(layer)].awaited;
  }
  if (!whole.empty()) add_passing(strategy, places, zero, whole, bytes);
  if (whole.empty() && !open.zero && zero == 3) add_gathered(strategy, places, bytes);
  return most_held(strategy, micro_batches, bytes);
}

// When most micro-batches are in flight a stage goes backward next, and has gathered what the first
// two layers of that cell read. Where weight gradients are cells of their own the next cell may be
// one of them. A table of embeddings is left out: backward of a look-up does not read it.
void GraphProfile::add_gathered(const Strategy& strategy, const std::vector<LayerPlace>& places,
                                std::vector<StageBytes>& bytes) const {
  if (parts_backward(strategy.schedule)) return;
  const auto chunks = at(strategy.virtual_stages);
  const std::vector<StageBytes>& layers = parameters_of_layers(strategy, 3);
  std::vector<Bytes> least(at(strategy.pp), Bytes(std::numeric_limits<std::int64_t>::max()));
  for (std::size_t layer = 0; layer < places.size(); ++layer) {
    const int virtual_stage = places[layer].virtual_stage;
    const bool is_last =
        layer + 1 == places.size() || places[layer + 1].virtual_stage != virtual_stage;
    if (!is_last) continue;
    Bytes gathered = layers[layer].gathered;
    if (layer == 0)
      gathered = Bytes(0);
    else if (layer > 1 && places[layer - 1].virtual_stage == virtual_stage)
      gathered += layers[layer - 1].gathered;
    Bytes& stage = least[at(places[layer].stage)];
    stage = std::min(stage, gathered);
  }
  for (std::size_t stage = 0; stage < least.size(); ++stage)
    if (least[stage] < Bytes(std::numeric_limits<std::int64_t>::max()))
      bytes[stage * chunks].states += least[stage];
}

// Of a guess: what one layer at a time takes. What it repeats, its gathered parameters and those
// of the layer ahead, its gradients before they are scattered.
void GraphProfile::add_passing(const Strategy& strategy, const std::vector<LayerPlace>& places,
                               int zero, const std::vector<Whole>& whole,
                               std::vector<StageBytes>& bytes) const {
  const auto chunks = at(strategy.virtual_stages);
  const auto shares = static_cast<double>(strategy.dp * strategy.cp * strategy.tp);
  const std::vector<StageBytes>& parameters = parameters_of_layers(strategy, 0);
  const std::vector<Again> again = again_of_layers(strategy, places);
  std::vector<Bytes> most(at(strategy.pp));
  for (std::size_t layer = 0; layer < places.size(); ++layer) {
    Bytes own;
    if (again[layer] == Again::kAll)
      own += Bytes(static_cast<std::int64_t>(
          static_cast<double>(saved_[Again::kNothing][layer].value) / shares *
          (1 + whole[layer].saved * static_cast<double>(strategy.tp - 1))));
    if (zero == 3) own += 2 * parameters[layer].copies;
    if (zero >= 2) own += parameters[layer].gradients;
    Bytes& stage = most[at(places[layer].stage)];
    stage = std::max(stage, own);
  }
  for (std::size_t stage = 0; stage < most.size(); ++stage)
    bytes[stage * chunks].states += most[stage];
}

std::vector<Bytes> GraphProfile::most_held(const Strategy& strategy, std::int64_t micro_batches,
                                           const std::vector<StageBytes>& bytes) const {
  const auto stages = at(strategy.pp);
  const auto chunks = at(strategy.virtual_stages);
  const PipelineMoments& moments =
      moments_.of(strategy.schedule,
                  {static_cast<std::int32_t>(strategy.pp), static_cast<std::int32_t>(micro_batches),
                   static_cast<std::int32_t>(strategy.virtual_stages)});
  std::vector<Bytes> most(stages);
  for (std::size_t stage = 0; stage < stages; ++stage) {
    Bytes states;
    for (std::size_t chunk = 0; chunk < chunks; ++chunk)
      states += bytes[stage * chunks + chunk].states;
    most[stage] = states;
    for (const StageMoment& moment : moments[stage]) {
      Bytes held = states;
      for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
        const StageBytes& own = bytes[stage * chunks + chunk];
        held += own.saved * moment.in_flight[chunk] + own.awaited * moment.awaiting[chunk];
        if (moment.in_flight[chunk] > 0) held += own.copies;
        if (moment.has_gradients[chunk]) held += own.gradients;
      }
      most[stage] = std::max(most[stage], held);
    }
  }
  return most;
}

const std::vector<GraphProfile::LayerWork>& GraphProfile::layer_work(const Strategy& strategy,
                                                                     DeviceKinds kinds,
                                                                     const LeastCosts& costs,
                                                                     Open open) const {
  const std::int64_t shares = strategy.dp * strategy.cp * strategy.tp;
  const bool is_sharded = strategy.zero > 0 || (open.zero && strategy.dp > 1);
  const std::int64_t optimizer_shares =
      is_sharded ? shares : strategy.tp * strategy.cp * strategy.ep;
  const bool in_pieces = open.pieces || strategy.pieces > 1;
  const auto [place, is_new] =
      layer_work_.try_emplace(WorkKey(shares, optimizer_shares, in_pieces, kinds));
  if (!is_new) return place->second;
  place->second.resize(at(num_layers_));
  const std::vector<FusedUse>& uses = fused_uses(in_pieces, costs);
  std::vector<Duration> least(ops_.size());
  for (std::size_t index = 0; index < ops_.size(); ++index) {
    const OpWork& op = ops_[index];
    if (op.role == OperatorRole::kView || uses[index] == FusedUse::kFollows) continue;
    const std::int64_t by = op.part == Part::kOptimizer ? optimizer_shares : shares;
    Work work = op.work;
    work.flops /= static_cast<double>(by);
    work.read.value /= by;
    work.written.value /= by;
    if (uses[index] == FusedUse::kLeads) work.written = Bytes();
    least[index] = costs.duration(kinds, work);
  }
  for (const LayerOp& op : layer_ops_) {
    const OpWork& work = ops_[op.work];
    LayerWork& layer = place->second[at(op.layer)];
    const auto add = [&](Part part) { layer[part] += least[op.work]; };
    add(work.part);
    if (work.again_selective) add(Part::kAgainSelective);
    if (work.again_full) add(Part::kAgainFull);
  }
  return place->second;
}

Duration GraphProfile::least_time(const Strategy& strategy, std::int64_t micro_batches,
                                  const LeastCosts& costs, const KnownTimes& known) const {
  const Open open{.recompute = true, .zero = true, .pieces = strategy.tp > 1};
  const DeviceKinds kinds = costs.kinds_of(0, strategy.ranks());
  const std::vector<LayerWork>& layers = layer_work(strategy, kinds, costs, open);
  Duration work, once, way, collectives;
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    once += layers[layer][Part::kOptimizer];
    const KnownLayer& own = layer < known.layers.size() ? known.layers[layer] : KnownLayer();
    if (own.cells != nullptr) {
      const auto& [forward, backward, weight_grad, of_layer] = *own.cells;
      work += forward.alone + std::max(backward.alone, backward.work + weight_grad);
      way += forward.way + backward.way;
      collectives += of_layer;
    } else {
      const LayerQueues busy = least_queues(layers[layer], own.queues);
      work += busy.forward + busy.backward + busy.weight_grad;
      way += busy.forward + busy.backward;
      collectives += busy.collectives;
    }
  }
  Duration reductions;  // what is reduced in every micro-batch is no less
  for (const ReplicaTimes& times : known.replicas)
    reductions += std::min(times.reduce, times.all_reduce);
  const Duration on_queue =
      std::max(work * micro_batches + once, collectives * micro_batches + reductions);
  return std::max(Duration(on_queue.value / strategy.pp), way);
}

// Of a layer without cells: its work, or what is known of its queues. What is computed again counts
// as it is known.
LayerQueues GraphProfile::least_queues(const LayerWork& work, const LayerQueues* known) {
  LayerQueues least = known != nullptr ? *known : LayerQueues();
  const auto of = [&](Part part) { return work[part]; };
  least.forward = std::max(least.forward, of(Part::kForward));
  least.backward = std::max(least.backward, of(Part::kInputGrad));
  least.weight_grad = std::max(least.weight_grad, of(Part::kWeightGrad));
  return least;
}

GraphProfile::ChunkTimes& GraphProfile::ChunkTimes::operator+=(const ChunkTimes& other) {
  forward += other.forward;
  backward += other.backward;
  backward_work += other.backward_work;
  weight_grad += other.weight_grad;
  both += other.both;
  way_out += other.way_out;
  down += other.down;
  up += other.up;
  collectives += other.collectives;
  fetching += other.fetching;
  optimizer += other.optimizer;
  return *this;
}

// Of one layer forward and backward: the way to the next one where that is alike and on the same
// chunk, else its own collectives, and the gathers that a cell begins with.
Duration GraphProfile::along_fetches(const KnownLayers& known,
                                     const std::vector<LayerPlace>& places, std::size_t layer) {
  const FetchingLayer* const own = known[layer].fetching;
  if (own == nullptr) return {};
  const auto is_next = [&](std::size_t other) {
    return other < places.size() && known[other].fetching == own &&
           places[other].virtual_stage == places[layer].virtual_stage;
  };
  const bool has_next = is_next(layer + 1), has_one_before = layer > 0 && is_next(layer - 1);
  Duration sum;
  sum += has_next ? own->forward.to_next : own->forward.alone;
  sum += has_one_before ? own->backward.to_next : own->backward.alone;
  if (!has_one_before) sum += own->forward.fetch;
  if (!has_next) sum += own->backward.fetch;
  return sum;
}

std::vector<GraphProfile::ChunkTimes> GraphProfile::chunk_times(
    const Strategy& strategy, const std::vector<LayerPlace>& places, const LeastCosts& costs,
    Open open, const KnownLayers& known) const {
  const std::int64_t ranks = strategy.ranks() / strategy.pp;
  std::vector<const std::vector<LayerWork>*> of_stage;
  for (std::int64_t stage = 0; stage < strategy.pp; ++stage)
    of_stage.push_back(&layer_work(strategy, costs.kinds_of(stage * ranks, ranks), costs, open));
  const std::vector<Again> again = again_of_layers(strategy, places);
  const auto has_cells = [&](std::size_t layer) {
    return layer < known.size() && known[layer].cells != nullptr;
  };
  // Layers that follow each other on one chunk and are alike.
  const auto go_on = [&](std::size_t layer, std::size_t next) {
    return has_cells(next) && places[layer].virtual_stage == places[next].virtual_stage;
  };
  const auto chunks = at(strategy.virtual_stages);
  std::vector<ChunkTimes> times(at(strategy.pp) * chunks);
  for (std::size_t layer = 0; layer < places.size(); ++layer) {
    const LayerWork& work = (*of_stage[at(places[layer].stage)])[layer];
    const auto of = [&](Part part) { return work[part]; };
    Duration repeated;
    if (again[layer] == Again::kSelective) repeated = of(Part::kAgainSelective);
    if (again[layer] == Again::kAll) repeated = of(Part::kAgainFull);
    ChunkTimes own;
    own.optimizer = of(Part::kOptimizer);
    if (has_cells(layer)) {
      const auto& [forward, backward, weight_grad, collectives] = *known[layer].cells;
      const bool ahead = go_on(layer, layer + 1), back = layer > 0 && go_on(layer, layer - 1);
      own.forward = ahead ? forward.to_next : forward.alone;
      own.down = ahead ? forward.way_to_next : forward.way;
      own.backward = back ? backward.to_next : backward.alone;
      own.way_out = own.up = back ? backward.way_to_next : backward.way;
      own.backward_work = backward.work;
      own.weight_grad = weight_grad;
      own.collectives = collectives;
      own.fetching = along_fetches(known, places, layer);
      if (open.again) {
        own.backward_work += repeated;
        own.backward = std::max(own.backward, own.backward_work);
      }
    } else {
      const LayerQueues busy =
          least_queues(work, layer < known.size() ? known[layer].queues : nullptr);
      own.forward = own.down = busy.forward;
      own.up = own.backward = busy.backward;
      own.backward += std::max(repeated, busy.again);
      own.way_out = own.backward_work = own.backward;
      own.weight_grad = busy.weight_grad;
      own.collectives = busy.collectives;
    }
    times[at(places[layer].stage) * chunks + at(places[layer].chunk)] += own;
  }
  for (ChunkTimes& chunk : times)
    chunk.both = parts_backward(strategy.schedule)
                     ? chunk.backward + chunk.weight_grad
                     : std::max(chunk.backward, chunk.backward_work + chunk.weight_grad);
  return times;
}

Duration GraphProfile::time_bound(const Strategy& strategy, const std::vector<LayerPlace>& places,
                                  std::int64_t micro_batches, const LeastCosts& costs, Open open,
                                  const KnownTimes& known) const {
  const std::vector<ChunkTimes> chunks = chunk_times(strategy, places, costs, open, known.layers);
  const auto chunks_per_stage = at(strategy.virtual_stages);
  const bool parts = parts_backward(strategy.schedule);
  ChunkTimes first;
  Duration bound;
  for (const ChunkTimes& chunk : chunks) bound += chunk.down + chunk.up;
  // Only the last chunk begins to repeat when the micro-batch has come down to it.
  const auto stages = static_cast<int>(strategy.pp);
  const StageChunk turn =
      stage_of_virtual(strategy.schedule, stages, stages * static_cast<int>(chunks_per_stage) - 1);
  const ChunkTimes& last = chunks[at(turn.stage) * chunks_per_stage + at(turn.chunk)];
  bound += last.way_out - last.up;
  Duration way;  // way: one micro-batch down to the stage and back up
  for (std::size_t index = 0; index < at(strategy.pp); ++index) {
    ChunkTimes stage;
    for (std::size_t chunk = 0; chunk < chunks_per_stage; ++chunk)
      stage += chunks[index * chunks_per_stage + chunk];
    const ChunkTimes& top = chunks[index * chunks_per_stage];
    if (index == 0) first = stage;
    bound = std::max(bound, (stage.forward + stage.both) * micro_batches + stage.optimizer);
    bound = std::max(bound, std::max(stage.collectives, stage.fetching) * micro_batches);
    const Duration path = way + stage.forward * micro_batches - top.forward + top.down +
                          (parts ? stage.backward : stage.both) * (micro_batches - 1) +
                          stage.backward - top.backward + top.way_out;
    if (index > 0) bound = std::max(bound, path + first.weight_grad + first.optimizer);
    way += top.down + top.up;
  }
  if (known.replicas.empty()) return bound;
  std::vector<ReplicaTimes> replicas(chunks.size());
  for (std::size_t layer = 0; layer < places.size(); ++layer)
    replicas[at(places[layer].stage) * chunks_per_stage + at(places[layer].chunk)] +=
        known.replicas[layer];
  const ByZero bounds = exchange_bounds(strategy, micro_batches, chunks, replicas);
  const Duration exchanged =
      open.zero ? *std::min_element(bounds.begin(), bounds.end()) : bounds[at(strategy.zero)];
  return std::max(bound, exchanged);
}

// Copies are gathered before the first forward cell that reads them is over, and gradients reduced
// after the cell that completes them has begun. In between a stage goes through all other cells.
GraphProfile::ByZero GraphProfile::exchange_bounds(
    const Strategy& strategy, std::int64_t micro_batches, const std::vector<ChunkTimes>& chunks,
    const std::vector<ReplicaTimes>& replicas) const {
  const auto reduced = [](const ReplicaTimes& times, std::size_t zero) {
    return zero == 0 ? times.all_reduce : zero == 1 ? times.reduce : times.reduce_each;
  };
  const auto gathered = [](const ReplicaTimes& times, std::size_t zero) {
    return zero == 0 ? Duration() : times.gather;
  };
  const auto chunks_per_stage = at(strategy.virtual_stages);
  const std::vector<StageEdges>& edges =
      edges_.of(strategy.schedule,
                {static_cast<std::int32_t>(strategy.pp), static_cast<std::int32_t>(micro_batches),
                 static_cast<std::int32_t>(strategy.virtual_stages)});
  const bool parts = parts_backward(strategy.schedule);
  ByZero bounds = {};
  Duration way;
  for (std::size_t stage = 0; stage < at(strategy.pp); ++stage) {
    const ChunkTimes* const own = &chunks[stage * chunks_per_stage];
    const ReplicaTimes* const of_chunk = &replicas[stage * chunks_per_stage];
    Duration all_cells, collectives;
    for (std::size_t chunk = 0; chunk < chunks_per_stage; ++chunk) {
      all_cells += (own[chunk].forward + own[chunk].both) * micro_batches;
      collectives += own[chunk].collectives * micro_batches;
    }
    const auto time_of = [&](const CellCounts& cells) {
      Duration sum;
      for (std::size_t chunk = 0; chunk < chunks_per_stage; ++chunk)
        sum += own[chunk].forward * cells.forward[chunk] +
               (parts ? own[chunk].backward : own[chunk].both) * cells.backward[chunk] +
               own[chunk].weight_grad * cells.weight_grad[chunk];
      return sum;
    };
    const auto times_of = [&](const std::vector<bool>& which) {
      ReplicaTimes sum;
      for (std::size_t chunk = 0; chunk < chunks_per_stage; ++chunk)
        if (which[chunk]) sum += of_chunk[chunk];
      return sum;
    };
    ByZero before, behind = {};
    before.fill(std::max(Duration(), way + own->down - own->forward));
    for (const StageEdge& head : edges[stage].heads) {
      const ReplicaTimes times = times_of(head.chunks);
      const Duration cells = time_of(head.cells);
      for (std::size_t zero = 0; zero < kNumZeroStages; ++zero)
        before[zero] = std::max(before[zero], gathered(times, zero) - cells);
    }
    for (const StageEdge& tail : edges[stage].tails) {
      const ReplicaTimes times = times_of(tail.chunks);
      const Duration cells = time_of(tail.cells);
      for (std::size_t zero = 0; zero < kNumZeroStages; ++zero)
        behind[zero] = std::max(behind[zero], reduced(times, zero) - cells);
    }
    const ReplicaTimes times = times_of(std::vector<bool>(chunks_per_stage, true));
    for (std::size_t zero = 0; zero < kNumZeroStages; ++zero) {
      const Duration on_queue = collectives +
                                reduced(times, zero) * (zero >= 2 ? micro_batches : 1) +
                                gathered(times, zero) * (zero == 3 ? 2 * micro_batches : 1);
      bounds[zero] = std::max({bounds[zero], on_queue, before[zero] + all_cells + behind[zero]});
    }
    way += own->down;
  }
  return bounds;
}

}  // namespace sextant
