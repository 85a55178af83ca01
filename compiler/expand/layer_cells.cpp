// Longest paths through the operators of two neighbouring layers.
#include "compiler/expand/layer_cells.h"

#include "compiler/expand/blocks.h"
#include "compiler/expand/durations.h"
#include "compiler/expand/layouts.h"
#include "compiler/expand/program_classes.h"
#include "compiler/order/cell_order.h"
#include "compiler/order/groups.h"
#include "compiler/order/moved_sizes.h"
#include "compiler/order/partition.h"
#include "compiler/words/fusion.h"
#include "core/base/at.h"
#include "core/base/check.h"
#include "core/base/table.h"
#include "core/graphs/fused_kinds.h"
#include "core/graphs/operator.h"
#include "core/graphs/physical_graph.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>

namespace sextant {
namespace {

bool is_pending(const StagedTensor& tensor) {
  return std::any_of(tensor.words.begin(), tensor.words.end(),
                     [](const Sbp& word) { return word.is_partial(); });
}

// The passes of an expansion up to the durations of actors.
class TimedStage {
 public:
  TimedStage(const StagedGraph& staged, const CostModel& cost, const NetworkModel& network,
             const ExpandOptions& options)
      : cost_(cost),
        network_(network),
        buckets_(options.buckets),
        partition_(staged),
        layouts_(staged),
        groups_(staged),
        classes_(find_program_classes(staged.placements, layouts_.layouts())),
        forms_(partition_, layouts_, groups_,
               {.in_place = options.in_place, .symmetric = options.symmetric},
               [&](const InstanceSpec& spec) { return classes_.size() > 1 || is_timed(spec); }) {
    graph_.placements = Table<PlacementId, Placement>(staged.placements);
    graph_.layouts = layouts_.layouts();
    graph_.groups = groups_.groups();
    BlockTable blocks = make_blocks(forms_, layouts_, classes_, staged.placements,
                                    builtin_operators(), options.symmetric);
    graph_.blocks = std::move(blocks.blocks);
    // What is asked for is the same on all of them.
    durations_.emplace(graph_, forms_, blocks, std::span(classes_).first(1), groups_, cost, network,
                       sizes_);
    block_of_ = std::move(blocks.block_of);
  }

  // Whether all ranks have equal shapes in the layer.
  bool is_uniform(int layer) const {
    if (classes_.size() == 1) return true;
    for (const StagedInstanceId index : partition_.instances().keys()) {
      if (partition_.instances()[index].layer != layer) continue;
      const FormId form = forms_.form_of(index);
      for (const Table<FormId, BlockId>& of_class : block_of_)
        if (of_class[form] != block_of_.front()[form]) return false;
    }
    return true;
  }
  const Partition& partition() const { return partition_; }
  Duration duration(StagedOpId op) const {
    const ActorPlace place = partition_.place(op);
    const std::span<const Duration> of_form = durations_->of_form(forms_.form_of(place.instance));
    return at(of_form, place.actor);
  }

  // Of a collective that may be in a bucket its share of it, at least: of a full one or a smaller
  // one, for measured times have dents.
  Duration share_of_bucket(StagedOpId index) {
    const Actor& actor = actor_of(index);
    Duration least = duration(index);
    if (!actor.communication) return least;
    const std::vector<GroupId> group_of_role = groups_.groups_of_member(0, 0);
    const DeviceGroup& group = graph_.groups[at(group_of_role, actor.communication->group)];
    const CollectiveCost alone = sizes_.cost(graph_, *actor.communication, group.ranks);
    const auto own = static_cast<double>(alone.global_bytes.value);
    for (Bytes size = buckets_.bytes; size > alone.global_bytes; size = Bytes(size.value / 2)) {
      const double times = static_cast<double>(size.value) / own;
      CollectiveCost bucket = alone;
      bucket.global_bytes = size;
      bucket.largest_volume =
          Bytes(static_cast<std::int64_t>(static_cast<double>(alone.largest_volume.value) * times));
      const auto full = static_cast<double>(network_.duration(bucket).value);
      least = std::min(least, Duration(static_cast<std::int64_t>(full / times)));
    }
    return least;
  }

