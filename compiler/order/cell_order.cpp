// List scheduling of one cell on the queues of one device.
#include "compiler/order/cell_order.h"

#include "compiler/order/instance_order.h"
#include "core/base/at.h"

#include <algorithm>
#include <map>

namespace sextant {

QueueModel::QueueModel(const Partition& partition, const ActorDurations& durations)
    : partition_(&partition),
      durations_(&durations),
      end_(partition.graph().ops.size()),
      taken_in_(partition.graph().ops.size(), 0) {}

void QueueModel::clear() {
  free_.fill(Duration());
  ++round_;
}

Duration QueueModel::latest() const { return *std::max_element(free_.begin(), free_.end()); }
bool QueueModel::was_taken(StagedOpId op) const { return taken_in_[op] == round_; }
Duration QueueModel::end_of(StagedOpId op) const { return end_[op]; }

Duration QueueModel::ready(StagedOpId op) const {
  Duration ready;
  for (const StagedTensorId in : partition_->graph().ops[op].in) {
    const StagedTensor& tensor = partition_->graph().tensors[in];
    if (!tensor.is_state && was_taken(tensor.producer))
      ready = std::max(ready, end_[tensor.producer]);
  }
  return ready;
}

Duration QueueModel::start(StagedOpId op) const {
  Duration earliest = ready(op);
  // Not before the compute queue has come to where the fetch stands in the order: what it brings
  // takes memory from then on.
  if (is_fetch(partition_->part(op))) earliest = std::max(earliest, free(QueueRole::kCompute));
  return std::max(free(partition_->graph().ops[op].queue), earliest);
}

Duration QueueModel::duration(StagedOpId op) const {
  const ActorPlace place = partition_->place(op);
  return at((*durations_)[place.instance], place.actor);
}

void QueueModel::take(StagedOpId op) {
  const Duration end = start(op) + duration(op);
  free_[partition_->graph().ops[op].queue] = end;
  end_[op] = end;
  taken_in_[op] = round_;
}

std::optional<CellKind> cell_of(StepPart part, Schedule schedule) {
  switch (part) {
    case StepPart::kFetchForward:
    case StepPart::kForward:
      return CellKind::kForward;
    case StepPart::kFetchBackward:
    case StepPart::kInputGrad:
      return CellKind::kBackward;
    case StepPart::kWeightGrad:
      return splits_backward(schedule) ? CellKind::kWeightGrad : CellKind::kBackward;
    case StepPart::kBefore:
    case StepPart::kPrompt:
    case StepPart::kLate:
    case StepPart::kTransfer:
    case StepPart::kHost:
      return std::nullopt;
  }
  return std::nullopt;
}

namespace {

// Position in the staged graph of the first operator of each layer, fetches aside.
std::map<int, StagedOpId> firsts_of_layers(const Partition& partition,
                                           const std::vector<StagedInstanceId>& instances) {
  std::map<int, StagedOpId> firsts;
  for (const StagedInstanceId index : instances) {
    const InstanceSpec& spec = partition.instances()[index];
    if (is_fetch(spec.part)) continue;
    const StagedOpId first = *std::min_element(spec.ops.begin(), spec.ops.end());
    const auto [entry, is_new] = firsts.try_emplace(spec.layer, first);
    entry->second = std::min(entry->second, first);
  }
  return firsts;
}

// Layer by layer in the order of the staged graph; of a layer, what comes earlier in the step.
// Fetches go one layer ahead, before all else of the layer in front of theirs.
std::vector<StagedOpId> layer_by_layer(const Partition& partition,
                                       const std::vector<StagedInstanceId>& instances) {
  std::map<int, StagedOpId> firsts = firsts_of_layers(partition, instances);
  std::vector<StagedOpId> in_order;
  for (const auto& [layer, first] : firsts) in_order.push_back(first);
  std::sort(in_order.begin(), in_order.end());
  const auto first_before = [&](StagedOpId first) {
    const auto own = std::lower_bound(in_order.begin(), in_order.end(), first);
    return own == in_order.begin() ? first : *(own - 1);
  };
  std::vector<KeyedInstance> members;
  for (const StagedInstanceId index : instances) {
    const InstanceSpec& spec = partition.instances()[index];
    const StagedOpId first = firsts[spec.layer];
    if (is_fetch(spec.part))
      members.push_back({{first_before(first).value, -1}, index});
    else
      members.push_back({{first.value, static_cast<std::int64_t>(spec.part)}, index});
  }
  return ops_in_order(partition, std::move(members));
}

// Moves weight gradients behind: they run where the compute queue would wait for a collective, at
// the latest before the second layer after their own goes backward, so that what they need is not
// kept much longer.
class WaitFiller {
 public:
  WaitFiller(const Partition& partition, const ActorDurations& durations,
             std::span<const StagedOpId> ops)
      : partition_(partition), model_(partition, durations) {
    for (const StagedOpId op : ops) {
      const bool is_ahead = is_fetch(partition.part(op));
      if (!is_ahead && (layers_.empty() || layers_.back() != layer(op)))
        layers_.push_back(layer(op));
      const bool spare = partition.part(op) == StepPart::kWeightGrad;
      (spare ? spare_ : main_).push_back({op, layers_.size()});
    }
  }

