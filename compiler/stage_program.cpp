// Cells -> runs. A run is cut wherever another queue waits for something inside it, or it would
// wait for another queue after its start; which of these fences exist depends on the micro-batch:
// parameters arrive before the first, reductions leave after the last.
#include "compiler/stage_program.h"

#include "compiler/at.h"
#include "core/physical_graph.h"

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>
#include <utility>

namespace sextant {
namespace {

// Which special micro-batch a cell is of.
struct CellPlace {
  bool first = false, last = false;
  bool operator==(const CellPlace&) const = default;
};

class StageBuilder {
 public:
  StageBuilder(const Partition& partition, Schedule schedule, const ActorDurations& durations,
               int stage)
      : partition_(partition),
        graph_(partition.graph()),
        schedule_(schedule),
        durations_(durations),
        stage_(stage),
        issued_(graph_.ops.size(), 0),
        end_of_(graph_.ops.size()),
        sequence_of_(graph_.ops.size(), -1),
        waited_in_(graph_.ops.size(), -1) {
    for (const std::int32_t instance : partition.of_stage(stage))
      of_part_[static_cast<std::size_t>(spec(instance).part)].push_back(instance);
    for (const std::int32_t instance : instances(StepPart::kPrompt))
      prompt_.push_back({instance, 0});
  }

  // `first_input` is when the stage gets its first micro-batch, as far as one can tell beforehand.
  StageProgram build(Duration first_input) {
    add_before(first_input);
    add_cells();
    add_late();
    return std::move(program_);
  }

  Duration forward_duration() const { return forward_duration_; }

 private:
  const InstanceSpec& spec(std::int32_t instance) const {
    return at(partition_.instances(), instance);
  }
  const StagedOp& op(StagedOpIndex index) const { return at(graph_.ops, index); }
  const StagedTensor& tensor(StagedTensorIndex index) const { return at(graph_.tensors, index); }
  const std::vector<std::int32_t>& instances(StepPart part) const {
    return of_part_[static_cast<std::size_t>(part)];
  }

  // Instances in an order that follows their dependences, the smallest key first among those that
  // are ready; then their operators. Where instances feed each other both ways, operators of
  // several take turns, which makes more runs.
  template <typename Key>
  std::vector<StagedOpIndex> ordered_ops(const std::vector<std::int32_t>& members,
                                         const Key& key) const {
    std::vector<std::vector<std::int32_t>> after(members.size());  // positions that wait for it
    std::vector<std::int32_t> missing(members.size(), 0);
    const auto position = [&](std::int32_t instance) {
      return std::find(members.begin(), members.end(), instance) - members.begin();
    };
    for (std::size_t i = 0; i < members.size(); ++i) {
      std::vector<std::ptrdiff_t> producers;
      for (const StagedOpIndex member : spec(members[i]).ops)
        for (const StagedTensorIndex in : op(member).in) {
          if (tensor(in).is_state) continue;
          const std::int32_t from = partition_.place(tensor(in).producer).instance;
          if (from != members[i]) producers.push_back(position(from));
        }
      std::sort(producers.begin(), producers.end());
      producers.erase(std::unique(producers.begin(), producers.end()), producers.end());
      for (const std::ptrdiff_t producer : producers) {
        if (producer == static_cast<std::ptrdiff_t>(members.size())) continue;
        after[static_cast<std::size_t>(producer)].push_back(static_cast<std::int32_t>(i));
        ++missing[i];
      }
    }
    std::vector<StagedOpIndex> ops;
    for (std::size_t done = 0; done < members.size(); ++done) {
      std::optional<std::size_t> next;
      for (std::size_t i = 0; i < members.size(); ++i)
        if (missing[i] == 0 && (!next || key(members[i]) < key(members[*next]))) next = i;
      if (!next) return merged_ops(members);
      missing[*next] = -1;
      for (const std::int32_t reader : after[*next]) --at(missing, reader);
      const auto& next_ops = spec(members[*next]).ops;
      ops.insert(ops.end(), next_ops.begin(), next_ops.end());
    }
    return ops;
  }

