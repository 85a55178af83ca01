// Parts of a step by dependence, instances by (stage, layer, part), actors by readiness.
#include "compiler/order/partition.h"

#include "core/base/at.h"

#include <algorithm>
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

std::span<const std::int32_t> Partition::of_stage(int stage) const { return at(of_stage_, stage); }
StepPart Partition::part(StagedOpIndex op) const { return at(parts_, op); }
ActorPlace Partition::place(StagedOpIndex op) const { return at(places_, op); }
std::int32_t Partition::generation(StagedOpIndex op) const { return at(generations_, op); }

std::span<const StagedOpIndex> Partition::readers(StagedTensorIndex tensor) const {
  const auto first = static_cast<std::size_t>(at(first_reader_, tensor));
  const auto last = static_cast<std::size_t>(at(first_reader_, tensor + 1));
  return std::span(readers_).subspan(first, last - first);
}

std::int64_t Partition::acts_per_content(StagedTensorIndex tensor) const {
  if (at(graph_->ops, at(graph_->tensors, tensor).producer).rate == Rate::kPerStep) return 1;
  for (const StagedOpIndex reader : readers(tensor))
    if (at(graph_->ops, reader).rate == Rate::kPerStep) return graph_->micro_batches;
  return 1;
}

QueueRole Partition::queue(StagedOpIndex op) const { return at(op_facts_, op).queue; }

std::span<const StagedTensorIndex> Partition::reads(StagedOpIndex op) const {
  const OpFacts& facts = at(op_facts_, op);
  return std::span(operands_).subspan(at(facts.first_read),
                                      at(facts.first_made - facts.first_read));
}

std::span<const StagedTensorIndex> Partition::makes(StagedOpIndex op) const {
  const std::int32_t first = at(op_facts_, op).first_made;
  return std::span(operands_).subspan(at(first), at(at(op_facts_, op + 1).first_read - first));
}

bool Partition::is_state(StagedTensorIndex tensor) const { return at(is_state_, tensor) != 0; }

bool Partition::is_transfer(StagedOpIndex op) const { return at(op_facts_, op).is_transfer; }

bool Partition::is_receive(StagedOpIndex op) const {
  return is_transfer(op) && at(graph_->ops, op).communication->side == Side::kReceive;
}