  std::vector<StagedOpId> fill() {
    for (const Item& next : main_) {
      while (has_spare() && (spare_[taken_].turn + 1 < next.turn || fills_wait_of(next.op)))
        take_spare();
      take(next.op);
    }
    while (taken_ < spare_.size()) take(spare_[taken_++].op);
    return std::move(done_);
  }

 private:
  struct Item {
    StagedOpId op;
    std::size_t turn = 0;  // counts the layers
  };

  int layer(StagedOpId op) const { return partition_.graph().ops[op].layer; }

  bool has_spare() const {
    if (taken_ == spare_.size()) return false;
    const auto& in = partition_.graph().ops[spare_[taken_].op].in;
    return std::all_of(in.begin(), in.end(), [&](StagedTensorId input) {
      const StagedTensor& tensor = partition_.graph().tensors[input];
      return tensor.is_state || partition_.part(tensor.producer) != StepPart::kInputGrad ||
             model_.was_taken(tensor.producer);
    });
  }

  bool fills_wait_of(StagedOpId op) const {
    if (partition_.graph().ops[op].queue != QueueRole::kCompute) return false;
    const Duration start = model_.start(op);
    return start > model_.free(QueueRole::kCompute) && model_.ready(spare_[taken_].op) < start;
  }

  void take(StagedOpId op) {
    model_.take(op);
    done_.push_back(op);
  }
  void take_spare() { take(spare_[taken_++].op); }

  const Partition& partition_;
  QueueModel model_;
  std::vector<int> layers_;
  std::vector<Item> main_, spare_;
  std::size_t taken_ = 0;  // of the spare
  std::vector<StagedOpId> done_;
};

}  // namespace

std::vector<StagedOpId> cell_ops(const Partition& partition, const ActorDurations& durations,
                                 Schedule schedule, int stage, const Cell& cell) {
  std::vector<StagedInstanceId> instances;
  for (const StagedInstanceId index : partition.of_stage(stage)) {
    const InstanceSpec& spec = partition.instances()[index];
    if (cell_of(spec.part, schedule) == cell.kind &&
        partition.graph().chunk_of(spec.layer) == cell.chunk)
      instances.push_back(index);
  }
  const std::vector<StagedOpId> ops = layer_by_layer(partition, instances);
  const bool has_both = cell.kind == CellKind::kBackward && !splits_backward(schedule);
  const bool may_wait = std::any_of(ops.begin(), ops.end(), [&](StagedOpId op) {
    return partition.part(op) == StepPart::kInputGrad &&
           partition.graph().ops[op].queue != QueueRole::kCompute;
  });
  return has_both && may_wait ? WaitFiller(partition, durations, ops).fill() : ops;
}

}  // namespace sextant