  // The operator that comes first in the staged graph, among those whose instance has come to them.
  // That one exists: all it needs comes before it, and what its instance puts before it are
  // collectives of what the instance itself made.
  std::vector<StagedOpIndex> merged_ops(const std::vector<std::int32_t>& members) const {
    std::vector<std::size_t> next(members.size(), 0);
    std::vector<bool> is_here(graph_.ops.size(), false);  // in these instances and not yet taken
    std::size_t left = 0;
    for (const std::int32_t member : members)
      for (const StagedOpIndex index : spec(member).ops) {
        is_here[static_cast<std::size_t>(index)] = true;
        ++left;
      }
    std::vector<StagedOpIndex> ops;
    for (; left > 0; --left) {
      std::optional<std::size_t> first;
      for (std::size_t i = 0; i < members.size(); ++i) {
        if (next[i] == spec(members[i]).ops.size()) continue;
        const StagedOpIndex own = spec(members[i]).ops[next[i]];
        const auto& in = op(own).in;
        const bool ready = std::none_of(in.begin(), in.end(), [&](StagedTensorIndex input) {
          return !tensor(input).is_state &&
                 is_here[static_cast<std::size_t>(tensor(input).producer)];
        });
        if (ready && (!first || own < spec(members[*first]).ops[next[*first]])) first = i;
      }
      ops.push_back(spec(members[*first]).ops[next[*first]++]);
      is_here[static_cast<std::size_t>(ops.back())] = false;
    }
    return ops;
  }

  // --- cutting -----------------------------------------------------------------------------------

  // Does the cell at this place have the fence between `own` and the operator that made its input?
  bool is_fence_before(const StagedOp& own, StagedOpIndex producer, CellPlace place) const {
    const StagedOp& other = op(producer);
    if (other.queue == own.queue || other.queue == QueueRole::kHost) return false;
    return own.rate == Rate::kPerStep || other.rate == Rate::kPerMicroBatch || place.first;
  }
  bool is_fence_after(const StagedOp& own, StagedOpIndex reader, CellPlace place) const {
    const StagedOp& other = op(reader);
    if (other.queue == own.queue || other.queue == QueueRole::kHost) return false;
    if (own.rate == Rate::kPerStep || other.rate == Rate::kPerMicroBatch) return true;
    return place.last && partition_.part(reader) != StepPart::kLate;
  }

  bool waits_for_new_fence(StagedOpIndex index, CellPlace place) const {
    const auto& in = op(index).in;
    return std::any_of(in.begin(), in.end(), [&](StagedTensorIndex input) {
      const StagedTensor& t = tensor(input);
      return !t.is_state && is_fence_before(op(index), t.producer, place) &&
             at(waited_in_, t.producer) != number_;
    });
  }
  bool signals(StagedOpIndex index, CellPlace place) const {
    const auto& out = op(index).out;
    return std::any_of(out.begin(), out.end(), [&](StagedTensorIndex output) {
      const auto readers = partition_.readers(output);
      return !tensor(output).is_state &&
             std::any_of(readers.begin(), readers.end(), [&](StagedOpIndex reader) {
               return is_fence_after(op(index), reader, place);
             });
    });
  }

  bool continues_run(StagedOpIndex previous, StagedOpIndex next, CellPlace place) const {
    const ActorPlace a = partition_.place(previous), b = partition_.place(next);
    return a.instance == b.instance && b.actor == a.actor + 1 &&
           op(previous).queue == op(next).queue && !op(previous).communication &&
           !op(next).communication && !signals(previous, place) &&
           !waits_for_new_fence(next, place);
  }

  // --- one sequence at a time --------------------------------------------------------------------

  void start_sequence(CellPlace place) {
    program_.sequences.emplace_back();
    number_ = static_cast<std::int32_t>(program_.sequences.size() - 1);
    place_ = place;
    free_.fill(Duration());
    last_ = -1;
  }

