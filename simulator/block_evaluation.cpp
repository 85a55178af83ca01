// One pass over ops per step. When hosts issue is known from below (without what the window refers
// to outside of blocks) and from above; all else is known exactly, as long as every launch begins
// at the same time for both.
#include "simulator/block_evaluation.h"

#include "simulator/block_matrix.h"

#include <algorithm>
#include <array>
#include <utility>

namespace sextant {
namespace {

std::size_t at(std::int32_t index) { return static_cast<std::size_t>(index); }

constexpr std::int64_t kRunAhead = TapeOptions{}.run_ahead_steps;
static_assert(kRunAhead == 2, "marks are kept for two steps");

class Evaluation {
 public:
  Evaluation(const BlockTape& tape, std::span<const Duration> durations, Duration launch_cost)
      : tape_(tape),
        durations_(durations),
        launch_cost_(launch_cost.value),
        matrices_(block_matrices(tape, durations, launch_cost)),
        least_(tape.flat->tape->ranks.size()),
        most_(least_.size()),
        free_(tape.flat->place_of_queue.size()),
        slots_(at(tape.num_slots)),
        begins_(tape.loose.size()),
        completions_(tape.loose.size()) {
    for (std::vector<std::int64_t>& marks : marks_) marks.resize(at(tape.num_marks));
    for (std::vector<std::int64_t>& ends : rank_ends_) ends.resize(least_.size());
    std::size_t inputs = 0;
    for (const BlockStructure& s : tape.structures)
      inputs = std::max(inputs, at(s.num_places + s.num_queues + s.num_fences));
    inputs_.resize(inputs);
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
  struct Begin {
    std::int64_t least = 0, most = 0;
  };

  std::int64_t last_mark(std::int32_t window) const {
    return marks_[at((window >> 1) & 1) == 0 ? now_ : 1 - now_][at(window >> 2)];
  }

  void begin_step(std::int64_t step) {
    now_ = static_cast<std::size_t>(step % 2);
    for (std::size_t place = 0; place < least_.size(); ++place) {
      least_[place] = std::max(least_[place], rank_ends_[now_][place]);
      most_[place] = std::max(most_[place], rank_ends_[now_][place]);
    }
    for (const BlockTape::Saved& saved : tape_.saved) slots_[at(saved.to)] = slots_[at(saved.from)];
  }

  std::int64_t end_step() {
    std::vector<std::int64_t>& ends = rank_ends_[now_];
    std::fill(ends.begin(), ends.end(), 0);
    for (std::size_t q = 0; q < free_.size(); ++q) {
      std::int64_t& end = ends[at(tape_.flat->place_of_queue[q])];
      end = std::max(end, free_[q]);
    }
    return ends.empty() ? 0 : *std::max_element(ends.begin(), ends.end());
  }

  // As in the tape's evaluation: if all that a step depends on is what it was for the step before,
  // but later by one period, so is everything that follows.
  std::optional<std::int64_t> period_since_last(std::int64_t step) {
    state_.clear();
    for (const auto* part : {&free_, &least_, &most_, &rank_ends_[1 - now_]})
      state_.insert(state_.end(), part->begin(), part->end());
    for (const std::int32_t slot : tape_.seen_later) state_.push_back(slots_[at(slot)]);
    std::optional<std::int64_t> period;
    if (step >= 2 && !state_.empty()) period = state_[0] - state_before_[0];
    for (std::size_t i = 1; i < state_.size() && period; ++i)
      if (state_[i] - state_before_[i] != *period) period.reset();
    // The last step's marks are in the other half, those of the step before still in this one.
    for (std::size_t i = 0; i < tape_.marks_seen_later.size() && period; ++i) {
      const std::size_t mark = at(tape_.marks_seen_later[i]);
      if (marks_[1 - now_][mark] - marks_[now_][mark] != *period) period.reset();
    }
    std::swap(state_, state_before_);
    return period;
  }

  bool pass() {
    using Kind = BlockTape::Op::Kind;
    for (const BlockTape::Op& op : tape_.ops) {
      bool known = true;
      switch (op.kind) {
        case Kind::kBlock:
          known = block(tape_.instances[at(op.first)]);
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

  std::int64_t output(std::int32_t row) const {
    const MaxPlusTerm* term = matrices_.terms.data() + matrices_.row_begins[at(row)];
    const MaxPlusTerm* end = matrices_.terms.data() + matrices_.row_begins[at(row) + 1];
    std::int64_t value = inputs_[at(term->input)] + term->delay;
    while (++term != end) value = std::max(value, inputs_[at(term->input)] + term->delay);
    return value;
  }

  bool block(const BlockInstance& instance) {
    const BlockStructure& s = tape_.structures[at(tape_.templates[at(instance.block)].structure)];
    const std::int32_t* places = tape_.bindings.data() + instance.first_binding;
    const std::int32_t* queues = places + s.num_places;
    const std::int32_t* fences = queues + s.num_queues;
    std::int64_t* input = inputs_.data();
    for (std::int32_t p = 0; p < s.num_places; ++p) *input++ = least_[at(places[p])];
    for (std::int32_t q = 0; q < s.num_queues; ++q) *input++ = free_[at(queues[q])];
    for (std::int32_t f = 0; f < s.num_fences; ++f) *input++ = slots_[at(fences[f])];
    const std::int32_t* windows = fences + s.num_fences;
    for (std::int32_t q = 0; q < s.num_queues; ++q)
      if (windows[q] >= 0) {
        std::int64_t& most = most_[at(tape_.flat->place_of_queue[at(queues[q])])];
        most = std::max(most, last_mark(windows[q]));
      }
    if (!begins_in_time(instance, s)) return false;
    const std::int64_t* delays =
        matrices_.delays.data() + matrices_.first_delay[at(instance.block)];
    std::int32_t row = matrices_.first_row[at(instance.block)];
    for (std::int32_t p = 0; p < s.num_places; ++p, ++row) {
      std::int64_t &least = least_[at(places[p])], &most = most_[at(places[p])];
      least = output(row);
      most = std::max(least, most + delays[p]);
    }
    const std::int32_t* marks = windows + s.num_queues;
    for (std::int32_t q = 0; q < s.num_queues; ++q, ++row)
      marks_[now_][at(marks[q])] = free_[at(queues[q])] = output(row);
    const std::int32_t* exports = marks + s.num_queues;
    for (std::int32_t x = 0; x < s.num_exports; ++x, ++row) slots_[at(exports[x])] = output(row);
    return true;
  }

  // Whether every launch does, however late its host is. A queue's own input shows it mostly.
  bool begins_in_time(const BlockInstance& instance, const BlockStructure& s) const {
    const std::int32_t* queues = tape_.bindings.data() + instance.first_binding + s.num_places;
    const std::int64_t* slacks =
        matrices_.delays.data() + matrices_.first_delay[at(instance.block)] + s.num_places;
    const std::int32_t first_slack =
        matrices_.first_row[at(instance.block)] + s.num_places + s.num_queues + s.num_exports;
    for (std::int32_t q = 0; q < s.num_queues; ++q) {
      const std::int64_t most = most_[at(tape_.flat->place_of_queue[at(queues[q])])];
      if (most > inputs_[at(s.num_places + q)] + slacks[q] && most > output(first_slack + q))
        return false;
    }
    return true;
  }

  // ---------------------------------------------------------------- launches outside blocks

  void see_window(const LooseLaunch& launch) {
    if (launch.window < 0) return;
    const std::int64_t end = last_mark(launch.window);
    std::int64_t &least = least_[at(launch.place)], &most = most_[at(launch.place)];
    if ((launch.window & 1) != 0) least = std::max(least, end);
    most = std::max(most, end);
  }

  Begin issue(std::int32_t place) {
    const Begin issued{least_[at(place)], most_[at(place)]};
    least_[at(place)] += launch_cost_;
    most_[at(place)] += launch_cost_;
    return issued;
  }

  void wait(const LooseLaunch& launch, Begin& begin) const {
    std::int64_t ready = free_[at(launch.queue)];
    for (std::int32_t w = launch.waits_begin; w < launch.waits_end; ++w)
      ready = std::max(ready, slots_[at(tape_.loose_waits[at(w)])]);
    begin.least = std::max(begin.least, ready);
    begin.most = std::max(begin.most, ready);
  }

  Begin begin_of(const LooseLaunch& launch) {
    see_window(launch);
    Begin begin = issue(launch.place);
    wait(launch, begin);
    return begin;
  }

  void finish(const LooseLaunch& launch, std::int64_t end) {
    slots_[at(launch.slot)] = end;
    if (launch.mark < 0) return;
    free_[at(launch.queue)] = end;
    marks_[now_][at(launch.mark)] = end;
  }

  bool compute(const BlockTape::Op& op) {
    for (std::int32_t l = op.first; l < op.first + op.count; ++l) {
      const LooseLaunch& launch = tape_.loose[at(l)];
      const Begin begin = begin_of(launch);
      if (begin.least != begin.most) return false;
      finish(launch, begin.least + durations_[at(launch.timed)].value);
    }
    return true;
  }

  // When a member arrives may depend on the window, as long as the last one does not.
  bool together(const BlockTape::Op& op) {
    Begin last;
    for (std::int32_t l = op.first; l < op.first + op.count; ++l)
      arrive(begin_of(tape_.loose[at(l)]), last);
    if (last.least != last.most) return false;
    const std::int64_t end = last.least + durations_[at(op.timed)].value;
    for (std::int32_t l = op.first; l < op.first + op.count; ++l) finish(tape_.loose[at(l)], end);
    return true;
  }

  static void arrive(const Begin& begin, Begin& last) {
    last.least = std::max(last.least, begin.least);
    last.most = std::max(last.most, begin.most);
  }

  void launch(const BlockTape::Op& op) {
    for (std::int32_t l = op.first; l < op.first + op.count; ++l) see_window(tape_.loose[at(l)]);
    Begin begin = issue(tape_.loose[at(op.first)].place);
    for (std::int32_t l = op.first; l < op.first + op.count; ++l) wait(tape_.loose[at(l)], begin);
    for (std::int32_t l = op.first; l < op.first + op.count; ++l) begins_[at(l)] = begin;
  }

  bool complete(const BlockTape::Op& op) {
    Begin last;
    for (std::int32_t i = 0; i < op.num_arriving; ++i)
      arrive(begins_[at(tape_.arriving[at(op.first_arriving + i)])], last);
    if (last.least != last.most) return false;
    const std::int64_t end = last.least + durations_[at(op.timed)].value;
    for (std::int32_t i = 0; i < op.num_arriving; ++i)
      completions_[at(tape_.arriving[at(op.first_arriving + i)])] = end;
    for (std::int32_t i = op.first; i < op.first + op.count; ++i) finish_launch(tape_.over[at(i)]);
    return true;
  }

  // A launch is over when all of its members are.
  void finish_launch(std::int32_t first) {
    const std::int32_t last = first + tape_.loose[at(first)].group;
    const std::int64_t end =
        *std::max_element(completions_.begin() + first, completions_.begin() + last);
    for (std::int32_t l = first; l < last; ++l) finish(tape_.loose[at(l)], end);
  }

  const BlockTape& tape_;
  std::span<const Duration> durations_;
  std::int64_t launch_cost_;
  BlockMatrices matrices_;
  std::vector<std::int64_t> least_, most_;  // by place: when its host can issue the next launch
  std::vector<std::int64_t> free_;          // by queue
  std::vector<std::int64_t> slots_;
  std::array<std::vector<std::int64_t>, kRunAhead> marks_;      // by step modulo run-ahead
  std::array<std::vector<std::int64_t>, kRunAhead> rank_ends_;  // likewise; by place
  std::size_t now_ = 0;
  std::vector<std::int64_t> inputs_;  // of the block at hand
  std::vector<Begin> begins_;         // of loose launches that are not over yet
  std::vector<std::int64_t> completions_;
  std::vector<std::int64_t> state_, state_before_;
};

// As entry_durations (actor/tape.h) has it.
Duration piece_duration(const TapePiece& piece, const PhysicalGraph& graph, Rank rank,
                        const CostModel& cost) {
  const std::vector<Actor>& actors = graph.blocks[piece.block.index()].actors;
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
    durations.push_back(timed.piece < 0 ? network.duration(recorded.costs[at(timed.cost)])
                                        : piece_duration(recorded.pieces[at(timed.piece)], graph,
                                                         timed.rank, cost));
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
