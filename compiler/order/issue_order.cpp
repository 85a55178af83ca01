// Runs the stages once in modelled time. What is next in time is next in the order; an item becomes
// known only when the one it depends on has its place, so the order follows every dependence.
#include "compiler/order/issue_order.h"

#include "core/base/at.h"
#include "core/base/check.h"
#include "core/base/ids.h"
#include "core/base/table.h"
#include "core/graphs/physical_graph.h"

#include <algorithm>
#include <optional>
#include <queue>
#include <tuple>
#include <utility>

namespace sextant {
namespace {

using TransferId = Id<struct TransferTag>;
// An act of a transfer.
using OccurrenceId = Id<struct OccurrenceTag>;

struct Transfer {
  StagedOpId send, receive;
  std::int32_t from_stage = 0, to_stage = 0;
  std::int32_t acts = 1;
  OccurrenceId first_occurrence;
  Duration duration;
  std::vector<TransferId> relays;  // transfers that send on what this one brought
};

// Something that gets its place in the order when its time comes. Transfers go before the runs
// that start at the same time.
struct Completion {
  Time time;
  enum class Kind : std::uint8_t { kTransfer, kSequence } kind = Kind::kTransfer;
  TransferId transfer;     // none: a sequence
  std::int32_t stage = 0;  // of a sequence
  std::int32_t act = 0;    // of a transfer
  auto key() const { return std::tuple(time, kind, transfer, stage, act); }
  bool operator>(const Completion& other) const { return key() > other.key(); }
};

class Scheduler {
 public:
  Scheduler(const Partition& partition, const std::vector<StageProgram>& programs,
            const ActorDurations& durations, const IssueOptions& options)
      : partition_(partition),
        graph_(partition.graph()),
        programs_(programs),
        options_(options),
        transfer_of_(graph_.ops.size()),
        stages_(programs.size()),
        order_(programs.size()) {
    find_transfers(durations);
    if (options.transfer_order == TransferOrder::kLate) find_readers();
  }

  IssueOrder run() {
    for (const TransferId transfer : transfers_.keys())
      if (sends_state(transfers_[transfer].send)) push_all_acts(transfer, Time());
    for (std::size_t stage = 0; stage < stages_.size(); ++stage)
      push_next(static_cast<std::int32_t>(stage));
    while (!events_.empty()) {
      const Completion event = events_.top();
      events_.pop();
      if (event.kind == Completion::Kind::kTransfer)
        issue_transfer(event);
      else
        issue_sequence(event);
    }
    require_complete();
    return std::move(order_);
  }

 private:
  struct StageState {
    std::size_t next = 0;   // entry
    bool is_known = false;  // the next entry has its event
    Time free;
    LaunchGroupId next_group{0};
    // The transfer this stage issued last, if nothing came after it.
    TransferId last_transfer;
  };

  void find_transfers(const ActorDurations& durations) {
    OccurrenceId next_occurrence(0);
    for (const StagedOpId index : graph_.ops.keys()) {
      const StagedOp& op = graph_.ops[index];
      if (!partition_.is_transfer(index) || op.communication->side != Side::kSend) continue;
      Transfer transfer;
      transfer.send = index;
      transfer.receive = op.communication->peer;
      transfer.from_stage = op.stage;
      transfer.to_stage = op.communication->to_stage;
      transfer.acts =
          op.rate == Rate::kPerStep ? 1 : static_cast<std::int32_t>(graph_.micro_batches);
      transfer.first_occurrence = next_occurrence;
      transfer.duration = durations[partition_.place(index).instance].front();
      next_occurrence = next_occurrence.plus(transfer.acts);
      const TransferId number = transfers_.next_key();
      transfer_of_[transfer.send] = transfer_of_[transfer.receive] = number;
      const StagedTensor& sent = graph_.tensors[op.in.front()];
      if (!sent.is_state && partition_.is_receive(sent.producer))
        transfers_[transfer_of_[sent.producer]].relays.push_back(number);
      transfers_.push_back(std::move(transfer));
    }
    arrival_.resize(next_occurrence.index());
  }