  // Of instances that were asked for; empty: not asked for.
  ActorDurations durations_of_instances() const {
    ActorDurations durations;
    for (const StagedInstanceId index : partition_.instances().keys()) {
      const FormId form = forms_.form_of(index);
      durations.push_back(form.is_valid() ? durations_->of_form(form)
                                          : std::span<const Duration>());
    }
    return durations;
  }

  // A term that is repeated to the shape of the sum is not cut with it.
  bool is_add_of_equals(const StagedOp& op) const {
    const auto& tensors = partition_.graph().tensors;
    const Shape& sum = tensors[op.out.front()].global.shape;
    return op.role == OperatorRole::kSum && sum.rank() >= 2 &&
           std::all_of(op.in.begin(), op.in.end(),
                       [&](StagedTensorId term) { return tensors[term].global.shape == sum; });
  }

  // True of what makes a pending sum, which may be cut along its last dim but one.
  bool makes_pending_sum(StagedOpId index) const {
    const StagedOp& op = partition_.graph().ops[index];
    if (!op.members.empty() || (op.role != OperatorRole::kProduct && !is_add_of_equals(op)))
      return false;
    return is_pending(partition_.graph().tensors[op.out.front()]);
  }

  // Whether every device has an equal part of each piece of what may be cut in the layer and its
  // neighbours.
  bool cuts_evenly(int layer, std::int64_t pieces) const {
    const StagedGraph& graph = partition_.graph();
    const std::int64_t parts = pieces * graph.placements.front().size();
    for (const StagedOpId index : graph.ops.keys()) {
      const StagedOp& op = graph.ops[index];
      if (std::abs(op.layer - layer) > 1 || op.rate == Rate::kPerStep || !makes_pending_sum(index))
        continue;
      const Shape& shape = graph.tensors[op.out.front()].global.shape;
      if (shape.rank() < 2 || shape[shape.rank() - 2] % parts != 0) return false;
    }
    return true;
  }

  // What an operator that may be cut takes in even pieces, all of them one after another.
  Duration duration_in_pieces(StagedOpId index, std::int64_t pieces) const {
    const auto [known, is_new] = in_pieces_.try_emplace({index, pieces});
    if (is_new) known->second = asked_in_pieces(index, pieces);
    return known->second;
  }

 private:
  // What happens once per step belongs to no cell. Where ranks differ it says whether shapes do.
  static bool is_timed(const InstanceSpec& spec) {
    return spec.part == StepPart::kForward || spec.part == StepPart::kInputGrad ||
           spec.part == StepPart::kWeightGrad || is_fetch(spec.part);
  }

  const Block& block_with(StagedOpId op) const {
    const StagedInstanceId instance = partition_.place(op).instance;
    return graph_.blocks[block_of_.front()[forms_.form_of(instance)]];
  }
  const Actor& actor_of(StagedOpId op) const {
    return at(block_with(op).actors, partition_.place(op).actor);
  }

  Duration asked_in_pieces(StagedOpId index, std::int64_t pieces) const {
    const Block& block = block_with(index);
    const Actor& actor = actor_of(index);
    const auto piece_of = [&](TensorType type) {
      const std::size_t dim = type.shape.rank() - 2;
      type.shape = type.shape.with_extent(dim, type.shape[dim] / pieces);
      return type;
    };
    std::vector<TensorType> inputs, outputs;
    for (const Operand& in : actor.in) {
      const TensorType& type = in.source == Operand::Source::kPort
                                   ? at(block.ports, in.index).local
                                   : at(block.registers, in.index).local;
      const bool is_weight = actor.kind == "matmul" && inputs.size() == 1;
      inputs.push_back(is_weight ? type : piece_of(type));
    }
    for (const std::int32_t out : actor.out)
      outputs.push_back(piece_of(at(block.registers, out).local));
    const Work piece = builtin_operators().get(actor.kind).work(inputs, outputs, actor.attributes);
    return pieces * cost_.duration(piece);
  }

