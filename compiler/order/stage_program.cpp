// Cells -> runs. A run is cut wherever another queue waits for something inside it, or it would
// wait for another queue after its start; which of these fences exist depends on the micro-batch:
// parameters arrive before the first, reductions leave after the last.
#include "compiler/order/stage_program.h"

#include "compiler/order/instance_order.h"
#include "core/base/at.h"
#include "core/base/table.h"
#include "core/graphs/physical_graph.h"

#include <algorithm>
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

class StageProgramBuilder {
 public:
  StageProgramBuilder(const Partition& partition, Schedule schedule,
                      const ActorDurations& durations, int stage)
      : partition_(partition),
        graph_(partition.graph()),
        schedule_(schedule),
        durations_(durations),
        stage_(stage),
        num_chunks_(graph_.num_chunks()),
        finished_(at(num_chunks_)),
        model_(partition, durations),
        issued_(graph_.ops.size(), 0),
        waited_in_(graph_.ops.size()) {
    for (const StagedInstanceId instance : partition.of_stage(stage))
      of_part_[spec(instance).part].push_back(instance);
    for (const StagedInstanceId instance : instances(StepPart::kPrompt))
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
  const InstanceSpec& spec(StagedInstanceId instance) const {
    return partition_.instances()[instance];
  }
  const StagedOp& op(StagedOpId index) const { return graph_.ops[index]; }
  const StagedTensor& tensor(StagedTensorId index) const { return graph_.tensors[index]; }
  const std::vector<StagedInstanceId>& instances(StepPart part) const { return of_part_[part]; }

  // --- cutting -----------------------------------------------------------------------------------

  // Does the cell at this place have the fence between `own` and the operator that made its input?
  bool is_fence_before(const StagedOp& own, StagedOpId producer, CellPlace place) const {
    const StagedOp& other = op(producer);
    if (other.queue == own.queue || other.queue == QueueRole::kHost) return false;
    return own.rate == Rate::kPerStep || other.rate == Rate::kPerMicroBatch || place.first;
  }
  bool is_fence_after(const StagedOp& own, StagedOpId reader, CellPlace place) const {
    const StagedOp& other = op(reader);
    if (other.queue == own.queue || other.queue == QueueRole::kHost) return false;
    if (own.rate == Rate::kPerStep || other.rate == Rate::kPerMicroBatch) return true;
    return place.last && partition_.part(reader) != StepPart::kLate;
  }

  bool waits_for_new_fence(StagedOpId index, CellPlace place) const {
    const auto& in = op(index).in;
    return std::any_of(in.begin(), in.end(), [&](StagedTensorId input) {
      const StagedTensor& t = tensor(input);
      return !t.is_state && is_fence_before(op(index), t.producer, place) &&
             waited_in_[t.producer] != number_;
    });
  }
  bool signals(StagedOpId index, CellPlace place) const {
    const auto& out = op(index).out;
    return std::any_of(out.begin(), out.end(), [&](StagedTensorId output) {
      const auto readers = partition_.readers(output);
      return !tensor(output).is_state &&
             std::any_of(readers.begin(), readers.end(), [&](StagedOpId reader) {
               return is_fence_after(op(index), reader, place);
             });
    });
  }

  bool continues_run(StagedOpId previous, StagedOpId next, CellPlace place) const {
    const ActorPlace a = partition_.place(previous), b = partition_.place(next);
    return a.instance == b.instance && b.actor == a.actor + 1 &&
           op(previous).queue == op(next).queue && !op(previous).communication &&
           !op(next).communication && !signals(previous, place) &&
           !waits_for_new_fence(next, place);
  }

  // --- one sequence at a time --------------------------------------------------------------------

  void start_sequence(CellPlace place) {
    number_ = program_.sequences.add(RunSequence());
    place_ = place;
    model_.clear();
    last_ = StagedOpId::none;
  }

  void emit(StagedOpId index) {
    RunSequence& sequence = program_.sequences.back();
    const ActorPlace actor = partition_.place(index);
    if (last_.is_valid() && continues_run(last_, index, place_))
      ++sequence.runs.back().num_actors;
    else
      sequence.runs.push_back({actor.instance, actor.actor, 1, model_.start(index), Duration()});
    model_.take(index);
    sequence.runs.back().end = model_.end_of(index);
    issued_[index] = ++num_issued_;
    // That a communication waited, on its own queue, spares no other queue the wait.
    for (const StagedTensorId in : op(index).in)
      if (!tensor(in).is_state && !op(index).communication)
        waited_in_[tensor(in).producer] = number_;
    last_ = index;
  }

  // The sequence's end: what it exchanges with other stages.
  void finish_sequence() {
    RunSequence& sequence = program_.sequences.back();
    const Duration compute = model_.free(QueueRole::kCompute);
    sequence.duration = compute.value > 0 ? compute : model_.latest();
    for (const PlannedRun& run : sequence.runs)
      for (std::int32_t a = run.first_actor; a < run.first_actor + run.num_actors; ++a)
        note_transfers(at(spec(run.instance).ops, a), run.end, sequence);
  }

  void note_transfers(StagedOpId index, Duration end, RunSequence& sequence) const {
    const bool per_step = op(index).rate == Rate::kPerStep;
    for (const StagedTensorId in : op(index).in) {
      const StagedOpId producer = tensor(in).producer;
      if (tensor(in).is_state || !partition_.is_receive(producer)) continue;
      const bool counts = per_step || op(producer).rate == Rate::kPerMicroBatch || place_.first;
      auto& receives = sequence.receives;
      if (counts && std::find(receives.begin(), receives.end(), producer) == receives.end())
        receives.push_back(producer);
    }
    for (const StagedTensorId out : op(index).out)
      for (const StagedOpId reader : partition_.readers(out)) {
        if (tensor(out).is_state || !partition_.is_transfer(reader)) continue;
        if (per_step || op(reader).rate == Rate::kPerMicroBatch || place_.last)
          sequence.sends.push_back({reader, end});
      }
  }

  // What the loader reads here for another stage goes with the micro-batch it belongs to.
  void send_host_inputs(CellPlace place, std::int32_t chunk) {
    for (const StagedInstanceId instance : instances(StepPart::kHost)) {
      if (graph_.chunk_of(spec(instance).layer) != chunk) continue;
      for (const StagedTensorId out : op(spec(instance).ops.front()).out)
        for (const StagedOpId reader : partition_.readers(out))
          if (partition_.is_transfer(reader) &&
              (op(reader).rate == Rate::kPerMicroBatch || place.first))
            program_.sequences.back().sends.push_back({reader, Duration()});
    }
  }

  // --- before the first micro-batch --------------------------------------------------------------

  bool touches_transfers(StagedInstanceId instance) const {
    for (const StagedOpId member : spec(instance).ops) {
      for (const StagedTensorId in : op(member).in)
        if (!tensor(in).is_state && partition_.is_receive(tensor(in).producer)) return true;
      for (const StagedTensorId out : op(member).out)
        for (const StagedOpId reader : partition_.readers(out))
          if (partition_.is_transfer(reader)) return true;
    }
    return false;
  }

  // Position in the staged graph of the first operator that needs a copy.
  StagedOpId first_use(StagedInstanceId instance) const {
    StagedOpId first = graph_.ops.next_key();
    for (const StagedOpId member : spec(instance).ops)
      for (const StagedTensorId out : op(member).out)
        for (const StagedOpId reader : partition_.readers(out))
          if (partition_.place(reader).instance != instance) first = std::min(first, reader);
    return first;
  }

  Duration total(StagedInstanceId instance) const {
    Duration sum;
    for (const Duration duration : durations_[instance]) sum += duration;
    return sum;
  }

  // Copies of parameters run while the stage waits for its first micro-batch; those that would not
  // be done by then run inside the first forward cell, one layer ahead of their use, so that they
  // do not stand before the layers' own collectives. What other stages have a part in, or backward
  // alone reads, is early, and what it is made of with it.
  void add_before(Duration first_input) {
    std::vector<KeyedInstance> members;
    for (const StagedInstanceId instance : instances(StepPart::kBefore))
      members.push_back({{first_use(instance).value, 0}, instance});
    // A copy of a copy is used later than that one: makers come first.
    std::sort(members.begin(), members.end());
    std::vector<KeyedInstance> early;
    Duration used;
    for (const KeyedInstance& member : members) {
      used += total(member.instance);
      if (used <= first_input || touches_transfers(member.instance) ||
          !is_read_in_forward(member.instance))
        early.push_back(member);
    }
    const std::vector<bool> needed = made_of(members, early);
    early.clear();
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (needed[i])
        early.push_back(members[i]);
      else
        ahead_.push_back(members[i].instance);
    }
    for (const StagedOpId member : ops_in_order(partition_, std::move(early))) add_single(member);
  }