  // The first entry of the receiving stage that reads an act of a transfer; none of what is sent on
  // as well, which waits for nobody.
  void find_readers() {
    reader_.resize(arrival_.size());
    held_.resize(programs_.size());
    for (std::size_t stage = 0; stage < programs_.size(); ++stage) {
      const auto& entries = programs_[stage].entries;
      for (std::size_t e = 0; e < entries.size(); ++e)
        for (const StagedOpId receive :
             sequence(static_cast<std::int32_t>(stage), entries[e]).receives) {
          const Transfer& transfer = transfers_[transfer_of_[receive]];
          const std::int32_t act = transfer.acts == 1 ? 0 : entries[e].act;
          std::optional<std::size_t>& reader = reader_[transfer.first_occurrence.plus(act)];
          if (!reader && transfer.relays.empty()) reader = e;
        }
    }
  }

  bool sends_state(StagedOpId send) const {
    return graph_.tensors[graph_.ops[send].in.front()].is_state;
  }

  void push_transfer(TransferId transfer, std::int32_t act, Time time) {
    const Completion event{time, Completion::Kind::kTransfer, transfer, 0, act};
    if (is_held(event))
      at(held_, transfers_[transfer].to_stage).push_back(event);
    else
      events_.push(event);
  }

  // The sequence before the reader's has not started.
  bool is_held(const Completion& event) const {
    if (options_.transfer_order == TransferOrder::kEarly) return false;
    const Transfer& transfer = transfers_[event.transfer];
    const auto& reader = reader_[transfer.first_occurrence.plus(event.act)];
    return reader && at(stages_, transfer.to_stage).next < *reader;
  }

  void release_held(std::int32_t stage, Time time) {
    if (options_.transfer_order == TransferOrder::kEarly) return;
    std::vector<Completion>& held = at(held_, stage);
    const auto still = std::stable_partition(
        held.begin(), held.end(), [&](const Completion& event) { return is_held(event); });
    for (auto event = still; event != held.end(); ++event) {
      event->time = std::max(event->time, time);
      events_.push(*event);
    }
    held.erase(still, held.end());
  }
  void push_all_acts(TransferId transfer, Time time) {
    for (std::int32_t act = 0; act < transfers_[transfer].acts; ++act)
      push_transfer(transfer, act, time);
  }
  // A per-micro-batch transfer of something made once goes out as often as it is read.
  void push_send(TransferId transfer, std::int32_t act, bool made_per_step, Time time) {
    if (transfers_[transfer].acts == 1)
      push_transfer(transfer, 0, time);
    else if (made_per_step)
      push_all_acts(transfer, time);
    else
      push_transfer(transfer, act, time);
  }

  const RunSequence& sequence(std::int32_t stage, const StageProgram::Entry& entry) const {
    return at(programs_, stage).sequences[entry.sequence];
  }

  // The next entry of a stage gets its time once everything it receives has one.
  void push_next(std::int32_t stage) {
    StageState& state = at(stages_, stage);
    const auto& entries = at(programs_, stage).entries;
    if (state.is_known || state.next == entries.size()) return;
    Time start = state.free;
    for (const StagedOpId receive : sequence(stage, entries[state.next]).receives) {
      const Transfer& transfer = transfers_[transfer_of_[receive]];
      const std::int32_t act = transfer.acts == 1 ? 0 : entries[state.next].act;
      const std::optional<Time>& arrival = arrival_[transfer.first_occurrence.plus(act)];
      if (!arrival) return;
      start = std::max(start, *arrival);
    }
    state.is_known = true;
    events_.push({start, Completion::Kind::kSequence, TransferId::none, stage, 0});
  }

  void issue_sequence(const Completion& event) {
    StageState& state = at(stages_, event.stage);
    const StageProgram::Entry entry = at(programs_, event.stage).entries[state.next];
    const RunSequence& runs = sequence(event.stage, entry);
    for (const PlannedRun& run : runs.runs) {
      const bool per_step = partition_.instances()[run.instance].rate == Rate::kPerStep;
      at(order_, event.stage)
          .push_back({run.instance,
                      run.first_actor,
                      run.num_actors,
                      per_step ? 0 : entry.act,
                      {},
                      event.time + run.begin,
                      event.time + run.end});
    }
    if (!runs.runs.empty()) state.last_transfer = TransferId::none;
    for (const RunSequence::Sent& sent : runs.sends) {
      const StagedOpId maker = graph_.tensors[graph_.ops[sent.send].in.front()].producer;
      push_send(transfer_of_[sent.send], entry.act, graph_.ops[maker].rate == Rate::kPerStep,
                event.time + sent.at);
    }
    state.free = event.time + runs.duration;
    state.is_known = false;
    ++state.next;
    release_held(event.stage, event.time);
    push_next(event.stage);
  }

