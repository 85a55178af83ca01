// One pass over ops per step. When hosts issue is known from below (without what the window refers
// to outside of blocks) and from above; all else is known exactly, as long as every launch begins
// at the same time for both.
#include "simulator/modes/recurring/block_evaluation.h"

#include "core/base/at.h"
#include "simulator/modes/recurring/block_matrix.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace sextant {
namespace {

constexpr std::int64_t kRunAhead = TapeOptions{}.run_ahead_steps;
static_assert(kRunAhead == 2, "marks are kept for two steps");

// A vector whose indices are never checked: blocks ask for a dozen each.
class Times {
 public:
  explicit Times(std::size_t size = 0) : values_(size) {}
  std::int64_t& operator[](std::size_t index) { return values_.data()[index]; }
  const std::int64_t& operator[](std::size_t index) const { return values_.data()[index]; }
  std::int64_t* data() { return values_.data(); }
  const std::int64_t* data() const { return values_.data(); }
  std::size_t size() const { return values_.size(); }
  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }

 private:
  std::vector<std::int64_t> values_;
};

class Evaluation {
 public:
  Evaluation(const BlockTape& tape, std::span<const Duration> durations, Duration launch_cost)
      : tape_(tape),
        bindings_(tape.bindings.data()),
        loose_(tape.loose.data()),
        place_of_queue_(tape.flat->place_of_queue.data()),
        durations_(durations.data()),
        launch_cost_(launch_cost.value),
        matrices_(block_matrices(tape, durations, launch_cost)),
        least_(tape.flat->tape->ranks.size()),
        most_(least_.size()),
        free_(tape.flat->place_of_queue.size()),
        slots_(at(tape.num_slots)),
        least_bound_(at(tape.num_marks)),
        begins_(tape.loose.size()),
        completions_(tape.loose.size()) {
    for (std::vector<std::int64_t>& marks : marks_) marks.resize(at(tape.num_marks));
    for (std::vector<std::int64_t>& ends : rank_ends_) ends.resize(least_.size());
    std::int32_t inputs = 0, outputs = 0;
    for (const BlockMatrix& matrix : matrices_.of_template) {
      inputs = std::max(inputs, matrix.num_inputs());
      outputs = std::max({outputs, matrix.num_outputs(), matrix.num_queues});
    }
    inputs_ = firsts_ = Times(at(inputs));
    outputs_ = Times(static_cast<std::size_t>(padded_to_lanes(outputs)));
    for (std::int32_t i = 0; i < outputs; ++i) each_.push_back(i);
  }

  std::optional<std::vector<Time>> run(std::int64_t steps) {
    std::vector<Time> ends;
    for (std::int64_t step = 0; step < steps; ++step) {
      begin_step(step);
      if (const std::optional<std::int64_t> period = period_since_last(step)) {
        // This and all later steps repeat the last one, so much later.
        for (; step < steps; ++step) ends.push_back(ends.back() + Duration(*period));
        break;
      }
      if (!pass()) return std::nullopt;
      ends.push_back(Time(end_step()));
    }
    return ends;
  }

 private:
  // From below, and from above.
  struct Bounds {
    std::int64_t least = 0, most = 0;
    void raise(std::int64_t time) {
      least = std::max(least, time);
      most = std::max(most, time);
    }
    void raise(const Bounds& other) {
      least = std::max(least, other.least);
      most = std::max(most, other.most);
    }
    bool is_known() const { return least == most; }
  };

  std::int64_t last_mark(std::int32_t window) const {
    return seen_[(window >> 1) & 1][window >> 2];
  }

  // The host waits for the step before the last.
  void begin_step(std::int64_t step) {
    now_ = static_cast<std::size_t>(step % 2);
    seen_ = {marks_[now_].data(), marks_[1 - now_].data()};
    for (std::size_t place = 0; place < least_.size(); ++place) {
      least_[place] = std::max(least_[place], rank_ends_[now_][place]);
      most_[place] = std::max(most_[place], rank_ends_[now_][place]);
    }
    for (const BlockTape::HostMark& waited : tape_.waited_for) {
      std::int64_t& least = least_[at(waited.place)];
      least = std::max(least, marks_[1 - now_][at(waited.mark)]);
    }
    for (const BlockTape::Saved& saved : tape_.saved) slots_[at(saved.to)] = slots_[at(saved.from)];
  }

  std::int64_t end_step() {
    std::vector<std::int64_t>& ends = rank_ends_[now_];
    std::fill(ends.begin(), ends.end(), 0);
    for (std::size_t q = 0; q < free_.size(); ++q) {
      std::int64_t& end = ends[at(place_of_queue_[q])];
      end = std::max(end, free_[q]);
    }
    return ends.empty() ? 0 : *std::max_element(ends.begin(), ends.end());
  }

