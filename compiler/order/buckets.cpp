// One walk per stage: a bucket is open while its next member may still come.
#include "compiler/order/buckets.h"

#include "compiler/order/order_times.h"
#include "compiler/order/run_forms.h"
#include "core/base/at.h"
#include "core/base/ids.h"
#include "core/base/table.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace sextant {
namespace {

class StageBuckets {
 public:
  StageBuckets(std::vector<OrderedRun>& order, const RunForms& forms, const GroupTable& groups,
               const NetworkModel& network, MovedSizes& sizes, const BucketLimits& limits)
      : order_(order),
        forms_(forms),
        partition_(forms.partition()),
        graph_(forms.partition().graph()),
        groups_(groups),
        network_(network),
        sizes_(sizes),
        limits_(limits),
        times_(order_times(order, forms)),
        made_at_(graph_.tensors.size()) {
    find_deadlines();
    for (const OrderedRun& run : order)
      next_group_ = std::max(next_group_, run.launch_group.plus(1));
  }

  void run() {
    for (std::size_t position = 0; position < order_.size(); ++position) visit(position);
    close();
    if (!fused_.empty()) rebuild();
  }

 private:
  // A collective by itself.
  struct Candidate {
    Communication communication;
    std::span<const Rank> members;
    Bytes global_bytes, largest_volume;
    Duration alone;
  };
  // What its sizes and its time depend on. A stage has few of them, however many layers it has.
  using KindId = Id<struct KindTag>;
  struct Kind {
    GroupRole role = 0;
    Primitive primitive = Primitive::kAllReduce;
    ReduceOp reduce = ReduceOp::kSum;
    DType dtype = DType::kF32;
    Shape shape;
    NdSbp from, to;
    bool operator==(const Kind&) const = default;
  };

  struct Bucket {
    std::vector<std::size_t> members;  // positions in the order
    GroupRole role = 0;
    std::int32_t act = 0;
    std::set<StagedTensorId> reads, writes;
    std::set<StagedInstanceId> instances;
    Candidate sum;      // sizes of all, and the time they take one by one
    Time begin, ready;  // of the first alone, when closed of all; of the last one's input
    Time deadline;      // the earliest of all
    Duration duration;  // of the bucket
  };

  std::span<const StagedOpId> ops(const OrderedRun& run) const { return ops_of(partition_, run); }

  // --- who waits ---------------------------------------------------------------------------------

  // When a collective must be over so that nobody begins later than without buckets: its readers on
  // other queues wait, and so does the collective behind it, which has a deadline itself.
  void find_deadlines() {
    constexpr Time kNever(std::numeric_limits<std::int64_t>::max());
    deadlines_.assign(order_.size(), kNever);
    Table<StagedTensorId, Time> read_at(graph_.tensors.size(), kNever);
    Time next = kNever;
    for (std::size_t position = order_.size(); position-- > 0;) {
      const RunTimes& times = times_[position];
      const RunForms::Form& form = forms_.of(order_[position]);
      if (form.queue == QueueRole::kCollective) {
        for (const StagedTensorId out : forms_.makes(form)) next = std::min(next, read_at[out]);
        deadlines_[position] = next;
        if (next != kNever) next = next - (times.end - times.begin);
        continue;
      }
      for (const StagedTensorId in : forms_.reads(form))
        read_at[in] = std::min(read_at[in], times.begin);
    }
  }

  // --- one walk ----------------------------------------------------------------------------------

  void visit(std::size_t position) {
    const OrderedRun& run = order_[position];
    const RunForms::Form& form = forms_.of(run);
    const bool computes = form.queue == QueueRole::kCompute;
    const StagedOpId index = ops(run).front();
    const bool is_collective = !computes && goes_both_ways(index);
    const bool may_fuse =
        is_collective && !run.launch_group.is_valid() &&
        (graph_.ops[index].rate == Rate::kPerStep || is_fetch(partition_.part(index)));
    if (open_ && (depends(run) || (!may_fuse && belongs(run)))) close();
    if (may_fuse)
      add(position, index);
    else if (is_collective)
      pass(position);
    const Time end = times_[position].end;
    if (computes) {
      computed_ = end;
      for (const StagedTensorId tensor : forms_.makes(form)) made_at_[tensor] = end;
      return;
    }
    for (const StagedOpId made : ops(run))
      for (const StagedTensorId tensor : partition_.makes(made)) made_at_[tensor] = end;
  }