  const CostModel& cost_;
  const NetworkModel& network_;
  const BucketLimits buckets_;
  MovedSizes sizes_;
  Partition partition_;
  LayoutTable layouts_;
  GroupTable groups_;
  std::vector<ProgramClass> classes_;
  BlockForms forms_;
  std::vector<Table<FormId, BlockId>> block_of_;  // by class
  PhysicalGraph graph_;
  std::optional<DurationTable> durations_;
  mutable std::map<std::pair<StagedOpId, std::int64_t>, Duration> in_pieces_;  // asked before
};

// As if sums came in so many pieces, or in any smaller number of them.
struct Pieces {
  std::int64_t most = 1;
  // Where the model is asked what pieces take: for these numbers of them, boxing of sums being
  // free.
  std::span<const std::int64_t> asked = {};
};

class LayerPaths {
 public:
  // `free_kinds`: operators that cost nothing.
  LayerPaths(const TimedStage& stage, StepPart part, const Pieces& pieces,
             const std::set<std::string_view>& free_kinds = {})
      : stage_(stage), part_(part), pieces_(pieces), free_kinds_(free_kinds) {
    if (pieces.asked.empty()) return;
    for (const StagedOpId index : graph().ops.keys())
      if (may_be_cut(index, free_boxing_)) free_boxing_.insert(index);
  }

  // Nothing where a layer has no compute operator or the next one does not wait for it.
  std::optional<LayerCell> cell(int before, int layer, int next) const {
    const std::vector<StagedOpId> own = ops_of(layer), behind = ops_of(next);
    const auto first = first_compute(own);
    const auto first_behind = first_compute(behind);
    const auto waits = first_waiting(before, own), waits_behind = first_waiting(layer, behind);
    if (!first || !first_behind || !waits || !waits_behind) return std::nullopt;
    std::vector<StagedOpId> both = own;
    both.insert(both.end(), behind.begin(), behind.end());
    const Ends from_first = ends(both, *first), from_waiting = ends(both, *waits);
    LayerCell cell;
    cell.to_next = start_in(from_first, *first_behind);
    cell.way_to_next = start_in(from_waiting, *waits_behind);
    for (const StagedOpId op : own)
      if (is_compute(op)) cell.alone = std::max(cell.alone, from_first.of(op));
    cell.work = work(layer);
    const auto way = least_way_out(own, next, from_waiting);
    if (!way) return std::nullopt;
    cell.way = *way;
    return cell;
  }

  Duration work(int layer) const { return work_on(QueueRole::kCompute, layer); }
  // Of what is computed again.
  Duration work_again(int layer) const {
    Duration sum;
    for (const StagedOpId index : ops_of(layer))
      if (is_compute(index) && op(index).phase == Phase::kRecompute) sum += duration(index);
    return sum;
  }
  Duration work_on(QueueRole queue, int layer) const {
    Duration sum;
    for (const StagedOpId index : ops_of(layer))
      if (op(index).queue == queue) sum += duration(index);
    return sum;
  }

 private:
  // Of operators that the source comes before.
  class Ends {
   public:
    explicit Ends(std::size_t num_ops) : ends_(num_ops) {}
    bool contains(StagedOpId op) const { return ends_[op].has_value(); }
    Duration of(StagedOpId op) const { return ends_[op].value(); }
    void set(StagedOpId op, Duration end) { ends_[op] = end; }

   private:
    Table<StagedOpId, std::optional<Duration>> ends_;
  };

  const StagedGraph& graph() const { return stage_.partition().graph(); }
  const StagedOp& op(StagedOpId index) const { return graph().ops[index]; }
  bool is_compute(StagedOpId index) const { return op(index).queue == QueueRole::kCompute; }

  std::vector<StagedOpId> ops_of(int layer) const {
    std::vector<StagedOpId> ops;
    for (const InstanceSpec& spec : stage_.partition().instances())
      if (spec.layer == layer && spec.part == part_)
        ops.insert(ops.end(), spec.ops.begin(), spec.ops.end());
    return ops;
  }