  void emit(StagedOpIndex index) {
    RunSequence& sequence = program_.sequences.back();
    const ActorPlace actor = partition_.place(index);
    const StagedOp& staged = op(index);
    Duration& free = free_[static_cast<std::size_t>(staged.queue)];
    if (last_ >= 0 && continues_run(last_, index, place_)) {
      ++sequence.runs.back().num_actors;
    } else {
      Duration start = free;
      for (const StagedTensorIndex in : staged.in)
        if (at(sequence_of_, tensor(in).producer) == number_)
          start = std::max(start, at(end_of_, tensor(in).producer));
      sequence.runs.push_back({actor.instance, actor.actor, 1, start, start});
      free = start;
    }
    free += at(at(durations_, actor.instance), actor.actor);
    sequence.runs.back().end = free;
    note_emitted(index, free);
    last_ = index;
  }

  void note_emitted(StagedOpIndex index, Duration end) {
    at(end_of_, index) = end;
    at(sequence_of_, index) = number_;
    at(issued_, index) = ++num_issued_;
    for (const StagedTensorIndex in : op(index).in)
      if (!tensor(in).is_state) at(waited_in_, tensor(in).producer) = number_;
  }

  // The sequence's end: what it exchanges with other stages.
  void finish_sequence() {
    RunSequence& sequence = program_.sequences.back();
    const Duration compute = free_[static_cast<std::size_t>(QueueRole::kCompute)];
    sequence.duration = compute.value > 0 ? compute : *std::max_element(free_.begin(), free_.end());
    for (const PlannedRun& run : sequence.runs)
      for (std::int32_t a = run.first_actor; a < run.first_actor + run.num_actors; ++a)
        note_transfers(at(spec(run.instance).ops, a), run.end, sequence);
  }

  void note_transfers(StagedOpIndex index, Duration end, RunSequence& sequence) const {
    const bool per_step = op(index).rate == Rate::kPerStep;
    for (const StagedTensorIndex in : op(index).in) {
      const StagedOpIndex producer = tensor(in).producer;
      if (tensor(in).is_state || !partition_.is_receive(producer)) continue;
      const bool counts = per_step || op(producer).rate == Rate::kPerMicroBatch || place_.first;
      auto& receives = sequence.receives;
      if (counts && std::find(receives.begin(), receives.end(), producer) == receives.end())
        receives.push_back(producer);
    }
    for (const StagedTensorIndex out : op(index).out)
      for (const StagedOpIndex reader : partition_.readers(out)) {
        if (tensor(out).is_state || !partition_.is_transfer(reader)) continue;
        if (per_step || op(reader).rate == Rate::kPerMicroBatch || place_.last)
          sequence.sends.push_back({reader, end});
      }
  }

  // What the loader reads here for another stage goes with the micro-batch it belongs to.
  void send_host_inputs(CellPlace place) {
    for (const std::int32_t instance : instances(StepPart::kHost))
      for (const StagedTensorIndex out : op(spec(instance).ops.front()).out)
        for (const StagedOpIndex reader : partition_.readers(out))
          if (partition_.is_transfer(reader) &&
              (op(reader).rate == Rate::kPerMicroBatch || place.first))
            program_.sequences.back().sends.push_back({reader, Duration()});
  }

  // --- before the first micro-batch --------------------------------------------------------------

  bool touches_transfers(std::int32_t instance) const {
    for (const StagedOpIndex member : spec(instance).ops) {
      for (const StagedTensorIndex in : op(member).in)
        if (!tensor(in).is_state && partition_.is_receive(tensor(in).producer)) return true;
      for (const StagedTensorIndex out : op(member).out)
        for (const StagedOpIndex reader : partition_.readers(out))
          if (partition_.is_transfer(reader)) return true;
    }
    return false;
  }