void Partition::index_readers() {
  first_reader_.assign(graph_->tensors.size() + 1, 0);
  // An operator that reads a tensor twice reads it once.
  const auto for_each_read = [&](auto&& visit) {
    for (std::size_t op = 0; op < graph_->ops.size(); ++op) {
      const auto& in = graph_->ops[op].in;
      for (auto tensor = in.begin(); tensor != in.end(); ++tensor)
        if (std::find(in.begin(), tensor, *tensor) == tensor)
          visit(*tensor, static_cast<StagedOpIndex>(op));
    }
  };
  for_each_read([&](StagedTensorIndex tensor, StagedOpIndex) { ++at(first_reader_, tensor + 1); });
  for (std::size_t i = 1; i < first_reader_.size(); ++i) first_reader_[i] += first_reader_[i - 1];
  readers_.resize(static_cast<std::size_t>(first_reader_.back()));
  std::vector<std::int32_t> next = first_reader_;
  for_each_read(
      [&](StagedTensorIndex tensor, StagedOpIndex op) { at(readers_, at(next, tensor)++) = op; });
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
std::vector<bool> Partition::find_after() const {
  std::vector<bool> after(graph_->ops.size(), false);
  const auto makes_after = [&](StagedTensorIndex in) {
    const StagedTensor& tensor = at(graph_->tensors, in);
    return !tensor.is_state && (at(graph_->ops, tensor.producer).rate == Rate::kPerMicroBatch ||
                                after[static_cast<std::size_t>(tensor.producer)]);
  };
  for (std::size_t i = 0; i < graph_->ops.size(); ++i) {
    const StagedOp& op = graph_->ops[i];
    if (op.rate == Rate::kPerMicroBatch) continue;
    const bool updates = std::any_of(op.out.begin(), op.out.end(), [&](StagedTensorIndex out) {
      return at(graph_->tensors, out).is_state;
    });
    const bool received = is_receive(static_cast<StagedOpIndex>(i)) &&
                          after[static_cast<std::size_t>(op.communication->peer)];
    after[i] = updates || received || std::any_of(op.in.begin(), op.in.end(), makes_after);
  }
  return after;
}

// Which per-step operators lead, over others, to a communication.
std::vector<bool> Partition::find_feeding() const {
  std::vector<bool> feeds(graph_->ops.size(), false);
  for (std::size_t i = graph_->ops.size(); i-- > 0;) {
    if (graph_->ops[i].rate == Rate::kPerMicroBatch) continue;
    for (const StagedTensorIndex out : graph_->ops[i].out)
      for (const StagedOpIndex reader : readers(out))
        if (!at(graph_->tensors, out).is_state &&
            (at(graph_->ops, reader).communication || feeds[static_cast<std::size_t>(reader)]))
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
  for (const StagedTensorIndex out : op.out)
    if (at(graph_->tensors, out).is_state) return false;
  return std::all_of(op.in.begin(), op.in.end(), [&](StagedTensorIndex in) {
    const StagedTensor& tensor = at(graph_->tensors, in);
    if (tensor.is_state) return true;
    switch (at(parts_, tensor.producer)) {
      case StepPart::kBefore:
      case StepPart::kFetchForward:
      case StepPart::kFetchBackward:
      case StepPart::kForward:
      case StepPart::kInputGrad:
      case StepPart::kWeightGrad:
      case StepPart::kHost:
        return true;
      case StepPart::kPrompt:
        return !computes || !at(graph_->ops, tensor.producer).communication;
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
  return std::all_of(op.in.begin(), op.in.end(), [&](StagedTensorIndex in) {
    const StagedTensor& tensor = at(graph_->tensors, in);
    return tensor.is_state || at(graph_->ops, tensor.producer).rate == Rate::kPerStep ||
           sextant::is_fetch(at(parts_, tensor.producer));
  });
}

// A communication that belongs to no phase is part of what made its input.
StepPart Partition::part_of_micro_batch(const StagedOp& op) const {
  if (is_fetch(op))
    return part_of_phase(op.phase) == StepPart::kForward ? StepPart::kFetchForward
                                                         : StepPart::kFetchBackward;
  if (op.phase == Phase::kCommunication && !op.in.empty()) {
    const StepPart producer = at(parts_, at(graph_->tensors, op.in[0]).producer);
    if (producer == StepPart::kInputGrad || producer == StepPart::kWeightGrad) return producer;
  }
  return part_of_phase(op.phase);
}

void Partition::find_parts() {
  parts_.assign(graph_->ops.size(), StepPart::kForward);
  const std::vector<bool> after = find_after();
  const std::vector<bool> feeds = find_feeding();
  for (std::size_t i = 0; i < graph_->ops.size(); ++i) {
    const StagedOp& op = graph_->ops[i];
    if (op.queue == QueueRole::kHost)
      parts_[i] = StepPart::kHost;
    else if (is_transfer(static_cast<StagedOpIndex>(i)))
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
  std::vector<std::pair<Key, std::int32_t>> known;  // sorted
  places_.resize(graph_->ops.size());
  of_stage_.resize(graph_->placements.size());
  for (std::size_t index = 0; index < graph_->ops.size(); ++index) {
    const StagedOp& op = graph_->ops[index];
    const StepPart part = parts_[index];
    const Key key{op.stage, op.layer, part};
    const bool alone = part == StepPart::kTransfer || part == StepPart::kHost;
    auto found = std::lower_bound(known.begin(), known.end(), key,
                                  [](const auto& entry, const Key& k) { return entry.first < k; });
    std::int32_t instance = static_cast<std::int32_t>(instances_.size());
    if (!alone && found != known.end() && found->first == key) {
      instance = found->second;
    } else {
      if (!alone) known.insert(found, {key, instance});
      instances_.push_back({op.stage, op.layer, part, op.rate, {}});
      at(of_stage_, op.stage).push_back(instance);
    }
    std::vector<StagedOpIndex>& ops = at(instances_, instance).ops;
    places_[index] = {instance, static_cast<std::int32_t>(ops.size())};
    ops.push_back(static_cast<StagedOpIndex>(index));
  }
  find_generations();
  for (std::size_t instance = 0; instance < instances_.size(); ++instance) {
    order_ops(static_cast<std::int32_t>(instance));
    number_actors(instances_[instance]);
  }
}

// An update that waits for the norm of all gradients waits, over other layers and stages, for
// statistics of its own layer.
void Partition::find_generations() {
  generations_.assign(graph_->ops.size(), 0);
  const auto is_late = [&](StagedOpIndex op) {
    return at(parts_, op) == StepPart::kLate ||
           (at(parts_, op) == StepPart::kTransfer && at(graph_->ops, op).rate == Rate::kPerStep);
  };
  for (std::size_t i = 0; i < graph_->ops.size(); ++i) {
    const auto op = static_cast<StagedOpIndex>(i);
    if (!is_late(op)) continue;
    const auto follow = [&](StagedOpIndex needed) {
      if (!is_late(needed)) return;
      const bool is_own = at(places_, needed).instance == at(places_, op).instance;
      generations_[i] = std::max(generations_[i], at(generations_, needed) + (is_own ? 0 : 1));
    };
    if (is_receive(op)) follow(graph_->ops[i].communication->peer);
    for (const StagedTensorIndex in : graph_->ops[i].in)
      if (!at(graph_->tensors, in).is_state) follow(at(graph_->tensors, in).producer);
  }
}

void Partition::number_actors(const InstanceSpec& instance) {
  for (std::size_t actor = 0; actor < instance.ops.size(); ++actor)
    at(places_, instance.ops[actor]).actor = static_cast<std::int32_t>(actor);
}

// The last operator of the micro-batches, in the staged graph, that a prompt operator waits for.
StagedOpIndex Partition::completed_by(StagedOpIndex index) const {
  StagedOpIndex last = -1;
  for (const StagedTensorIndex in : at(graph_->ops, index).in) {
    const StagedTensor& tensor = at(graph_->tensors, in);
    if (tensor.is_state) continue;
    const bool is_prompt = at(parts_, tensor.producer) == StepPart::kPrompt;
    last = std::max(last, is_prompt ? completed_by(tensor.producer) : tensor.producer);
  }
  return last;
}

// Where an operator stands before others that are ready as well; the smallest goes first.
std::int64_t Partition::precedence(StagedOpIndex index, const InstanceSpec& instance,
                                   QueueRole queue) const {
  const StagedOp& op = at(graph_->ops, index);
  const auto early = std::int64_t{-1} - static_cast<std::int64_t>(graph_->ops.size());
  switch (instance.part) {
    case StepPart::kForward:
    case StepPart::kInputGrad:
    case StepPart::kWeightGrad: {
      // A collective of what this instance made goes at once, so that what follows runs beside it.
      const bool of_own =
          op.communication && at(places_, at(graph_->tensors, op.in.front()).producer).instance ==
                                  at(places_, index).instance;
      return of_own ? early + index : index;
    }
    case StepPart::kPrompt:
      return completed_by(index);
    case StepPart::kFetchForward:
    case StepPart::kFetchBackward:
      return index;
    case StepPart::kBefore:
    case StepPart::kLate: {
      // On the queue of the one before, so that a layer's casts or updates are one run; but what
      // others need before they give something back goes first.
      const std::int64_t generation = std::int64_t{generations_[static_cast<std::size_t>(index)]};
      return generation * -2 * early + (op.queue == queue ? early + index : index);
    }
    case StepPart::kTransfer:
    case StepPart::kHost:
      return index;
  }
  return index;
}

void Partition::order_ops(std::int32_t index) {
  InstanceSpec& instance = at(instances_, index);
  const std::vector<StagedOpIndex> ops = std::move(instance.ops);
  instance.ops.clear();
  std::vector<std::int32_t> missing(ops.size(), 0);  // producers of this instance not yet placed
  const auto for_each_reader_here = [&](StagedOpIndex op, auto&& visit) {
    for (const StagedTensorIndex out : at(graph_->ops, op).out)
      if (!at(graph_->tensors, out).is_state)
        for (const StagedOpIndex reader : readers(out))
          if (at(places_, reader).instance == index) visit(at(missing, at(places_, reader).actor));
  };
  for (const StagedOpIndex op : ops) for_each_reader_here(op, [](std::int32_t& count) { ++count; });

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
    queue = at(graph_->ops, ops[*next]).queue;
    for_each_reader_here(ops[*next], [](std::int32_t& count) { --count; });
  }
}

}  // namespace sextant