  // As in the tape's evaluation: if all that a step depends on is what it was for the step before,
  // but later by one period, so is everything that follows. What the step before did is proven for
  // all hosts between their bounds, so those may have come closer.
  std::optional<std::int64_t> period_since_last(std::int64_t step) {
    std::swap(state_, state_before_);
    std::swap(least_at_begin_, least_before_);
    std::swap(most_at_begin_, most_before_);
    state_.assign(free_.begin(), free_.end());
    state_.insert(state_.end(), rank_ends_[1 - now_].begin(), rank_ends_[1 - now_].end());
    for (const std::int32_t slot : tape_.seen_later) state_.push_back(slots_[at(slot)]);
    least_at_begin_ = least_;
    most_at_begin_ = most_;
    if (step < 2 || state_.empty()) return std::nullopt;
    const std::int64_t period = state_[0] - state_before_[0];
    for (std::size_t i = 1; i < state_.size(); ++i)
      if (state_[i] - state_before_[i] != period) return std::nullopt;
    if (!are_hosts_within(period) || !are_marks_within(period)) return std::nullopt;
    return period;
  }

  bool are_hosts_within(std::int64_t period) const {
    for (std::size_t place = 0; place < least_.size(); ++place)
      if (least_[place] - least_before_[place] < period ||
          most_[place] - most_before_[place] > period)
        return false;
    return true;
  }

  // Marks of the step before bound hosts from above, if they are later than what else does. Those
  // of the last step are in the other half, of the step before that still in this one.
  bool are_marks_within(std::int64_t period) const {
    return std::all_of(
        tape_.marks_seen_later.begin(), tape_.marks_seen_later.end(), [&](std::int32_t mark) {
          const std::int64_t bound = std::max(marks_[now_][at(mark)], least_bound_[at(mark)]);
          return marks_[1 - now_][at(mark)] - bound <= period;
        });
  }

  // The bound of a host from above is no less than the mark that it sees.
  void see_mark(std::int32_t window, std::int64_t& most) {
    if (((window >> 1) & 1) != 0) {
      std::int64_t& least = least_bound_[at(window >> 2)];
      least = std::min(least, most);
    }
    most = std::max(most, last_mark(window));
  }

  bool pass() {
    for (const std::int32_t mark : tape_.marks_seen_later)
      least_bound_[at(mark)] = std::numeric_limits<std::int64_t>::max();
    using Kind = BlockTape::Op::Kind;
    for (const BlockTape::Op& op : tape_.ops) {
      bool known = true;
      switch (op.kind) {
        case Kind::kBlock:
          known = block(tape_.instances.data()[op.first]);
          break;
        case Kind::kCompute:
          known = compute(op);
          break;
        case Kind::kTogether:
          known = together(op);
          break;
        case Kind::kLaunch:
          launch(op);
          break;
        case Kind::kComplete:
          known = complete(op);
          break;
      }
      if (!known) return false;
    }
    return true;
  }

  // ---------------------------------------------------------------- blocks

  bool block(const BlockInstance& instance) {
    const BlockMatrix& matrix = matrices_.of_template.data()[instance.block];
    const std::int32_t* binding = bindings_ + instance.first_binding;
    take_inputs(matrix, binding);
    see_windows(matrix, binding);
    if (!begins_in_time(matrix, binding)) return false;
    put_outputs(matrix, instance, compute_outputs(matrix));
    return true;
  }

  void take_inputs(const BlockMatrix& matrix, const std::int32_t* binding) {
    std::int64_t* input = inputs_.data();
    for (std::int32_t p = 0; p < matrix.num_places; ++p) *input++ = least_[at(*binding++)];
    for (std::int32_t q = 0; q < matrix.num_queues; ++q) *input++ = free_[at(*binding++)];
    for (std::int32_t f = 0; f < matrix.num_fences; ++f) *input++ = slots_[at(*binding++)];
  }

  void see_windows(const BlockMatrix& matrix, const std::int32_t* binding) {
    const std::int32_t* queues = binding + matrix.num_places;
    const std::int32_t* windows = queues + matrix.num_queues + matrix.num_fences;
    for (std::int32_t q = 0; q < matrix.num_queues; ++q) {
      if (windows[q] < 0) continue;
      see_mark(windows[q], most_[at(place_of_queue_[queues[q]])]);
    }
  }