  bool goes_both_ways(StagedOpId index) const {
    const auto& communication = graph_.ops[index].communication;
    return communication && communication->side == Side::kBoth;
  }

  void add(std::size_t position, StagedOpId index) {
    const StagedOp& op = graph_.ops[index];
    const OrderedRun& run = order_[position];
    const Candidate& candidate = candidate_of(index);
    if (open_ && !join(candidate, index, run.act, deadlines_[position])) close();
    if (candidate.global_bytes > limits_.bytes) return pass(position);
    if (!open_) {
      open_.emplace();
      open_->role = groups_.role(index);
      open_->act = run.act;
      open_->begin = open_->ready = times_[position].begin;
      open_->deadline = deadlines_[position];
      open_->duration = candidate.alone;
      open_->sum = candidate;
    }
    open_->members.push_back(position);
    open_->instances.insert(run.instance);
    open_->reads.insert(op.in.begin(), op.in.end());
    open_->writes.insert(op.out.begin(), op.out.end());
  }

  // Takes the candidate's sizes into the bucket, or says that it must not.
  bool join(const Candidate& candidate, StagedOpId index, std::int32_t act, Time deadline) {
    Candidate sum = open_->sum;
    sum.global_bytes += candidate.global_bytes;
    sum.largest_volume += candidate.largest_volume;
    sum.alone += candidate.alone;
    const bool fits = groups_.role(index) == open_->role && act == open_->act &&
                      candidate.communication.primitive == sum.communication.primitive &&
                      sum.global_bytes <= limits_.bytes &&
                      static_cast<std::int32_t>(open_->members.size()) < limits_.operations;
    if (!fits) return false;
    const Duration together = duration_of(sum);
    const Time ready = std::max(open_->ready, ready_time(index));
    deadline = std::min(deadline, open_->deadline);
    const Time end = std::max(ready, free_) + together;
    // What readers of the first may wait longer: reductions are all awaited at the step's end.
    const Duration longer =
        partition_.part(index) == StepPart::kPrompt ? Duration() : end - deadline;
    if (end > deadline && end + longer > open_->begin + sum.alone) return false;
    open_->sum = std::move(sum);
    open_->ready = ready;
    open_->deadline = deadline;
    open_->duration = together;
    return true;
  }

  Time ready_time(StagedOpId index) const {
    Time ready;
    // What a later fetch fills may be in use until computation has come to where it stands.
    if (is_fetch(partition_.part(index))) ready = computed_;
    for (const StagedTensorId tensor : graph_.ops[index].in)
      ready = std::max(ready, made_at_[tensor]);
    return ready;
  }

  bool belongs(const OrderedRun& run) const { return open_->instances.count(run.instance) != 0; }

  // True where the members may not move behind this run.
  bool depends(const OrderedRun& run) const {
    const auto holds = [](const std::set<StagedTensorId>& tensors,
                          std::span<const StagedTensorId> of_op) {
      return std::any_of(of_op.begin(), of_op.end(),
                         [&](StagedTensorId tensor) { return tensors.count(tensor) != 0; });
    };
    const auto all = ops(run);
    return std::any_of(all.begin(), all.end(), [&](StagedOpId index) {
      return holds(open_->writes, partition_.reads(index)) ||
             holds(open_->reads, partition_.makes(index));
    });
  }

  const Candidate& candidate_of(StagedOpId index) {
    const StagedOp& op = graph_.ops[index];
    const StagedCommunication& staged = *op.communication;
    Kind kind{.role = groups_.role(index),
              .primitive = staged.primitive,
              .reduce = staged.reduce,
              .dtype = staged.dtype,
              .shape = graph_.tensors[op.in.front()].global.shape,
              .from = staged.from,
              .to = staged.to};
    const auto known = std::find(kinds_.begin(), kinds_.end(), kind);
    if (known != kinds_.end()) return candidates_[kinds_.key_of(known)];
    candidates_.push_back(measured(kind, op.stage));
    kinds_.push_back(std::move(kind));
    return candidates_.back();
  }