  // Which of the members, makers first, `some` of them are or are made of.
  std::vector<bool> made_of(const std::vector<KeyedInstance>& members,
                            const std::vector<KeyedInstance>& some) const {
    Table<StagedInstanceId, bool> needed(partition_.instances().size());
    for (const KeyedInstance& member : some) needed[member.instance] = true;
    std::vector<bool> all(members.size());
    for (std::size_t i = members.size(); i-- > 0;) {
      all[i] = needed[members[i].instance];
      if (!all[i]) continue;
      for (const StagedOpId member : spec(members[i].instance).ops)
        for (const StagedTensorId in : op(member).in)
          if (!tensor(in).is_state) needed[partition_.place(tensor(in).producer).instance] = true;
    }
    return all;
  }

  bool is_read_in_forward(StagedInstanceId instance) const {
    for (const StagedOpId member : spec(instance).ops)
      for (const StagedTensorId out : op(member).out)
        for (const StagedOpId reader : partition_.readers(out))
          if (cell_of(partition_.part(reader), schedule_) == CellKind::kForward) return true;
    return false;
  }

  // A sequence for one operator, or one more for the run of the last such sequence.
  void add_single(StagedOpId member) {
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

  // Prompt operators whose inputs are there now follow at once, each instance in its own order;
  // but not where they would hold up a collective of the cell that other stages wait for.
  void emit_prompt() {
    for (bool again = true; again;) {
      again = false;
      for (Pending& pending : prompt_) {
        const auto& ops = spec(pending.instance).ops;
        for (; pending.next < ops.size(); ++pending.next, again = true) {
          if (!is_complete(ops[pending.next]) || holds_up(ops[pending.next])) break;
          emit(ops[pending.next]);
        }
      }
    }
  }

  bool holds_up(StagedOpId index) const {
    if (next_own_ == own_starts_.size() || op(index).queue != QueueRole::kCollective) return false;
    return model_.start(index) + model_.duration(index) > own_starts_[next_own_];
  }

  // When the cell's own collectives start if nothing is put between them; none when no other stage
  // waits for the cell.
  std::vector<Duration> starts_of_collectives(const std::vector<StagedOpId>& ops) const {
    std::vector<Duration> starts;
    QueueModel model(partition_, durations_);
    bool sends = false;
    for (const StagedOpId index : ops) {
      if (op(index).queue == QueueRole::kCollective) starts.push_back(model.start(index));
      model.take(index);
      for (const StagedTensorId out : op(index).out)
        for (const StagedOpId reader : partition_.readers(out))
          sends = sends || partition_.is_transfer(reader);
    }
    return sends ? starts : std::vector<Duration>();
  }

  // All inputs are from this sequence or from cells that come before it.
  bool is_complete(StagedOpId index) const {
    const auto& in = op(index).in;
    return std::all_of(in.begin(), in.end(), [&](StagedTensorId input) {
      const StagedOpId producer = tensor(input).producer;
      if (tensor(input).is_state || model_.was_taken(producer)) return true;
      const std::optional<CellKind> kind = cell_of(partition_.part(producer), schedule_);
      if (kind) return is_finished(*kind, graph_.chunk_of(op(producer).layer));
      return partition_.part(producer) != StepPart::kPrompt || issued_[producer] != 0;
    });
  }

  // Has the last micro-batch had its cell of this kind and chunk?
  bool is_finished(CellKind kind, int chunk) const { return at(finished_, chunk)[kind]; }

  SequenceId add_cell(const Cell& cell, CellPlace place, const std::vector<StagedOpId>& ops) {
    start_sequence(place);
    const bool copies = cell.kind == CellKind::kForward && place.first;
    const auto emit_copies_until = [&](StagedOpId use) {
      for (; num_copied_ < ahead_.size() && first_use(ahead_[num_copied_]) <= use; ++num_copied_)
        for (const StagedOpId member : spec(ahead_[num_copied_]).ops) emit(member);
    };
    if (cell.kind == CellKind::kForward) send_host_inputs(place, cell.chunk);
    own_starts_ = place.last ? starts_of_collectives(ops) : std::vector<Duration>();
    next_own_ = 0;
    StagedInstanceId instance;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      const StagedInstanceId current = partition_.place(ops[i]).instance;
      if (copies && current != instance) emit_copies_until(last_op_of_next(ops, i));
      instance = current;
      emit(ops[i]);
      if (op(ops[i]).queue == QueueRole::kCollective && next_own_ < own_starts_.size()) ++next_own_;
      const bool run_ends = i + 1 == ops.size() || !continues_run(ops[i], ops[i + 1], place);
      if (!run_ends || !place.last) continue;
      emit_prompt();
    }
    if (copies) emit_copies_until(last_use_of_copies(cell.chunk, ops));
    finish_sequence();
    at(finished_, cell.chunk)[cell.kind] = place.last;
    if (cell.kind == CellKind::kForward && cell.chunk == 0 && (!place.first || place.last))
      forward_duration_ = program_.sequences.back().duration;
    return number_;
  }