  // Whether every launch does, however late its host is. A queue's own input shows it mostly.
  bool begins_in_time(const BlockMatrix& matrix, const std::int32_t* binding) {
    const std::int32_t* queues = binding + matrix.num_places;
    bool is_applied = false;
    const std::int64_t* slacks = matrices_.delays.data() + matrix.first_delay + matrix.num_places;
    for (std::int32_t q = 0; q < matrix.num_queues; ++q) {
      const std::int64_t most = most_[at(place_of_queue_[queues[q]])];
      if (most <= inputs_[at(matrix.num_places + q)] + slacks[q]) continue;
      if (!std::exchange(is_applied, true))
        matrices_.maps.apply(matrix.slacks, inputs_.data(), outputs_.data());
      if (most > outputs_[at(q)]) return false;
    }
    return true;
  }

  // The values are in `outputs_`; returns by output which of them it is.
  const std::int32_t* compute_outputs(const BlockMatrix& matrix) {
    if (matrix.first_twin >= 0) {
      const std::int32_t* twins = matrices_.twins.data() + matrix.first_twin;
      if (are_equal(twins, matrix.num_inputs())) {
        const std::int32_t* firsts = twins + matrix.num_inputs();
        for (std::int32_t i = 0; i < matrix.folded.num_inputs; ++i)
          firsts_[at(i)] = inputs_[at(firsts[i])];
        matrices_.maps.apply(matrix.folded, firsts_.data(), outputs_.data());
        return firsts + matrix.folded.num_inputs;
      }
    }
    matrices_.maps.apply(matrix.outputs, inputs_.data(), outputs_.data());
    return each_.data();
  }

  bool are_equal(const std::int32_t* twins, std::int32_t num_inputs) const {
    const std::int64_t* inputs = inputs_.data();
    for (std::int32_t i = 0; i < num_inputs; ++i)
      if (inputs[i] != inputs[twins[i]]) return false;
    return true;
  }

  void put_outputs(const BlockMatrix& matrix, const BlockInstance& instance,
                   const std::int32_t* value_of) {
    const std::int32_t* binding = bindings_ + instance.first_binding;
    const std::int64_t* values = outputs_.data();
    const std::int64_t* costs = matrices_.delays.data() + matrix.first_delay;
    for (std::int32_t p = 0; p < matrix.num_places; ++p) {
      std::int64_t &least = least_[at(binding[p])], &most = most_[at(binding[p])];
      least = values[*value_of++];
      most = std::max(least, most + costs[p]);
    }
    const std::int32_t* queues = binding + matrix.num_places;
    const std::int32_t* marks = queues + 2 * matrix.num_queues + matrix.num_fences;
    for (std::int32_t q = 0; q < matrix.num_queues; ++q)
      seen_[0][marks[q]] = free_[at(queues[q])] = values[*value_of++];
    const std::int32_t* exports = tape_.export_slots.data() + instance.first_export;
    for (std::int32_t x = 0; x < matrix.num_exports; ++x)
      slots_[at(exports[x])] = values[*value_of++];
  }

  // ---------------------------------------------------------------- launches outside blocks

  void see_window(const LooseLaunch& launch) {
    if (launch.window < 0) return;
    std::int64_t& least = least_[at(launch.place)];
    if ((launch.window & 1) != 0) least = std::max(least, last_mark(launch.window));
    see_mark(launch.window, most_[at(launch.place)]);
  }

  Bounds issue(std::int32_t place) {
    std::int64_t &least = least_[at(place)], &most = most_[at(place)];
    const Bounds issued{least, most};
    least += launch_cost_;
    most += launch_cost_;
    return issued;
  }

  std::int64_t ready(const LooseLaunch& launch) const {
    const std::int32_t* waits = tape_.loose_waits.data();
    const std::int64_t* slots = slots_.data();
    std::int64_t ready = free_[at(launch.queue)];
    for (std::int32_t w = launch.waits_begin; w < launch.waits_end; ++w)
      ready = std::max(ready, slots[waits[w]]);
    return ready;
  }

  Bounds begin_of(const LooseLaunch& launch) {
    see_window(launch);
    Bounds begin = issue(launch.place);
    begin.raise(ready(launch));
    return begin;
  }

  void finish(const LooseLaunch& launch, std::int64_t end) {
    slots_[at(launch.slot)] = end;
    if (launch.mark < 0) return;
    free_[at(launch.queue)] = end;
    seen_[0][launch.mark] = end;
  }

  bool compute(const BlockTape::Op& op) {
    for (const LooseLaunch* launch = loose_ + op.first; launch != loose_ + op.first + op.count;
         ++launch) {
      const Bounds begin = begin_of(*launch);
      if (!begin.is_known()) return false;
      finish(*launch, begin.least + durations_[launch->timed].value);
    }
    return true;
  }

