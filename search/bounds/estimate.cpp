// Words over one axis are followed through forward; volumes over bandwidths are added to the
// least times of the work.
#include "search/bounds/estimate.h"

#include "core/base/at.h"
#include "core/graphs/operator.h"
#include "core/graphs/tensor_types.h"
#include "core/graphs/views.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

namespace sextant {
namespace {

// Words over tp of what forward makes: parameters are split by their convention, all else follows
// where an operator has a row for it.
class ForwardWords {
 public:
  explicit ForwardWords(const LogicalGraph& graph)
      : graph_(graph), words_(graph.tensors().size(), Sbp::broadcast()) {}

  const Sbp& of(TensorId tensor) const { return words_[tensor.index()]; }

  // Returns the row that was taken.
  std::optional<SbpSignature> follow(const LogicalOp& op) {
    const OperatorDef& def = graph_.registry().get(op.kind);
    if (op.parameter) {
      if (op.parameter->tensor_parallel_dim)
        words_[op.outputs[0].index()] = Sbp::split(*op.parameter->tensor_parallel_dim);
      return std::nullopt;
    }
    if (op.inputs.empty() || def.on_host || def.signatures == nullptr) return std::nullopt;
    const std::vector<SbpSignature> rows =
        def.signatures(types_of(graph_, op.inputs), types_of(graph_, op.outputs), op.attributes);
    const auto read = [&](std::size_t input) {
      const Sbp& word = of(op.inputs[input]);
      return word.is_partial() ? Sbp::broadcast() : word;
    };
    const SbpSignature* best = nullptr;
    std::size_t best_matches = 0;
    for (const SbpSignature& row : rows) {
      std::size_t matches = 0;
      for (std::size_t i = 0; i < op.inputs.size(); ++i)
        matches += row.inputs[i] == read(i) ? 1 : 0;
      if (best != nullptr && matches <= best_matches) continue;
      best = &row;
      best_matches = matches;
    }
    if (best == nullptr || best_matches < op.inputs.size()) return std::nullopt;
    for (std::size_t i = 0; i < op.outputs.size(); ++i)
      words_[op.outputs[i].index()] = best->outputs[i];
    return *best;
  }

 private:
  const LogicalGraph& graph_;
  std::vector<Sbp> words_;
};

// Samples and positions of an input.
using Sequence = std::pair<std::int64_t, std::int64_t>;

std::set<Sequence> sequences_of(const LogicalGraph& training) {
  std::set<Sequence> sequences;
  for (const LogicalOp& op : training.ops()) {
    if (!op.inputs.empty() || !training.registry().get(op.kind).on_host) continue;
    const Shape& shape = training.tensor(op.outputs[0]).type.shape;
    if (shape.rank() > 1) sequences.insert({shape[0], shape[1]});
  }
  return sequences;
}

}  // namespace

CommunicationSketch::CommunicationSketch(const LogicalGraph& training, std::int64_t samples,
                                         const LeastCosts& costs)
    : layers_(at(training.num_layers())) {
  ForwardWords words(training);
  const std::set<Sequence> sequences = sequences_of(training);
  std::vector<double> made(layers_.size()), whole(layers_.size()), unsplit(layers_.size());
  const auto has_sequence = [&](TensorId id) {
    const Shape& shape = training.tensor(id).type.shape;
    return shape.rank() > 2 && sequences.contains({shape[0], shape[1]});
  };
  std::set<TensorId> gathered;
  const auto bytes = [&](TensorId id) {
    return static_cast<double>(size_of(training.tensor(id).type).value) /
           static_cast<double>(samples);
  };
  const auto seconds = [&](const LogicalOp& op) {
    const OperatorDef& def = training.registry().get(op.kind);
    if (def.work == nullptr || def.on_host) return 0.0;
    const Work work =
        def.work(types_of(training, op.inputs), types_of(training, op.outputs), op.attributes);
    return to_seconds(costs.duration(1, work)) / static_cast<double>(samples);
  };
  for (const LogicalOp& op : training.ops()) {
    if (op.phase != Phase::kForward && !op.inputs.empty()) continue;
    Layer& layer = layers_[at(op.layer)];
    const auto row = words.follow(op);
    if (op.inputs.empty()) continue;
    for (const TensorId output : op.outputs) {
      if (op.role == OperatorRole::kView) continue;
      made[at(op.layer)] += bytes(output);
      if (words.of(output).is_partial()) layer.pending += bytes(output);
      if (!words.of(output).is_split()) {
        whole[at(op.layer)] += bytes(output);
        if (!has_sequence(output)) unsplit[at(op.layer)] += bytes(output);
      }
      for (const LogicalGraph::Use& use : training.uses(output))
        if (training.op(use.op).layer > op.layer && training.op(use.op).phase == Phase::kForward) {
          layer.passed += bytes(output);
          break;
        }
    }
    const auto is_split = [&](TensorId id) { return words.of(id).is_split(); };
    const bool is_whole =
        !is_split(op.outputs[0]) && std::none_of(op.inputs.begin(), op.inputs.end(), is_split);
    const bool is_unsplit = is_whole && !has_sequence(op.outputs[0]);
    const bool is_copy = training.tensor(op.inputs[0]).role == TensorRole::kParameter;
    if (is_unsplit && !is_copy && op.role != OperatorRole::kView)
      layer.unsplit_seconds += seconds(op);
    // A weight that is split meets an operand that is whole: its gradient is pending.
    const bool splits = row && std::any_of(row->inputs.begin(), row->inputs.end(),
                                           [](const Sbp& word) { return word.is_split(); });
    if (splits && is_product(op.role))
      for (std::size_t i = 0; i < op.inputs.size(); ++i)
        if (row->inputs[i].is_broadcast() && gathered.insert(op.inputs[i]).second)
          layer.gathered += bytes(op.inputs[i]);
    if (op.role == OperatorRole::kExpertCombine) {
      double& routed = words.of(op.inputs[0]).is_split() ? layer.routed_in_parts : layer.routed;
      routed += 2 * bytes(op.inputs[0]);
    }
    if (is_attention(op.role) && op.inputs.size() >= 3) {
      layer.keys += bytes(op.inputs[1]) + bytes(op.inputs[2]);
      layer.heads +=
          bytes(op.inputs[0]) + bytes(op.inputs[1]) + bytes(op.inputs[2]) + bytes(op.outputs[0]);
    }
  }
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
    if (made[layer] <= 0) continue;
    layers_[layer].whole = whole[layer] / made[layer];
    layers_[layer].unsplit = unsplit[layer] / made[layer];
  }
}