  // Copies that a later chunk needs first are made there.
  StagedOpId last_use_of_copies(std::int32_t chunk, const std::vector<StagedOpId>& ops) const {
    if (chunk + 1 == num_chunks_ || ops.empty()) return graph_.ops.next_key();
    return *std::max_element(ops.begin(), ops.end());
  }

  // Last operator of the instance at position `i` and of the one after it: what must be there when
  // the layer after this one starts.
  StagedOpId last_op_of_next(const std::vector<StagedOpId>& ops, std::size_t i) const {
    StagedOpId last = ops[i];
    StagedInstanceId instance = partition_.place(ops[i]).instance;
    for (int changes = 0; i < ops.size(); ++i) {
      const StagedInstanceId current = partition_.place(ops[i]).instance;
      if (current != instance && ++changes == 2) break;
      instance = current;
      last = std::max(last, ops[i]);
    }
    return last;
  }

  void add_cells() {
    single_ = false;
    const auto micro_batches = static_cast<std::int32_t>(graph_.micro_batches);
    struct Made {
      CellKind kind;
      std::int32_t chunk;
      CellPlace place;
      SequenceId sequence;
    };
    std::vector<Made> made;
    using OpsOfKind = FixedTable<CellKind, std::optional<std::vector<StagedOpId>>, kNumCellKinds>;
    std::vector<OpsOfKind> ops(at(num_chunks_));  // by chunk
    const PipelineShape shape{static_cast<std::int32_t>(graph_.placements.size()), micro_batches,
                              num_chunks_};
    for (const Cell& cell : stage_cells(schedule_, shape, stage_)) {
      const CellPlace place{cell.micro_batch == 0, cell.micro_batch == micro_batches - 1};
      const auto known = std::find_if(made.begin(), made.end(), [&](const Made& m) {
        return m.kind == cell.kind && m.chunk == cell.chunk && m.place == place;
      });
      if (known != made.end()) {
        program_.entries.push_back({known->sequence, cell.micro_batch});
        continue;
      }
      auto& of_kind = at(ops, cell.chunk)[cell.kind];
      if (!of_kind) of_kind = cell_ops(partition_, durations_, schedule_, stage_, cell);
      const SequenceId sequence = add_cell(cell, place, *of_kind);
      made.push_back({cell.kind, cell.chunk, place, sequence});
      program_.entries.push_back({sequence, cell.micro_batch});
    }
  }