  std::optional<StagedOpId> first_compute(const std::vector<StagedOpId>& ops) const {
    const auto first =
        std::find_if(ops.begin(), ops.end(), [&](StagedOpId o) { return is_compute(o); });
    if (first == ops.end()) return std::nullopt;
    return *first;
  }

  // The first on the compute queue that needs what `before` made, through communication alone.
  std::optional<StagedOpId> first_waiting(int before, const std::vector<StagedOpId>& ops) const {
    const std::vector<StagedOpId> sources = ops_of(before);
    std::set<StagedOpId> waits(sources.begin(), sources.end());
    for (const StagedOpId index : ops) {
      const auto& in = op(index).in;
      const bool is_waiting = std::any_of(in.begin(), in.end(), [&](StagedTensorId input) {
        const StagedTensor& tensor = graph().tensors[input];
        return !tensor.is_state && waits.contains(tensor.producer);
      });
      if (!is_waiting) continue;
      if (is_compute(index)) return index;
      waits.insert(index);
    }
    return std::nullopt;
  }

  Duration start_in(const Ends& ends, StagedOpId index) const {
    return ends.of(index) - duration(index);
  }

  // A fused operator is free where all that it does is.
  Duration duration(StagedOpId index) const {
    const auto& members = op(index).members;
    const bool is_free = members.empty()
                             ? free_kinds_.contains(op(index).kind)
                             : std::all_of(members.begin(), members.end(), [&](const auto& member) {
                                 return free_kinds_.contains(member.kind);
                               });
    if (is_free || free_boxing_.contains(index)) return Duration();
    Duration least = stage_.duration(index);
    if (pieces_.asked.empty() || !stage_.makes_pending_sum(index)) return least;
    for (const std::int64_t pieces : pieces_.asked)
      least = std::min(least, stage_.duration_in_pieces(index, pieces));
    return least;
  }

  // Boxing of a sum that is pending, or behind it: what may be done piece by piece.
  bool may_be_cut(StagedOpId index, const std::set<StagedOpId>& cut) const {
    if (pieces_.most == 1 || !is_boxing(op(index))) return false;
    const auto& in = op(index).in;
    return std::any_of(in.begin(), in.end(), [&](StagedTensorId input) {
      const StagedTensor& tensor = graph().tensors[input];
      return is_pending(tensor) || cut.contains(tensor.producer);
    });
  }

  // The last piece is at least one part in so many: it is the smallest where pieces are uneven, and
  // at least half as large as others (compiler/words/product_pieces.cpp cuts the last dim but one
  // of each part).
  std::int64_t last_piece(StagedOpId index) const {
    const Shape& shape = graph().tensors[op(index).in.front()].global.shape;
    const std::int64_t extent = shape.rank() >= 2 ? shape[shape.rank() - 2] : 1;
    const bool is_even = extent % (pieces_.most * graph().placements.front().size()) == 0;
    return is_even ? pieces_.most : 2 * pieces_.most;
  }

  // Earliest ends when `source` starts at zero and everything before it is there. Of what is cut
  // the last piece comes behind its product, the others wherever their queue has room.
  Ends ends(const std::vector<StagedOpId>& ops, StagedOpId source) const {
    Ends ends(graph().ops.size());
    std::set<StagedOpId> cut;
    FixedTable<QueueRole, std::optional<Duration>, kNumQueueRoles> free;
    for (const StagedOpId index : ops) {
      const bool is_cut = index != source && may_be_cut(index, cut);
      if (is_cut) cut.insert(index);
      std::optional<Duration> start = free[op(index).queue];
      if (is_cut) start.reset();
      if (index == source) start = Duration();
      for (const StagedTensorId in : op(index).in) {
        const StagedTensor& tensor = graph().tensors[in];
        if (tensor.is_state || !ends.contains(tensor.producer)) continue;
        const Duration made = ends.of(tensor.producer);
        start = start ? std::max(*start, made) : made;
      }
      if (!start) continue;
      const std::int64_t share = is_cut ? last_piece(index) : 1;
      const Duration end = *start + Duration(duration(index).value / share);
      ends.set(index, end);
      if (!is_cut) free[op(index).queue] = end;
    }
    return ends;
  }

