// Chains of boxings are followed to both ends.
#include "compiler/words/boxing_causes.h"

#include "core/base/at.h"
#include "core/costs/communication_volume.h"
#include "sbp/boxing.h"

#include <algorithm>

namespace sextant {
namespace {

class Causes {
 public:
  explicit Causes(const StagedGraph& graph) : graph_(graph), reads_(graph.tensors.size()) {
    for (const StagedOpId op : graph.ops.keys())
      for (std::size_t input = 0; input < graph.ops[op].in.size(); ++input)
        reads_[graph.ops[op].in[input]].push_back({op, input});
  }

  std::vector<BoxingCause> run() {
    std::vector<BoxingCause> causes;
    for (const StagedOpId op : graph_.ops.keys())
      if (is_boxing(graph_.ops[op]) && !graph_.ops[op].out.empty()) causes.push_back(cause_of(op));
    return causes;
  }

 private:
  struct Read {
    StagedOpId op;
    std::size_t input;
  };

  const StagedTensor& tensor(StagedTensorId index) const { return graph_.tensors[index]; }

  // What a boxing reads; a receive half reads what its send half does.
  StagedTensorId source(StagedOpId boxing) const {
    const StagedOp& op = graph_.ops[boxing];
    return op.in.empty() ? graph_.ops[op.communication->peer].in[0] : op.in[0];
  }

  BoxingCause cause_of(StagedOpId boxing) const {
    StagedTensorId start = source(boxing);
    while (is_boxing(graph_.ops[tensor(start).producer])) start = source(tensor(start).producer);
    BoxingCause cause{.boxing = boxing,
                      .producer = tensor(start).producer,
                      .made = tensor(start).words,
                      .readers = {}};
    add_readers(graph_.ops[boxing].out[0], cause.readers);
    std::sort(cause.readers.begin(), cause.readers.end(), [](const auto& a, const auto& b) {
      return std::pair(a.op, a.input) < std::pair(b.op, b.input);
    });
    return cause;
  }

  void add_readers(StagedTensorId result, std::vector<BoxingCause::Reader>& readers) const {
    for (const Read& read : reads_[result]) {
      const StagedOp& op = graph_.ops[read.op];
      if (!is_boxing(op))
        readers.push_back({read.op, read.input, tensor(result).words});
      else
        add_readers(op.out.empty() ? graph_.ops[op.communication->peer].out[0] : op.out[0],
                    readers);
    }
  }

  const StagedGraph& graph_;
  Table<StagedTensorId, std::vector<Read>> reads_;
};

}  // namespace

std::vector<BoxingCause> boxing_causes(const StagedGraph& graph) { return Causes(graph).run(); }

namespace {

Duration time_alone(const StagedGraph& graph, const StagedOp& boxing, const CostModel& cost) {
  const StagedTensor& before = graph.tensors[boxing.in[0]];
  const StagedTensor& after = graph.tensors[boxing.out[0]];
  BoxingStep step;
  step.from = before.words;
  step.to = after.words;
  step.dtype = step.to_dtype = before.global.dtype;
  const Placement& on = at(graph.placements, boxing.stage);
  return device_time(step, before.global, on, on, cost);
}

}  // namespace

BoxingCost cost_of(const StagedGraph& graph, const StagedOp& boxing, const NetworkModel& network,
                   const CostModel* cost_model) {
  if (!boxing.communication) {
    BoxingCost alone;
    alone.tensor = size_of(graph.tensors[boxing.in[0]].global);
    if (cost_model != nullptr) alone.each = time_alone(graph, boxing, *cost_model);
    return alone;
  }
  const StagedCommunication& c = *boxing.communication;
  const bool transfers = c.primitive == Primitive::kTransfer;
  BoxingStep step;
  step.kind = transfers ? BoxingKind::kTransfer : BoxingKind::kCollective;
  step.primitive = c.primitive;
  step.reduce = c.reduce;
  step.from = c.from;
  step.to = c.to;
  step.group_axes = c.group_axes;
  step.where = transfers ? BoxingWhere::kBetween : BoxingWhere::kSource;
  step.dtype = step.to_dtype = c.dtype;
  const Placement& from = at(graph.placements, c.from_stage);
  const Placement& to = at(graph.placements, c.to_stage);
  const StagedTensorId any = boxing.in.empty() ? boxing.out[0] : boxing.in[0];
  const TensorType type{graph.tensors[any].global.shape, c.dtype};

  BoxingCost cost;
  cost.tensor = size_of(type);
  for (const PairBytes& pair : reference_volume(step, type, from, to)) cost.moved += pair.bytes;
  Communication communication;
  communication.primitive = c.primitive;
  communication.reduce = c.reduce;
  communication.dtype = c.dtype;
  const CollectiveSizes sizes(communication, type.shape, {&c.from, &from}, {&c.to, &to});
  for (const std::vector<Rank>& group : groups_of(step, type, from, to)) {
    const CollectiveCost of_group = sizes.of(group);
    const Duration time = network.duration(of_group);
    if (cost.members > 0 && time <= cost.each) continue;
    cost.members = static_cast<std::int64_t>(group.size());
    cost.each = time;
  }
  return cost;
}

std::int64_t acts_of(const StagedGraph& graph, const StagedOp& op) {
  return op.rate == Rate::kPerStep ? 1 : graph.micro_batches;
}

}  // namespace sextant