  // --- after the last micro-batch ----------------------------------------------------------------

  // Updates in the order in which their gradients are reduced.
  void add_late() {
    single_ = false;
    std::vector<KeyedInstance> members;
    for (const StagedInstanceId instance : instances(StepPart::kLate)) {
      std::int64_t last = 0;
      for (const StagedOpId member : spec(instance).ops)
        for (const StagedTensorId in : op(member).in)
          if (!tensor(in).is_state)
            last = std::max<std::int64_t>(last, issued_[tensor(in).producer]);
      members.push_back({{last, 0}, instance});
    }
    for (const StagedOpId member : ops_in_order(partition_, std::move(members))) add_single(member);
  }

  const Partition& partition_;
  const StagedGraph& graph_;
  Schedule schedule_;
  const ActorDurations& durations_;
  int stage_;
  FixedTable<StepPart, std::vector<StagedInstanceId>, kNumStepParts> of_part_;
  std::vector<StagedInstanceId> ahead_;  // copies made inside the first forward cells
  std::size_t num_copied_ = 0;           // of them
  struct Pending {
    StagedInstanceId instance;
    std::size_t next = 0;  // operator
  };
  std::vector<Pending> prompt_;
  StageProgram program_;
  Duration forward_duration_;  // of chunk 0
  std::int32_t num_chunks_;
  // By chunk: the last micro-batch's cells.
  std::vector<FixedTable<CellKind, bool, kNumCellKinds>> finished_;

  // Of the sequence being made.
  SequenceId number_;
  CellPlace place_;
  bool single_ = false;
  StagedOpId last_;
  QueueModel model_;
  std::vector<Duration> own_starts_;  // of collectives that nothing may hold up
  std::size_t next_own_ = 0;

  Table<StagedOpId, std::int32_t> issued_;   // when, counted from 1; 0: not yet
  Table<StagedOpId, SequenceId> waited_in_;  // the sequence that last waited for it
  std::int32_t num_issued_ = 0;
};

}  // namespace

std::vector<StageProgram> make_stage_programs(const Partition& partition, Schedule schedule,
                                              const ActorDurations& durations) {
  std::vector<StageProgram> programs;
  Duration first_input;
  const auto num_stages = static_cast<int>(partition.graph().placements.size());
  for (int stage = 0; stage < num_stages; ++stage) {
    StageProgramBuilder builder(partition, schedule, durations, stage);
    programs.push_back(builder.build(first_input));
    first_input += builder.forward_duration();
  }
  return programs;
}

}  // namespace sextant