double Estimator::bandwidth(std::int64_t parts, std::int64_t stride) const {
  const NetworkLink& link =
      parts * stride <= cluster_.devices_per_node ? cluster_.intra_node : cluster_.inter_node;
  // Members on one node share the way out of it.
  const double inside = parts * stride <= cluster_.devices_per_node
                            ? 1.0
                            : std::max(1.0, static_cast<double>(cluster_.devices_per_node) /
                                                static_cast<double>(stride));
  return link.bandwidth.value * link.efficiency.value * 0.8 * inside;
}

double Estimator::latency(std::int64_t parts, std::int64_t stride) const {
  const NetworkLink& link =
      parts * stride <= cluster_.devices_per_node ? cluster_.intra_node : cluster_.inter_node;
  return (link.latency.value + 2e-6) * (1 + std::log2(static_cast<double>(parts)));
}

double Estimator::gather_s(double bytes, std::int64_t parts, std::int64_t stride) const {
  if (parts <= 1 || bytes <= 0) return 0;
  const double sent = bytes * static_cast<double>(parts - 1) / static_cast<double>(parts);
  return latency(parts, stride) + sent / bandwidth(parts, stride);
}

// Each axis in use has one, and all devices of a stage together where several axes are in use; each
// neighbour of a stage has two, one for each direction.
std::int64_t Estimator::num_communicators(const Strategy& strategy) {
  std::int64_t axes = 0;
  for (const std::int64_t extent : {strategy.dp, strategy.cp, strategy.ep, strategy.tp})
    axes += extent > 1 ? 1 : 0;
  const std::int64_t neighbours = std::min<std::int64_t>(strategy.pp - 1, 2);
  return axes + (axes > 1 ? 1 : 0) + 2 * neighbours;
}

Estimator::LayerSeconds& Estimator::LayerSeconds::operator+=(const LayerSeconds& other) {
  forward += other.forward;
  backward += other.backward;
  weights += other.weights;
  again += other.again;
  optimizer += other.optimizer;
  return *this;
}

namespace {

bool is_decided(const SpaceNode& node, Level level) { return node.level >= level; }

// What is undecided is taken at what mostly is best.
bool guessed_sp(const SpaceNode& node) {
  return is_decided(node, Level::kSequence) ? node.strategy.sequence_parallel : true;
}

}  // namespace