  // Position in the staged graph of the first operator that needs a copy.
  StagedOpIndex first_use(std::int32_t instance) const {
    auto first = static_cast<StagedOpIndex>(graph_.ops.size());
    for (const StagedOpIndex member : spec(instance).ops)
      for (const StagedTensorIndex out : op(member).out)
        for (const StagedOpIndex reader : partition_.readers(out))
          if (partition_.place(reader).instance != instance) first = std::min(first, reader);
    return first;
  }

  Duration total(std::int32_t instance) const {
    Duration sum;
    for (const Duration duration : at(durations_, instance)) sum += duration;
    return sum;
  }

  // Copies of parameters run while the stage waits for its first micro-batch; those that would not
  // be done by then run inside the first forward cell, one layer ahead of their use, so that they
  // do not stand before the layers' own collectives.
  void add_before(Duration first_input) {
    const auto key = [&](std::int32_t instance) {
      return std::pair(first_use(instance), instance);
    };
    std::vector<std::int32_t> early;
    std::vector<std::int32_t> members = instances(StepPart::kBefore);
    std::sort(members.begin(), members.end(),
              [&](std::int32_t a, std::int32_t b) { return key(a) < key(b); });
    Duration used;
    bool together = true;  // a copy that needs another stays behind it
    for (const std::int32_t instance : members)
      together = together && !touches_transfers(instance) && is_independent(instance);
    for (const std::int32_t instance : members) {
      used += total(instance);
      const bool forward_reads = is_read_in_forward(instance);
      if (together && forward_reads && used > first_input)
        ahead_.push_back(instance);
      else
        early.push_back(instance);
    }
    for (const StagedOpIndex member : ordered_ops(early, key)) add_single(member);
  }

  bool is_independent(std::int32_t instance) const {
    for (const StagedOpIndex member : spec(instance).ops)
      for (const StagedTensorIndex in : op(member).in) {
        const ActorPlace from = partition_.place(tensor(in).producer);
        if (!tensor(in).is_state && from.instance != instance) return false;
      }
    return true;
  }

  bool is_read_in_forward(std::int32_t instance) const {
    for (const StagedOpIndex member : spec(instance).ops)
      for (const StagedTensorIndex out : op(member).out)
        for (const StagedOpIndex reader : partition_.readers(out))
          if (partition_.part(reader) == StepPart::kForward) return true;
    return false;
  }

  // A sequence for one operator, or one more for the run of the last such sequence.
  void add_single(StagedOpIndex member) {
    const CellPlace place{true, true};
    const bool extends = single_ && continues_run(last_, member, place);
    if (!extends) {
      start_sequence(place);
      program_.entries.push_back({number_, 0});
    } else {
      program_.sequences.back().receives.clear();
      program_.sequences.back().sends.clear();
    }
    emit(member);
    finish_sequence();
    single_ = true;
  }

  // --- cells -------------------------------------------------------------------------------------

  static int rank_of(CellKind kind) { return static_cast<int>(kind); }

  std::optional<CellKind> cell_of(StepPart part) const {
    switch (part) {
      case StepPart::kForward:
        return CellKind::kForward;
      case StepPart::kInputGrad:
        return CellKind::kBackward;
      case StepPart::kWeightGrad:
        return splits_backward(schedule_) ? CellKind::kWeightGrad : CellKind::kBackward;
      case StepPart::kBefore:
      case StepPart::kPrompt:
      case StepPart::kLate:
      case StepPart::kTransfer:
      case StepPart::kHost:
        return std::nullopt;
    }
    return std::nullopt;
  }