  // When the first of what `next` reads is there, without the communication behind it.
  std::optional<Duration> least_way_out(const std::vector<StagedOpId>& own, int next,
                                        const Ends& ends) const {
    const std::vector<StagedOpId> readers = ops_of(next);
    std::optional<Duration> least;
    for (const StagedOpId index : own) {
      if (!ends.contains(index) || !is_read_in(index, readers)) continue;
      const Duration end = is_compute(index) ? ends.of(index) : made_by_compute(index, ends);
      if (!least || end < *least) least = end;
    }
    return least;
  }
  bool is_read_in(StagedOpId index, const std::vector<StagedOpId>& readers) const {
    for (const StagedTensorId out : op(index).out)
      for (const StagedOpId reader : stage_.partition().readers(out))
        if (std::find(readers.begin(), readers.end(), reader) != readers.end()) return true;
    return false;
  }
  // The compute operator behind a chain of communication.
  Duration made_by_compute(StagedOpId index, const Ends& ends) const {
    Duration end;
    for (const StagedTensorId in : op(index).in) {
      const StagedOpId producer = graph().tensors[in].producer;
      if (!ends.contains(producer)) continue;
      end =
          std::max(end, is_compute(producer) ? ends.of(producer) : made_by_compute(producer, ends));
    }
    return end;
  }

  const TimedStage& stage_;
  StepPart part_;
  Pieces pieces_;
  std::set<std::string_view> free_kinds_;
  std::set<StagedOpId> free_boxing_;
};

// Paths along the queue of collectives, with what gathers parameters.
class FetchingPaths {
 public:
  FetchingPaths(TimedStage& stage, CellKind kind, Schedule schedule)
      : stage_(stage),
        part_(kind == CellKind::kForward ? StepPart::kForward : StepPart::kInputGrad),
        fetch_(kind == CellKind::kForward ? StepPart::kFetchForward : StepPart::kFetchBackward),
        order_(cell_ops(stage.partition(), stage.durations_of_instances(), schedule, 0,
                        {kind, 0, 0})) {}

  std::optional<FetchingCell> cell(int before, int layer, int next) const {
    const std::vector<StagedOpId> own = ops_of(part_, layer), gathers = ops_of(fetch_, next);
    const std::vector<StagedOpId> of_queue = collectives(own), fetches = collectives(gathers);
    if (fetches.empty() || of_queue.empty()) return std::nullopt;
    if (!come_before(collectives(ops_of(part_, before)), fetches) ||
        !come_before(fetches, of_queue))
      return std::nullopt;
    FetchingCell cell;
    for (const StagedOpId gather : fetches) cell.fetch += duration(gather);
    std::vector<StagedOpId> both = gathers;
    both.insert(both.end(), own.begin(), own.end());
    cell.to_next = last_end(both, fetches.front());
    std::vector<StagedOpId> inner;
    for (const StagedOpId op : own)
      if (is_compute(op) || is_inside(op, own)) inner.push_back(op);
    const std::vector<StagedOpId> of_inner = collectives(inner);
    if (!of_inner.empty()) cell.alone = last_end(inner, of_inner.front());
    return cell;
  }

 private:
  const StagedGraph& graph() const { return stage_.partition().graph(); }
  bool is_compute(StagedOpId op) const { return graph().ops[op].queue == QueueRole::kCompute; }

  // In the order of the cell.
  std::vector<StagedOpId> ops_of(StepPart part, int layer) const {
    std::vector<StagedOpId> ops;
    for (const StagedOpId op : order_)
      if (graph().ops[op].layer == layer && stage_.partition().part(op) == part) ops.push_back(op);
    return ops;
  }
  std::vector<StagedOpId> collectives(const std::vector<StagedOpId>& ops) const {
    std::vector<StagedOpId> own;
    std::copy_if(ops.begin(), ops.end(), std::back_inserter(own),
                 [&](StagedOpId op) { return graph().ops[op].queue == QueueRole::kCollective; });
    return own;
  }

