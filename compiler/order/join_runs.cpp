// Two walks per stage: when runs begin and end and who reads first on another queue, then joining
// from the first run to the last.
#include "compiler/order/join_runs.h"

#include "compiler/order/order_times.h"
#include "compiler/order/run_forms.h"
#include "core/base/at.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace sextant {
namespace {

class StageJoiner {
 public:
  StageJoiner(std::vector<OrderedRun>& order, const RunForms& forms)
      : order_(order),
        forms_(forms),
        partition_(forms.partition()),
        graph_(forms.partition().graph()),
        made_at_(graph_.tensors.size()),
        read_at_(graph_.tensors.size(), Time(std::numeric_limits<std::int64_t>::max())) {}

  void run() {
    const std::optional<std::size_t> first = first_neighbour();
    if (!first) return;
    find_times(*first);
    for (const Timed& next : timed_) {
      const bool computes = queue(next.run) == QueueRole::kCompute;
      if (computes && last_ && may_join(next))
        join(next);
      else
        joined_.push_back(next);
      if (computes) last_ = joined_.size() - 1;
    }
    order_.resize(*first);
    for (const Timed& timed : joined_) order_.push_back(timed.run);
  }

 private:
  struct Timed {
    OrderedRun run;
    Time begin, end;
  };

  std::span<const StagedOpId> ops(const OrderedRun& run) const { return ops_of(partition_, run); }
  QueueRole queue(const OrderedRun& run) const { return forms_.of(run).queue; }
  const StagedOp& op(StagedOpId index) const { return graph_.ops[index]; }

  bool are_neighbours(const OrderedRun& earlier, const OrderedRun& later) const {
    return earlier.instance == later.instance &&
           partition_.instances()[later.instance].rate == Rate::kPerStep &&
           earlier.first_actor + earlier.num_actors == later.first_actor;
  }

  // The first run that has a neighbour behind it: what stands before it stays as it is.
  std::optional<std::size_t> first_neighbour() const {
    std::optional<std::size_t> last;
    for (std::size_t i = 0; i < order_.size(); ++i) {
      if (queue(order_[i]) != QueueRole::kCompute) continue;
      if (last && are_neighbours(order_[*last], order_[i])) return last;
      last = i;
    }
    return std::nullopt;
  }

  // --- modelled time -----------------------------------------------------------------------------

  // Of all runs; those from `first` on are joined.
  void find_times(std::size_t first) {
    const std::vector<RunTimes> times = order_times(order_, forms_);
    timed_.reserve(order_.size() - first);
    joined_.reserve(order_.size() - first);
    for (std::size_t i = 0; i < order_.size(); ++i) {
      if (i >= first) timed_.push_back({order_[i], times[i].begin, times[i].end});
      if (queue(order_[i]) == QueueRole::kCompute) continue;
      for (const StagedOpId index : ops(order_[i])) {
        for (const StagedTensorId out : partition_.makes(index)) made_at_[out] = times[i].end;
        for (const StagedTensorId in : partition_.reads(index))
          read_at_[in] = std::min(read_at_[in], times[i].begin);
      }
    }
  }

  // --- joining -----------------------------------------------------------------------------------

  bool may_join(const Timed& next) const {
    const Timed& last = joined_[*last_];
    return are_neighbours(last.run, next.run) && awaited(next.run) <= last.begin &&
           first_read(last.run) >= next.end &&
           std::none_of(joined_.begin() + static_cast<std::ptrdiff_t>(*last_) + 1, joined_.end(),
                        [&](const Timed& between) { return depends(between.run, last.run); });
  }

  // When all is there that a run needs of other queues.
  Time awaited(const OrderedRun& run) const {
    Time awaited;
    for (const StagedOpId index : ops(run))
      for (const StagedTensorId in : op(index).in) {
        const StagedTensor& tensor = graph_.tensors[in];
        const QueueRole maker = op(tensor.producer).queue;
        if (!tensor.is_state && maker != QueueRole::kCompute && maker != QueueRole::kHost)
          awaited = std::max(awaited, made_at_[in]);
      }
    return awaited;
  }

  // Where another queue reads state, it did so earlier in the step, and will in the next.
  Time first_read(const OrderedRun& run) const {
    Time first(std::numeric_limits<std::int64_t>::max());
    for (const StagedOpId index : ops(run))
      for (const StagedTensorId out : op(index).out) first = std::min(first, read_at_[out]);
    return first;
  }

  bool belongs(StagedOpId index, const OrderedRun& run) const {
    const ActorPlace place = partition_.place(index);
    return place.instance == run.instance && place.actor >= run.first_actor &&
           place.actor < run.first_actor + run.num_actors;
  }

  // True where `run` may not move behind `other`.
  bool depends(const OrderedRun& other, const OrderedRun& run) const {
    const auto of_other = ops(other);
    return std::any_of(of_other.begin(), of_other.end(), [&](StagedOpId index) {
      const auto& in = op(index).in;
      const auto& out = op(index).out;
      return std::any_of(in.begin(), in.end(),
                         [&](StagedTensorId read) {
                           return belongs(graph_.tensors[read].producer, run);
                         }) ||
             std::any_of(out.begin(), out.end(), [&](StagedTensorId written) {
               const auto readers = partition_.readers(written);
               return std::any_of(readers.begin(), readers.end(),
                                  [&](StagedOpId reader) { return belongs(reader, run); });
             });
    });
  }

  void join(const Timed& next) {
    Timed both = joined_[*last_];
    both.run.num_actors += next.run.num_actors;
    both.run.end = next.run.end;
    both.end = next.end;
    joined_.erase(joined_.begin() + static_cast<std::ptrdiff_t>(*last_));
    joined_.push_back(both);
  }

  std::vector<OrderedRun>& order_;
  const RunForms& forms_;
  const Partition& partition_;
  const StagedGraph& graph_;
  // Of what no compute run makes: the last act of its producer so far.
  Table<StagedTensorId, Time> made_at_;
  Table<StagedTensorId, Time> read_at_;  // its first read on a queue that does not compute
  std::vector<Timed> timed_, joined_;
  std::optional<std::size_t> last_;  // in `joined_`: what computes
};

}  // namespace

void join_runs(IssueOrder& order, const RunForms& forms, const StopPoll& stop) {
  for (std::vector<OrderedRun>& stage : order) {
    stop();
    StageJoiner(stage, forms).run();
  }
}

}  // namespace sextant