  // When a member arrives may depend on the window, as long as the last one does not.
  bool together(const BlockTape::Op& op) {
    const LooseLaunch *first = loose_ + op.first, *last = first + op.count;
    Bounds begin;
    for (const LooseLaunch* launch = first; launch != last; ++launch)
      begin.raise(begin_of(*launch));
    if (!begin.is_known()) return false;
    const std::int64_t end = begin.least + durations_[op.timed].value;
    for (const LooseLaunch* launch = first; launch != last; ++launch) finish(*launch, end);
    return true;
  }

  void launch(const BlockTape::Op& op) {
    for (std::int32_t l = op.first; l < op.first + op.count; ++l) see_window(loose_[l]);
    Bounds begin = issue(loose_[op.first].place);
    for (std::int32_t l = op.first; l < op.first + op.count; ++l) begin.raise(ready(loose_[l]));
    for (std::int32_t l = op.first; l < op.first + op.count; ++l) begins_[at(l)] = begin;
  }

  bool complete(const BlockTape::Op& op) {
    const std::int32_t *first = tape_.arriving.data() + op.first_arriving,
                       *last = first + op.num_arriving;
    Bounds begin;
    for (const std::int32_t* l = first; l != last; ++l) begin.raise(begins_[at(*l)]);
    if (!begin.is_known()) return false;
    const std::int64_t end = begin.least + durations_[op.timed].value;
    for (const std::int32_t* l = first; l != last; ++l) completions_[at(*l)] = end;
    for (std::int32_t i = op.first; i < op.first + op.count; ++i) finish_launch(tape_.over[at(i)]);
    return true;
  }

  // A launch is over when all of its members are.
  void finish_launch(std::int32_t first) {
    const std::int32_t last = first + loose_[first].group;
    const std::int64_t end =
        *std::max_element(completions_.begin() + first, completions_.begin() + last);
    for (std::int32_t l = first; l < last; ++l) finish(loose_[l], end);
  }

  const BlockTape& tape_;
  const std::int32_t* bindings_;
  const LooseLaunch* loose_;
  const std::int32_t* place_of_queue_;
  const Duration* durations_;
  std::int64_t launch_cost_;
  BlockMatrices matrices_;
  Times least_, most_;  // by place: when its host can issue the next launch
  Times free_;          // by queue
  Times slots_;
  std::array<std::vector<std::int64_t>, kRunAhead> marks_;      // by step modulo run-ahead
  std::array<std::vector<std::int64_t>, kRunAhead> rank_ends_;  // likewise; by place
  std::size_t now_ = 0;
  std::array<std::int64_t*, kRunAhead> seen_{};  // marks of this step and of the one before
  // By mark: the least bound from above of a host as it came to see the mark of the step before.
  Times least_bound_;
  Times inputs_, firsts_, outputs_;  // of the block at hand
  std::vector<std::int32_t> each_;   // 0, 1, 2, ..
  std::vector<Bounds> begins_;       // of loose launches that are not over yet
  std::vector<std::int64_t> completions_;
  std::vector<std::int64_t> state_, state_before_;  // as a step begins
  Times least_at_begin_, least_before_, most_at_begin_, most_before_;
};

// As entry_durations (actor/tapes/tape.h) has it.
Duration piece_duration(const TapePiece& piece, const PhysicalGraph& graph, Rank rank,
                        const CostModel& cost) {
  const std::vector<Actor>& actors = graph.blocks[piece.block].actors;
  Duration total;
  for (std::int32_t a = piece.first_actor; a < piece.first_actor + piece.num_actors; ++a)
    total += cost.duration_on(rank, actors[at(a)].work);
  return total;
}

}  // namespace

std::vector<Duration> block_durations(const BlockTape& tape, const PhysicalGraph& graph,
                                      const CostModel& cost, const NetworkModel& network) {
  const Tape& recorded = *tape.flat->tape;
  std::vector<Duration> durations;
  durations.reserve(tape.timed.size());
  for (const BlockTimed& timed : tape.timed)
    durations.push_back(timed.piece.is_valid()
                            ? piece_duration(recorded.pieces[timed.piece], graph, timed.rank, cost)
                            : network.duration(recorded.costs[timed.cost]));
  return durations;
}

std::optional<std::vector<Time>> evaluate_blocks(const BlockTape& tape,
                                                 std::span<const Duration> durations,
                                                 Duration launch_cost, std::int64_t steps) {
  for (const auto& [first, second] : tape.alike)
    if (durations[at(first)] != durations[at(second)]) return std::nullopt;
  return Evaluation(tape, durations, launch_cost).run(steps);
}

}  // namespace sextant