  Candidate measured(const Kind& kind, int stage) {
    const Placement& placement = at(graph_.placements, stage);
    const GroupId group = groups_.groups_of_member(stage, 0)[at(kind.role)];
    Candidate candidate;
    candidate.communication.primitive = kind.primitive;
    candidate.communication.reduce = kind.reduce;
    candidate.communication.dtype = kind.dtype;
    candidate.members = groups_.groups()[group].ranks;
    const CollectiveCost cost =
        sizes_.cost(candidate.communication, kind.shape, {&kind.from, &placement},
                    {&kind.to, &placement}, candidate.members);
    candidate.global_bytes = cost.global_bytes;
    candidate.largest_volume = cost.largest_volume;
    candidate.alone = duration_of(candidate);
    return candidate;
  }

  Duration duration_of(const Candidate& candidate) const {
    return network_.duration({.communication = &candidate.communication,
                              .members = candidate.members,
                              .global_bytes = candidate.global_bytes,
                              .largest_volume = candidate.largest_volume});
  }

  void close() {
    if (!open_) return;
    open_->begin = std::max(open_->ready, free_);
    free_ = open_->begin + open_->duration;
    if (open_->members.size() > 1) fused_.push_back(std::move(*open_));
    open_.reset();
  }

  // A collective that joins nothing.
  void pass(std::size_t position) {
    close();
    const RunTimes& times = times_[position];
    free_ = std::max(free_, times.begin) + (times.end - times.begin);
  }

  // Members move to the place of the last of them.
  void rebuild() {
    std::vector<bool> is_moved(order_.size(), false);
    std::vector<const Bucket*> bucket_at(order_.size(), nullptr);  // by position of its last
    for (const Bucket& bucket : fused_) {
      // In the order's own time, in which memory is planned, and not in the one with waits.
      const Time begin = order_[bucket.members.back()].begin;
      for (const std::size_t member : bucket.members) {
        is_moved[member] = true;
        order_[member].launch_group = next_group_;
        order_[member].begin = begin;
        order_[member].end = begin + bucket.duration;
      }
      bucket_at[bucket.members.back()] = &bucket;
      ++next_group_;
    }
    std::vector<OrderedRun> moved;
    moved.reserve(order_.size());
    for (std::size_t position = 0; position < order_.size(); ++position) {
      if (!is_moved[position]) moved.push_back(order_[position]);
      if (bucket_at[position] == nullptr) continue;
      for (const std::size_t member : bucket_at[position]->members) moved.push_back(order_[member]);
    }
    order_ = std::move(moved);
  }

  std::vector<OrderedRun>& order_;
  const RunForms& forms_;
  const Partition& partition_;
  const StagedGraph& graph_;
  const GroupTable& groups_;
  const NetworkModel& network_;
  MovedSizes& sizes_;
  const BucketLimits& limits_;
  std::vector<RunTimes> times_;  // by position, without buckets
  std::vector<Time> deadlines_;  // by position
  // The last act of its producer so far; nothing where compute runs alone make and read it.
  Table<StagedTensorId, Time> made_at_;
  Time free_, computed_;  // when the collectives, and the computation, so far are over
  LaunchGroupId next_group_{0};
  Table<KindId, Kind> kinds_;
  Table<KindId, Candidate> candidates_;
  std::optional<Bucket> open_;
  std::vector<Bucket> fused_;
};

}  // namespace

void fuse_buckets(IssueOrder& order, const RunForms& forms, const GroupTable& groups,
                  const NetworkModel& network, MovedSizes& sizes, const BucketLimits& limits,
                  const StopPoll& stop) {
  if (limits.bytes.value <= 0 || limits.operations < 2) return;
  for (std::vector<OrderedRun>& stage : order) {
    stop();
    StageBuckets(stage, forms, groups, network, sizes, limits).run();
  }
}

}  // namespace sextant