  void issue_transfer(const Completion& event) {
    const Transfer& transfer = transfers_[event.transfer];
    Time& out = queue_free(transfer.send);
    Time& in = queue_free(transfer.receive);
    const Time start = std::max({event.time, out, in});
    const Time end = start + transfer.duration;
    out = in = end;
    const bool grouped = options_.launch_groups && joins_last(event.transfer, transfer);
    issue_half(transfer.send, event, start, end, grouped);
    issue_half(transfer.receive, event, start, end, grouped);
    arrival_[transfer.first_occurrence.plus(event.act)] = end;
    for (const TransferId relay : transfer.relays)
      push_send(relay, event.act, transfer.acts == 1, end);
    push_next(transfer.to_stage);
  }

  Time& queue_free(StagedOpId half) {
    const StagedOp& op = graph_.ops[half];
    return at(stages_free_, op.stage)[op.queue];
  }

  // The transfer before it was the opposite one, was the last thing both stages issued, and neither
  // needs the other.
  bool joins_last(TransferId index, const Transfer& transfer) const {
    const TransferId before = at(stages_, transfer.from_stage).last_transfer;
    if (!before.is_valid() || before != at(stages_, transfer.to_stage).last_transfer) return false;
    const Transfer& other = transfers_[before];
    const bool relayed =
        std::find(other.relays.begin(), other.relays.end(), index) != other.relays.end();
    return other.from_stage == transfer.to_stage && other.to_stage == transfer.from_stage &&
           !relayed;
  }

  void issue_half(StagedOpId half, const Completion& event, Time start, Time end, bool grouped) {
    const ActorPlace place = partition_.place(half);
    const std::int32_t stage = graph_.ops[half].stage;
    StageState& state = at(stages_, stage);
    std::vector<OrderedRun>& order = at(order_, stage);
    LaunchGroupId group;
    if (grouped) {
      group = order.back().launch_group = state.next_group;
      ++state.next_group;
    }
    order.push_back({place.instance, place.actor, 1, event.act, group, start, end});
    // Two make a group: a third would wait for both.
    state.last_transfer = grouped ? TransferId::none : event.transfer;
  }

  void require_complete() const {
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      const auto& entries = programs_[stage].entries;
      if (stages_[stage].next == entries.size()) continue;
      const auto& entry = entries[stages_[stage].next];
      const auto& receives = programs_[stage].sequences[entry.sequence].receives;
      const auto missing = std::find_if(receives.begin(), receives.end(), [&](StagedOpId op) {
        const Transfer& transfer = transfers_[transfer_of_[op]];
        return !arrival_[transfer.first_occurrence.plus(transfer.acts == 1 ? 0 : entry.act)];
      });
      fail(ErrorCode::kInfeasible,
           "the schedule cannot run: stage {} waits before micro-batch {} for '{}', which waits "
           "for stage {} in turn",
           stage, entry.act, missing == receives.end() ? "?" : graph_.ops[*missing].name, stage);
    }
  }

  const Partition& partition_;
  const StagedGraph& graph_;
  const std::vector<StageProgram>& programs_;
  const IssueOptions& options_;
  Table<TransferId, Transfer> transfers_;
  Table<StagedOpId, TransferId> transfer_of_;
  Table<OccurrenceId, std::optional<Time>> arrival_;
  // With late transfers: the entry that reads an occurrence first; by stage, those that wait.
  Table<OccurrenceId, std::optional<std::size_t>> reader_;
  std::vector<std::vector<Completion>> held_;
  std::vector<StageState> stages_;
  using QueuesFree = FixedTable<QueueRole, Time, kNumQueueRoles>;
  std::vector<QueuesFree> stages_free_ = std::vector<QueuesFree>(stages_.size());
  std::priority_queue<Completion, std::vector<Completion>, std::greater<>> events_;
  IssueOrder order_;
};

}  // namespace

IssueOrder make_issue_order(const Partition& partition, const std::vector<StageProgram>& programs,
                            const ActorDurations& durations, const IssueOptions& options) {
  return Scheduler(partition, programs, durations, options).run();
}

}  // namespace sextant