// `repeats`: all of forward in backward.
Estimator::LayerSeconds Estimator::seconds_of(const GraphProfile::LayerWork& work,
                                              const CommunicationSketch::Layer& moved,
                                              const SpaceNode& node, bool repeats) const {
  using Part = GraphProfile::Part;
  const Strategy& s = node.strategy;
  const bool sp = guessed_sp(node);
  const double tp = static_cast<double>(s.tp);
  const double samples = static_cast<double>(s.micro_batch) / static_cast<double>(s.cp);
  const auto of = [&](Part part) { return to_seconds(work[part]); };
  LayerSeconds own{.forward = of(Part::kForward),
                   .backward = of(Part::kInputGrad),
                   .weights = of(Part::kWeightGrad),
                   .optimizer = of(Part::kOptimizer)};
  if (s.recompute.kind == Recompute::Kind::kSelective) own.again = of(Part::kAgainSelective);
  if (repeats) own.again = of(Part::kAgainFull);
  if (s.tp > 1) {
    const double reduced = gather_s(moved.pending * samples, s.tp, 1);
    const double read = gather_s(moved.gathered * samples, s.tp, 1);
    const bool has_pieces = is_decided(node, Level::kPieces);
    const auto pieces = static_cast<double>(has_pieces ? s.pieces : 4);
    const double start = has_pieces ? 2 * latency(s.tp, 1) * (pieces - 1) : 0;
    const double hidden = (1 - 1 / pieces) * 0.8;
    const bool cuts_backward = sp || splits_backward(s.schedule);
    // Forward waits for each sum; backward hides its own behind weight gradients.
    double there = sp ? reduced + read : 2 * reduced;
    double back = sp ? reduced + 2 * read : 2 * read;
    there = there * (1 - hidden) + start;
    back = cuts_backward ? back * 0.7 * (1 - hidden) + start : back * 0.2;
    // What tp leaves whole is worked on by every device.
    const double extra = (sp ? 0 : moved.whole - moved.unsplit) * (tp - 1) * 0.15 *
                             (of(Part::kForward) + of(Part::kInputGrad)) / 2 +
                         moved.unsplit_seconds * samples * (1 - 1 / tp);
    own.forward += there + extra;
    own.backward += back + extra;
    if (repeats) own.again += there + extra;
  }
  if (s.ep > 1) {
    const double rows = moved.routed + moved.routed_in_parts / tp;
    const double routed = gather_s(rows * samples, s.ep, s.cp * s.tp);
    own.forward += routed;
    own.backward += routed;
    if (repeats) own.again += routed;
  }
  if (s.cp > 1) {
    const bool ring = s.context == ContextMode::kRing;
    const double bytes =
        ring ? moved.keys * static_cast<double>(s.micro_batch) / tp : moved.heads * samples / tp;
    const double way = gather_s(bytes, s.cp, s.tp) * (ring ? 0.5 : 1);
    // A causal ring waits for its last device.
    const double wait = ring ? of(Part::kAgainSelective) * 0.9 : 0;
    own.forward += way + wait;
    own.backward += 2 * (way + wait);
  }
  return own;
}