  bool come_before(const std::vector<StagedOpId>& some,
                   const std::vector<StagedOpId>& others) const {
    const auto place = [&](StagedOpId op) { return std::find(order_.begin(), order_.end(), op); };
    return std::all_of(some.begin(), some.end(), [&](StagedOpId one) {
      return std::all_of(others.begin(), others.end(),
                         [&](StagedOpId other) { return place(one) < place(other); });
    });
  }

  // Whether what it reads is made there, and what it makes read there.
  bool is_inside(StagedOpId index, const std::vector<StagedOpId>& own) const {
    const auto is_own = [&](StagedOpId op) {
      return std::find(own.begin(), own.end(), op) != own.end();
    };
    const StagedOp& op = graph().ops[index];
    const bool is_made = std::all_of(op.in.begin(), op.in.end(), [&](StagedTensorId in) {
      return !graph().tensors[in].is_state && is_own(graph().tensors[in].producer);
    });
    return is_made && std::any_of(op.out.begin(), op.out.end(), [&](StagedTensorId out) {
             const auto readers = stage_.partition().readers(out);
             return std::any_of(readers.begin(), readers.end(), is_own);
           });
  }

  Duration duration(StagedOpId op) const {
    return is_fetch(stage_.partition().part(op)) ? stage_.share_of_bucket(op) : stage_.duration(op);
  }

  // When the queue of collectives is free again, where `source` starts at zero and all that is not
  // behind it is there.
  Duration last_end(const std::vector<StagedOpId>& ops, StagedOpId source) const {
    std::map<StagedOpId, Duration> ends;
    FixedTable<QueueRole, std::optional<Duration>, kNumQueueRoles> free;
    for (const StagedOpId index : ops) {
      const StagedOp& op = graph().ops[index];
      std::optional<Duration> start = index == source ? Duration() : free[op.queue];
      for (const StagedTensorId in : op.in) {
        const StagedTensor& tensor = graph().tensors[in];
        const auto made = ends.find(tensor.producer);
        if (tensor.is_state || made == ends.end()) continue;
        start = start ? std::max(*start, made->second) : made->second;
      }
      if (!start) continue;
      free[op.queue] = ends[index] = *start + duration(index);
    }
    return free[QueueRole::kCollective].value();
  }