  // Operators of the cells of a kind, layer by layer, B of a layer before its W.
  std::vector<StagedOpIndex> cell_ops(CellKind kind) const {
    std::vector<std::int32_t> members;
    for (const StepPart part : {StepPart::kForward, StepPart::kInputGrad, StepPart::kWeightGrad})
      if (cell_of(part) == kind)
        members.insert(members.end(), instances(part).begin(), instances(part).end());
    std::vector<std::pair<int, StagedOpIndex>> first_of_layer;  // sorted by layer
    for (const std::int32_t member : members) {
      const StagedOpIndex first =
          *std::min_element(spec(member).ops.begin(), spec(member).ops.end());
      first_of_layer.emplace_back(spec(member).layer, first);
    }
    std::sort(first_of_layer.begin(), first_of_layer.end());
    return ordered_ops(members, [&](std::int32_t instance) {
      const int layer = spec(instance).layer;
      const auto first = std::lower_bound(first_of_layer.begin(), first_of_layer.end(),
                                          std::pair(layer, StagedOpIndex(-1)));
      return std::tuple(first->second, spec(instance).part, instance);
    });
  }

  // The cell kind whose last micro-batch completes the inputs of a prompt operator.
  CellKind home_of(StagedOpIndex index) const {
    CellKind home = CellKind::kForward;
    for (const StagedTensorIndex in : op(index).in) {
      if (tensor(in).is_state) continue;
      const StagedOpIndex producer = tensor(in).producer;
      const StepPart part = partition_.part(producer);
      const CellKind kind = part == StepPart::kPrompt ? home_of(producer)
                                                      : cell_of(part).value_or(CellKind::kForward);
      if (rank_of(kind) > rank_of(home)) home = kind;
    }
    return home;
  }

  // Prompt operators whose inputs are there now follow at once, each instance in its own order.
  void emit_prompt(CellKind kind) {
    for (bool again = true; again;) {
      again = false;
      for (Pending& pending : prompt_) {
        const auto& ops = spec(pending.instance).ops;
        for (; pending.next < ops.size(); ++pending.next, again = true) {
          if (rank_of(home_of(ops[pending.next])) > rank_of(kind)) break;
          if (!is_complete(ops[pending.next])) break;
          emit(ops[pending.next]);
        }
      }
    }
  }

  // All inputs are from this sequence or from cells that come before it.
  bool is_complete(StagedOpIndex index) const {
    const auto& in = op(index).in;
    return std::all_of(in.begin(), in.end(), [&](StagedTensorIndex input) {
      const StagedOpIndex producer = tensor(input).producer;
      if (tensor(input).is_state || at(sequence_of_, producer) == number_) return true;
      const std::optional<CellKind> kind = cell_of(partition_.part(producer));
      if (kind) return rank_of(*kind) < rank_of(current_kind_);
      return partition_.part(producer) != StepPart::kPrompt || at(issued_, producer) != 0;
    });
  }

  std::int32_t add_cell(CellKind kind, CellPlace place, const std::vector<StagedOpIndex>& ops) {
    start_sequence(place);
    current_kind_ = kind;
    std::size_t ahead = 0;  // copies emitted
    const bool copies = kind == CellKind::kForward && place.first;
    const auto emit_copies_until = [&](StagedOpIndex use) {
      for (; ahead < ahead_.size() && first_use(ahead_[ahead]) <= use; ++ahead)
        for (const StagedOpIndex member : spec(ahead_[ahead]).ops) emit(member);
    };
    if (kind == CellKind::kForward) send_host_inputs(place);
    std::int32_t instance = -1;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      const std::int32_t current = partition_.place(ops[i]).instance;
      if (copies && current != instance) emit_copies_until(last_op_of_next(ops, i));
      instance = current;
      emit(ops[i]);
      const bool run_ends = i + 1 == ops.size() || !continues_run(ops[i], ops[i + 1], place);
      if (!run_ends || !place.last) continue;
      emit_prompt(kind);
    }
    if (copies) emit_copies_until(static_cast<StagedOpIndex>(graph_.ops.size()));
    finish_sequence();
    if (kind == CellKind::kForward && (!place.first || place.last))
      forward_duration_ = program_.sequences.back().duration;
    return number_;
  }