Guess Estimator::guess(const GraphProfile& profile, const SpaceNode& node,
                       const std::vector<LayerPlace>& places, std::int64_t micro_batches) const {
  using Kind = Recompute::Kind;
  const Strategy& s = node.strategy;
  const auto decided = [&](Level level) { return is_decided(node, level); };
  GraphProfile::Open open;
  open.zero = !decided(Level::kZero);
  open.recompute = !decided(Level::kRecompute);
  const std::int64_t ranks = s.ranks() / s.pp;
  const auto pp = at(s.pp);
  const auto m = static_cast<double>(micro_batches);
  const DeviceKind& device = cluster_.device;
  const double memory_rate = device.memory_bandwidth.value * device.memory_efficiency.value;
  const bool sp = guessed_sp(node);
  const double tp = static_cast<double>(s.tp);
  const double samples = static_cast<double>(s.micro_batch) / static_cast<double>(s.cp);

  std::vector<LayerSeconds> stages(pp);
  std::vector<const std::vector<GraphProfile::LayerWork>*> work_of_stage;
  for (std::int64_t stage = 0; stage < s.pp; ++stage)
    work_of_stage.push_back(
        &profile.layer_work(s, costs_.kinds_of(stage * ranks, ranks), costs_, open));
  int in_chunk = 0;
  // Most layers take what the one before takes.
  struct Asked {
    const GraphProfile::LayerWork* work = nullptr;
    const CommunicationSketch::Layer* moved = nullptr;
    bool repeats = false;
    LayerSeconds seconds;
  } last;
  for (std::size_t layer = 0; layer < places.size(); ++layer) {
    const GraphProfile::LayerWork& work = (*work_of_stage[at(places[layer].stage)])[layer];
    const CommunicationSketch::Layer& moved = sketch_.layers()[layer];
    const bool begins =
        layer <= 1 || places[layer].virtual_stage != places[layer - 1].virtual_stage;
    in_chunk = begins ? 1 : in_chunk + 1;
    const bool repeats = s.recompute.kind == Kind::kFull ||
                         (s.recompute.kind == Kind::kLayers && in_chunk <= s.recompute.layers &&
                          layer > 0 && layer + 1 < places.size());
    if (last.work == nullptr || last.repeats != repeats || *last.work != work ||
        !(*last.moved == moved))
      last.seconds = seconds_of(work, moved, node, repeats);
    last = {&work, &moved, repeats, last.seconds};
    stages[at(places[layer].stage)] += last.seconds;
  }

  Guess guess;
  double longest = 0, mean_cells = 0, mean_gap = 0, optimizer = 0;
  for (const LayerSeconds& stage : stages) {
    longest = std::max(longest, stage.all());
    optimizer = std::max(optimizer, stage.optimizer);
    mean_cells += stage.all() / static_cast<double>(pp);
    // What is left of a bubble where weight gradients fill it.
    const double filled = s.schedule == Schedule::kZeroBubbleV ? 2 * stage.weights : stage.weights;
    const double gap = stage.forward + stage.backward + stage.again - filled;
    mean_gap += std::max(gap, 0.02 * stage.all()) / static_cast<double>(pp);
  }
  double step = longest * m + optimizer;
  if (s.pp > 1) {
    const auto others = static_cast<double>(s.pp - 1);
    const double cell = splits_backward(s.schedule) ? mean_gap : mean_cells;
    const double chunks =
        decided(Level::kSchedule)
            ? static_cast<double>(s.virtual_stages)
            : std::max(1.0, static_cast<double>(places.size()) / static_cast<double>(s.pp) / 2);
    double bubble = others * cell / chunks;
    if (s.schedule == Schedule::kZeroBubbleV) bubble = others * mean_gap * 0.5;
    double passed = 0;
    for (const auto& layer : sketch_.layers()) passed = std::max(passed, layer.passed);
    const double hop = latency(2, ranks) + passed * samples / (sp ? tp : 1) / bandwidth(2, ranks);
    guess.outside = 2 * others * hop + 0.15 * m * (decided(Level::kSchedule) ? chunks : 1) * hop;
    step += bubble + guess.outside;
  }
  const std::vector<Bytes> gradients = profile.gradient_bytes(s, places);
  const double without_replicas = step;
  double largest_gradient = 0;
  for (const Bytes bytes : gradients)
    largest_gradient = std::max(largest_gradient, static_cast<double>(bytes.value));
  if (s.dp > 1 && !decided(Level::kZero))
    step += gather_s(largest_gradient, s.dp, s.cp * s.tp) * 0.7;
  if (s.dp > 1 && decided(Level::kZero)) {
    const double once = gather_s(largest_gradient, s.dp, s.cp * s.tp);
    // Groups with one member on each node hide less: their share of the network is small.
    const bool is_apart = s.cp * s.tp > 1 && ranks > cluster_.devices_per_node;
    const double exposed = is_apart ? 0.3 : 0.1;
    const double copies = once * 0.5;  // parameters travel in half the bytes of their gradients
    if (s.zero <= 1)
      step += (s.zero == 0 ? 2 * once : once + copies) * 0.7;
    else
      step += std::max(exposed, 1 - 0.6 * longest / std::max(once, 1e-12)) * once * m + copies;
    if (s.zero == 3)
      step += std::max(exposed, 1 - 0.6 * longest / std::max(2 * copies, 1e-12)) * 2 * copies * m;
    if (s.zero == 2) step += largest_gradient * 0.5 / memory_rate * m;
  }
  guess.outside += step - without_replicas;
  guess.seconds = step;

  // What sequence parallelism gathers for weight gradients that come later is there until then.
  std::vector<GraphProfile::Whole> whole;
  for (const auto& layer : sketch_.layers())
    whole.push_back(
        {sp ? layer.unsplit : layer.whole,
         Bytes(static_cast<std::int64_t>(sp ? layer.pending * samples * (1 - 1 / tp) : 0))});
  for (const Bytes bytes : profile.likely_memory(s, places, micro_batches, open, whole))
    guess.bytes = std::max(guess.bytes, static_cast<double>(bytes.value));
  guess.bytes += static_cast<double>(num_communicators(s) * per_communicator_.value);
  return guess;
}

}  // namespace sextant