  TimedStage& stage_;
  StepPart part_, fetch_;
  std::vector<StagedOpId> order_;
};

// What a fused operator may have inside; a product costs what it does wherever it is.
std::set<std::string_view> kinds_in_fused(const CostModel& cost) {
  std::set<std::string_view> kinds;
  for (const FusedKind& fused : fused_kinds())
    if (cost.fuses(fused.kind))
      for (const FusedKind::Link& link : fused.members()) kinds.insert(link.kind);
  kinds.erase("matmul");
  kinds.erase("scaled_matmul");
  return kinds;
}

std::optional<LayerCells> cells_of(const TimedStage& stage, int layer, const Pieces& pieces) {
  const LayerPaths forward(stage, StepPart::kForward, pieces);
  const LayerPaths backward(stage, StepPart::kInputGrad, pieces);
  const LayerPaths weight_grad(stage, StepPart::kWeightGrad, pieces);
  const auto ahead = forward.cell(layer - 1, layer, layer + 1);
  const auto back = backward.cell(layer + 1, layer, layer - 1);
  if (!ahead || !back) return std::nullopt;
  Duration collectives;
  for (const LayerPaths* const part : {&forward, &backward, &weight_grad})
    collectives += part->work_on(QueueRole::kCollective, layer);
  return LayerCells{*ahead, *back, weight_grad.work(layer), collectives};
}

int last_layer(const StagedGraph& staged) {
  int last = 0;
  for (const StagedOp& op : staged.ops) last = std::max(last, op.layer);
  return last;
}

// `free_kinds`: of forward.
LayerQueues queues_of(const TimedStage& stage, int layer, const Pieces& pieces,
                      const std::set<std::string_view>& free_kinds) {
  const LayerPaths forward(stage, StepPart::kForward, pieces, free_kinds);
  const LayerPaths backward(stage, StepPart::kInputGrad, pieces);
  const LayerPaths weight_grad(stage, StepPart::kWeightGrad, pieces);
  LayerQueues queues;
  queues.forward = forward.work(layer);
  queues.again = backward.work_again(layer);
  queues.backward = backward.work(layer) - queues.again;
  queues.weight_grad = weight_grad.work(layer);
  for (const LayerPaths* const part : {&forward, &backward, &weight_grad})
    queues.collectives += part->work_on(QueueRole::kCollective, layer);
  return queues;
}

EdgeLayers edges_of(const TimedStage& stage, const Pieces& pieces,
                    const std::set<std::string_view>& free_kinds) {
  const int last = last_layer(stage.partition().graph());
  return {queues_of(stage, 0, pieces, free_kinds), queues_of(stage, last, pieces, free_kinds)};
}

// Nothing where ranks differ in the layer or next to it.
template <typename Use>
auto with_timed_stage(const StagedGraph& staged, int layer, const CostModel& cost,
                      const NetworkModel& network, const ExpandOptions& options, const Use& use)
    -> decltype(use(std::declval<TimedStage&>())) {
  require(staged.placements.size() == 1, ErrorCode::kInternal, "{} stages, wanted one",
          staged.placements.size());
  std::optional<StagedGraph> fused;
  if (options.fusion && fuses_anything(cost))
    fused = fuse_operators(staged, cost, options.schedule);
  TimedStage stage(fused ? *fused : staged, cost, network, options);
  for (const int near : {layer - 1, layer, layer + 1})
    if (!stage.is_uniform(near)) return std::nullopt;
  return use(stage);
}

}  // namespace

std::optional<LayerCells> layer_cells(const StagedGraph& staged, int layer, const CostModel& cost,
                                      const NetworkModel& network, const ExpandOptions& options) {
  return with_timed_stage(staged, layer, cost, network, options, [&](const TimedStage& stage) {
    return cells_of(stage, layer, Pieces());
  });
}

std::optional<FetchingLayer> fetching_layer(const StagedGraph& staged, int layer,
                                            const CostModel& cost, const NetworkModel& network,
                                            const ExpandOptions& options) {
  const auto of_stage = [&](TimedStage& stage) -> std::optional<FetchingLayer> {
    const FetchingPaths ahead(stage, CellKind::kForward, options.schedule);
    const FetchingPaths back(stage, CellKind::kBackward, options.schedule);
    const auto forward = ahead.cell(layer - 1, layer, layer + 1);
    const auto backward = back.cell(layer + 1, layer, layer - 1);
    if (!forward || !backward) return std::nullopt;
    return FetchingLayer{*forward, *backward};
  };
  return with_timed_stage(staged, layer, cost, network, options, of_stage);
}

std::optional<std::vector<CutLayerCells>> cut_layer_cells(
    const StagedGraph& staged, int layer, const CostModel& cost, const NetworkModel& network,
    const ExpandOptions& options, const std::vector<std::int64_t>& pieces, PartTimes times) {
  const auto of_stage = [&](const TimedStage& stage) -> std::optional<std::vector<CutLayerCells>> {
    std::vector<CutLayerCells> all;
    const std::set<std::string_view> free_kinds = kinds_in_fused(cost);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const std::int64_t number = pieces[i];
      Pieces most{number, {}};
      if (times == PartTimes::kAsked && number > 1) {
        if ((options.fusion && fuses_anything(cost)) || !stage.cuts_evenly(layer, number)) break;
        most.asked = std::span(pieces).first(i + 1);
      }
      const auto cut = cells_of(stage, layer, most);
      const LayerPaths forward(stage, StepPart::kForward, most, free_kinds);
      const auto fused = forward.cell(layer - 1, layer, layer + 1);
      if (!cut || !fused) return std::nullopt;
      LayerCells repeating = *cut;
      repeating.forward = *fused;
      all.push_back({number, *cut, repeating, {}, {}});
      if (!most.asked.empty()) continue;
      all.back().edges = edges_of(stage, most, {});
      all.back().edges_repeating = edges_of(stage, most, free_kinds);
    }
    return all;
  };
  return with_timed_stage(staged, layer, cost, network, options, of_stage);
}

}  // namespace sextant
