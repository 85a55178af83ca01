// Parts of a step by dependence, instances by (stage, layer, part), actors by readiness.
#include "compiler/order/partition.h"

#include "core/base/at.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

namespace sextant {

std::string_view to_string(StepPart part) {
  switch (part) {
    case StepPart::kBefore:
      return "parameters";
    case StepPart::kFetchForward:
      return "fetch_forward";
    case StepPart::kFetchBackward:
      return "fetch_backward";
    case StepPart::kForward:
      return "forward";
    case StepPart::kInputGrad:
      return "input_grad";
    case StepPart::kWeightGrad:
      return "weight_grad";
    case StepPart::kPrompt:
      return "reduce";
    case StepPart::kLate:
      return "optimizer";
    case StepPart::kTransfer:
      return "transfer";
    case StepPart::kHost:
      return "host";
  }
  return "?";
}

Partition::Partition(const StagedGraph& graph) : graph_(&graph) {
  index_readers();
  index_operands();
  find_parts();
  make_instances();
}

std::span<const StagedInstanceId> Partition::of_stage(int stage) const {
  return at(of_stage_, stage);
}
StepPart Partition::part(StagedOpId op) const { return parts_[op]; }
ActorPlace Partition::place(StagedOpId op) const { return places_[op]; }
std::int32_t Partition::generation(StagedOpId op) const { return generations_[op]; }

std::span<const StagedOpId> Partition::readers(StagedTensorId tensor) const {
  const std::int32_t first = first_reader_[tensor];
  const std::int32_t end = first_reader_[tensor.plus(1)];
  return std::span(readers_).subspan(at(first), at(end - first));
}

std::int64_t Partition::acts_per_content(StagedTensorId tensor) const {
  if (graph_->ops[graph_->tensors[tensor].producer].rate == Rate::kPerStep) return 1;
  for (const StagedOpId reader : readers(tensor))
    if (graph_->ops[reader].rate == Rate::kPerStep) return graph_->micro_batches;
  return 1;
}

QueueRole Partition::queue(StagedOpId op) const { return op_facts_[op].queue; }

std::span<const StagedTensorId> Partition::reads(StagedOpId op) const {
  const OpFacts& facts = op_facts_[op];
  return std::span(operands_).subspan(at(facts.first_read),
                                      at(facts.first_made - facts.first_read));
}

std::span<const StagedTensorId> Partition::makes(StagedOpId op) const {
  const std::int32_t first = op_facts_[op].first_made;
  return std::span(operands_).subspan(at(first), at(op_facts_[op.plus(1)].first_read - first));
}

bool Partition::is_state(StagedTensorId tensor) const { return is_state_[tensor] != 0; }

bool Partition::is_transfer(StagedOpId op) const { return op_facts_[op].is_transfer; }

bool Partition::is_receive(StagedOpId op) const {
  return is_transfer(op) && graph_->ops[op].communication->side == Side::kReceive;
}

void Partition::index_readers() {
  first_reader_.assign(graph_->tensors.size() + 1, 0);
  // An operator that reads a tensor twice reads it once.
  const auto for_each_read = [&](auto&& visit) {
    for (const StagedOpId op : graph_->ops.keys()) {
      const auto& in = graph_->ops[op].in;
      for (auto tensor = in.begin(); tensor != in.end(); ++tensor)
        if (std::find(in.begin(), tensor, *tensor) == tensor) visit(*tensor, op);
    }
  };
  for_each_read([&](StagedTensorId tensor, StagedOpId) { ++first_reader_[tensor.plus(1)]; });
  std::partial_sum(first_reader_.begin(), first_reader_.end(), first_reader_.begin());
  readers_.resize(at(first_reader_.back()));
  Table<StagedTensorId, std::int32_t> next = first_reader_;
  for_each_read([&](StagedTensorId tensor, StagedOpId op) { at(readers_, next[tensor]++) = op; });
}

void Partition::index_operands() {
  op_facts_.reserve(graph_->ops.size() + 1);
  for (const StagedOp& op : graph_->ops) {
    OpFacts facts;
    facts.queue = op.queue;
    facts.is_transfer = op.communication && op.communication->primitive == Primitive::kTransfer;
    facts.first_read = static_cast<std::int32_t>(operands_.size());
    operands_.insert(operands_.end(), op.in.begin(), op.in.end());
    facts.first_made = static_cast<std::int32_t>(operands_.size());
    operands_.insert(operands_.end(), op.out.begin(), op.out.end());
    op_facts_.push_back(facts);
  }
  const auto end = static_cast<std::int32_t>(operands_.size());
  op_facts_.push_back({.first_read = end, .first_made = end});
  for (const StagedTensor& tensor : graph_->tensors) is_state_.push_back(tensor.is_state ? 1 : 0);
}

namespace {

StepPart part_of_phase(Phase phase) {
  switch (phase) {
    case Phase::kData:
    case Phase::kForward:
    case Phase::kCommunication:
      return StepPart::kForward;
    case Phase::kRecompute:
    case Phase::kInputGrad:
      return StepPart::kInputGrad;
    case Phase::kWeightGrad:
    case Phase::kOptimizer:
      return StepPart::kWeightGrad;
  }
  return StepPart::kForward;
}

}  // namespace

// Which operators of the rate "per step" come after the micro-batches: those that update state or
// depend on what a micro-batch made.
Table<StagedOpId, bool> Partition::find_after() const {
  Table<StagedOpId, bool> after(graph_->ops.size(), false);
  const auto makes_after = [&](StagedTensorId in) {
    const StagedTensor& tensor = graph_->tensors[in];
    return !tensor.is_state &&
           (graph_->ops[tensor.producer].rate == Rate::kPerMicroBatch || after[tensor.producer]);
  };
  for (const StagedOpId i : graph_->ops.keys()) {
    const StagedOp& op = graph_->ops[i];
    if (op.rate == Rate::kPerMicroBatch) continue;
    const bool updates = std::any_of(op.out.begin(), op.out.end(), [&](StagedTensorId out) {
      return graph_->tensors[out].is_state;
    });
    const bool received = is_receive(i) && after[op.communication->peer];
    after[i] = updates || received || std::any_of(op.in.begin(), op.in.end(), makes_after);
  }
  return after;
}

// Which per-step operators lead, over others, to a communication.
Table<StagedOpId, bool> Partition::find_feeding() const {
  Table<StagedOpId, bool> feeds(graph_->ops.size(), false);
  for (std::size_t left = graph_->ops.size(); left > 0; --left) {
    const StagedOpId i(left - 1);
    if (graph_->ops[i].rate == Rate::kPerMicroBatch) continue;
    for (const StagedTensorId out : graph_->ops[i].out)
      for (const StagedOpId reader : readers(out))
        if (!graph_->tensors[out].is_state && (graph_->ops[reader].communication || feeds[reader]))
          feeds[i] = true;
  }
  return feeds;
}

// Prompt operators follow the last micro-batch without holding up the compute queue: communications
// of what the micro-batches made, and computations that only prepare them. What waits for a
// communication, or for another stage, is late.
bool Partition::is_prompt(const StagedOp& op, bool feeds_communication) const {
  const bool computes = !op.communication;
  if (computes && !feeds_communication) return false;
  for (const StagedTensorId out : op.out)
    if (graph_->tensors[out].is_state) return false;
  return std::all_of(op.in.begin(), op.in.end(), [&](StagedTensorId in) {
    const StagedTensor& tensor = graph_->tensors[in];
    if (tensor.is_state) return true;
    switch (parts_[tensor.producer]) {
      case StepPart::kBefore:
      case StepPart::kFetchForward:
      case StepPart::kFetchBackward:
      case StepPart::kForward:
      case StepPart::kInputGrad:
      case StepPart::kWeightGrad:
      case StepPart::kHost:
        return true;
      case StepPart::kPrompt:
        return !computes || !graph_->ops[tensor.producer].communication;
      case StepPart::kLate:
      case StepPart::kTransfer:
        return false;
    }
    return false;
  });
}

// A micro-batch makes nothing that a fetch reads: it can go ahead of those who need it.
bool Partition::is_fetch(const StagedOp& op) const {
  if (op.in.empty() || !is_boxing(op)) return false;
  return std::all_of(op.in.begin(), op.in.end(), [&](StagedTensorId in) {
    const StagedTensor& tensor = graph_->tensors[in];
    return tensor.is_state || graph_->ops[tensor.producer].rate == Rate::kPerStep ||
           sextant::is_fetch(parts_[tensor.producer]);
  });
}

// A communication that belongs to no phase is part of what made its input.
StepPart Partition::part_of_micro_batch(const StagedOp& op) const {
  if (is_fetch(op))
    return part_of_phase(op.phase) == StepPart::kForward ? StepPart::kFetchForward
                                                         : StepPart::kFetchBackward;
  if (op.phase == Phase::kCommunication && !op.in.empty()) {
    const StepPart producer = parts_[graph_->tensors[op.in[0]].producer];
    if (producer == StepPart::kInputGrad || producer == StepPart::kWeightGrad) return producer;
  }
  return part_of_phase(op.phase);
}

void Partition::find_parts() {
  parts_.assign(graph_->ops.size(), StepPart::kForward);
  const Table<StagedOpId, bool> after = find_after();
  const Table<StagedOpId, bool> feeds = find_feeding();
  for (const StagedOpId i : graph_->ops.keys()) {
    const StagedOp& op = graph_->ops[i];
    if (op.queue == QueueRole::kHost)
      parts_[i] = StepPart::kHost;
    else if (is_transfer(i))
      parts_[i] = StepPart::kTransfer;
    else if (op.rate == Rate::kPerMicroBatch)
      parts_[i] = part_of_micro_batch(op);
    else if (!after[i])
      parts_[i] = StepPart::kBefore;
    else
      parts_[i] = is_prompt(op, feeds[i]) ? StepPart::kPrompt : StepPart::kLate;
  }
}

void Partition::make_instances() {
  struct Key {
    int stage, layer;
    StepPart part;
    auto operator<=>(const Key&) const = default;
  };
  std::vector<std::pair<Key, StagedInstanceId>> known;  // sorted
  places_.resize(graph_->ops.size());
  of_stage_.resize(graph_->placements.size());
  for (const StagedOpId index : graph_->ops.keys()) {
    const StagedOp& op = graph_->ops[index];
    const StepPart part = parts_[index];
    const Key key{op.stage, op.layer, part};
    const bool alone = part == StepPart::kTransfer || part == StepPart::kHost;
    auto found = std::lower_bound(known.begin(), known.end(), key,
                                  [](const auto& entry, const Key& k) { return entry.first < k; });
    StagedInstanceId instance = instances_.next_key();
    if (!alone && found != known.end() && found->first == key) {
      instance = found->second;
    } else {
      if (!alone) known.insert(found, {key, instance});
      instances_.push_back({op.stage, op.layer, part, op.rate, {}});
      at(of_stage_, op.stage).push_back(instance);
    }
    std::vector<StagedOpId>& ops = instances_[instance].ops;
    places_[index] = {instance, static_cast<std::int32_t>(ops.size())};
    ops.push_back(index);
  }
  find_generations();
  for (const StagedInstanceId instance : instances_.keys()) {
    order_ops(instance);
    number_actors(instances_[instance]);
  }
}

// An update that waits for the norm of all gradients waits, over other layers and stages, for
// statistics of its own layer.
void Partition::find_generations() {
  generations_.assign(graph_->ops.size(), 0);
  const auto is_late = [&](StagedOpId op) {
    return parts_[op] == StepPart::kLate ||
           (parts_[op] == StepPart::kTransfer && graph_->ops[op].rate == Rate::kPerStep);
  };
  for (const StagedOpId i : graph_->ops.keys()) {
    if (!is_late(i)) continue;
    const auto follow = [&](StagedOpId needed) {
      if (!is_late(needed)) return;
      const bool is_own = places_[needed].instance == places_[i].instance;
      generations_[i] = std::max(generations_[i], generations_[needed] + (is_own ? 0 : 1));
    };
    if (is_receive(i)) follow(graph_->ops[i].communication->peer);
    for (const StagedTensorId in : graph_->ops[i].in)
      if (!graph_->tensors[in].is_state) follow(graph_->tensors[in].producer);
  }
}

void Partition::number_actors(const InstanceSpec& instance) {
  for (std::size_t actor = 0; actor < instance.ops.size(); ++actor)
    places_[instance.ops[actor]].actor = static_cast<std::int32_t>(actor);
}

// The last operator of the micro-batches, in the staged graph, that a prompt operator waits for.
StagedOpId Partition::completed_by(StagedOpId index) const {
  StagedOpId last;
  for (const StagedTensorId in : graph_->ops[index].in) {
    const StagedTensor& tensor = graph_->tensors[in];
    if (tensor.is_state) continue;
    const bool is_prompt = parts_[tensor.producer] == StepPart::kPrompt;
    last = std::max(last, is_prompt ? completed_by(tensor.producer) : tensor.producer);
  }
  return last;
}

// Where an operator stands before others that are ready as well; the smallest goes first.
std::int64_t Partition::precedence(StagedOpId index, const InstanceSpec& instance,
                                   QueueRole queue) const {
  const StagedOp& op = graph_->ops[index];
  const std::int64_t own = index.value;
  const auto early = std::int64_t{-1} - static_cast<std::int64_t>(graph_->ops.size());
  switch (instance.part) {
    case StepPart::kForward:
    case StepPart::kInputGrad:
    case StepPart::kWeightGrad: {
      // A collective of what this instance made goes at once, so that what follows runs beside it.
      const bool of_own =
          op.communication &&
          places_[graph_->tensors[op.in.front()].producer].instance == places_[index].instance;
      return of_own ? early + own : own;
    }
    case StepPart::kPrompt:
      return completed_by(index).value;
    case StepPart::kFetchForward:
    case StepPart::kFetchBackward:
      return own;
    case StepPart::kBefore:
    case StepPart::kLate: {
      // On the queue of the one before, so that a layer's casts or updates are one run; but what
      // others need before they give something back goes first.
      const std::int64_t generation = generations_[index];
      return generation * -2 * early + (op.queue == queue ? early + own : own);
    }
    case StepPart::kTransfer:
    case StepPart::kHost:
      return own;
  }
  return own;
}

void Partition::order_ops(StagedInstanceId index) {
  InstanceSpec& instance = instances_[index];
  const std::vector<StagedOpId> ops = std::move(instance.ops);
  instance.ops.clear();
  std::vector<std::int32_t> missing(ops.size(), 0);  // producers of this instance not yet placed
  const auto for_each_reader_here = [&](StagedOpId op, auto&& visit) {
    for (const StagedTensorId out : graph_->ops[op].out)
      if (!graph_->tensors[out].is_state)
        for (const StagedOpId reader : readers(out))
          if (places_[reader].instance == index) visit(at(missing, places_[reader].actor));
  };
  for (const StagedOpId op : ops) for_each_reader_here(op, [](std::int32_t& count) { ++count; });

  QueueRole queue = QueueRole::kCompute;
  while (instance.ops.size() < ops.size()) {
    std::optional<std::size_t> next;
    std::int64_t least = 0;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      if (missing[i] != 0) continue;
      const std::int64_t own = precedence(ops[i], instance, queue);
      if (next && least <= own) continue;
      next = i;
      least = own;
    }
    // Operators come after their producers, so the first one left is always ready.
    missing[*next] = -1;
    instance.ops.push_back(ops[*next]);
    queue = graph_->ops[ops[*next]].queue;
    for_each_reader_here(ops[*next], [](std::int32_t& count) { --count; });
  }
}

}  // namespace sextant