  // Last operator of the instance after the one at position `i`: what must be there when the layer
  // after this one starts.
  StagedOpIndex last_op_of_next(const std::vector<StagedOpIndex>& ops, std::size_t i) const {
    const std::int32_t own = partition_.place(ops[i]).instance;
    std::size_t next = i;
    while (next < ops.size() && partition_.place(ops[next]).instance == own) ++next;
    if (next == ops.size()) return ops.back();
    const std::int32_t after = partition_.place(ops[next]).instance;
    StagedOpIndex last = ops[next];
    for (; next < ops.size() && partition_.place(ops[next]).instance == after; ++next)
      last = std::max(last, ops[next]);
    return last;
  }

  void add_cells() {
    single_ = false;
    const auto micro_batches = static_cast<std::int32_t>(graph_.micro_batches);
    struct Made {
      CellKind kind;
      CellPlace place;
      std::int32_t sequence;
    };
    std::vector<Made> made;
    std::array<std::optional<std::vector<StagedOpIndex>>, 3> ops;
    const auto num_stages = static_cast<std::int32_t>(graph_.placements.size());
    for (const Cell& cell : stage_cells(schedule_, num_stages, stage_, micro_batches)) {
      const CellPlace place{cell.micro_batch == 0, cell.micro_batch == micro_batches - 1};
      const auto known = std::find_if(made.begin(), made.end(), [&](const Made& m) {
        return m.kind == cell.kind && m.place == place;
      });
      if (known != made.end()) {
        program_.entries.push_back({known->sequence, cell.micro_batch});
        continue;
      }
      auto& of_kind = ops[static_cast<std::size_t>(cell.kind)];
      if (!of_kind) of_kind = cell_ops(cell.kind);
      const std::int32_t sequence = add_cell(cell.kind, place, *of_kind);
      made.push_back({cell.kind, place, sequence});
      program_.entries.push_back({sequence, cell.micro_batch});
    }
  }

  // --- after the last micro-batch ----------------------------------------------------------------

  // Updates in the order in which their gradients are reduced.
  void add_late() {
    single_ = false;
    const auto ready = [&](std::int32_t instance) {
      std::int32_t last = 0;
      for (const StagedOpIndex member : spec(instance).ops)
        for (const StagedTensorIndex in : op(member).in)
          if (!tensor(in).is_state) last = std::max(last, at(issued_, tensor(in).producer));
      return std::pair(last, instance);
    };
    for (const StagedOpIndex member : ordered_ops(instances(StepPart::kLate), ready))
      add_single(member);
  }

  const Partition& partition_;
  const StagedGraph& graph_;
  Schedule schedule_;
  const ActorDurations& durations_;
  int stage_;
  std::array<std::vector<std::int32_t>, 8> of_part_;  // instances by part
  std::vector<std::int32_t> ahead_;                   // copies made inside the first forward cell
  struct Pending {
    std::int32_t instance = 0;
    std::size_t next = 0;  // operator
  };
  std::vector<Pending> prompt_;
  StageProgram program_;
  Duration forward_duration_;

  // Of the sequence being made.
  std::int32_t number_ = -1;
  CellPlace place_;
  CellKind current_kind_ = CellKind::kForward;
  bool single_ = false;
  StagedOpIndex last_ = -1;
  std::array<Duration, kNumQueueRoles> free_;

  // By operator: when it was issued (0: not yet), its end, in which sequence, where last waited
  // for.
  std::vector<std::int32_t> issued_;
  std::vector<Duration> end_of_;
  std::vector<std::int32_t> sequence_of_, waited_in_;
  std::int32_t num_issued_ = 0;
};

}  // namespace

std::vector<StageProgram> make_stage_programs(const Partition& partition, Schedule schedule,
                                              const ActorDurations& durations) {
  std::vector<StageProgram> programs;
  Duration first_input;
  const auto num_stages = static_cast<int>(partition.graph().placements.size());
  for (int stage = 0; stage < num_stages; ++stage) {
    StageBuilder builder(partition, schedule, durations, stage);
    programs.push_back(builder.build(first_input));
    first_input += builder.forward_duration();
  }
  return programs;
}

}  // namespace sextant
