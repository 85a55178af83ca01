// Recording: three steps of every representative's runtime, the third written down.
#include "actor/tape.h"

#include "actor/device.h"
#include "actor/runtime.h"
#include "core/check.h"
#include "core/communication_volume.h"
#include "core/parallel.h"

#include <algorithm>
#include <array>
#include <map>

namespace sextant {
namespace {

constexpr std::int64_t kRecordedStep = 2;

std::size_t at(std::int32_t index) { return static_cast<std::size_t>(index); }

// Notes the waits of one step; everything it launches is done at once.
class RecordingDevice final : public Device {
 public:
  explicit RecordingDevice(const ProgramTables& tables) : tables_(tables) {
    spec_.name = "recording";
    waits_.reserve(2 * tables.runs.size());
    waits_end_.resize(tables.runs.size());
  }

  const DeviceSpec& spec() const override { return spec_; }
  void prepare(const PhysicalGraph&, Rank) override {}
  void launch(std::span<const Launch> group, std::span<Fence> done) override {
    for (std::size_t i = 0; i < group.size(); ++i) {
      const std::int32_t run = group[i].run.value;
      done[i] = {tables_.runs[at(run)].queue, tables_.sequence_of(run, group[i].step)};
      if (group[i].step != kRecordedStep) continue;
      waits_.insert(waits_.end(), group[i].waits.begin(), group[i].waits.end());
      waits_end_[at(run)] = waits_.size();
    }
  }
  FenceState state(Fence) override { return FenceState::kDone; }
  void wait(Fence) override {}
  std::span<std::byte> host_view(InstanceId, std::int32_t, std::int32_t) override { return {}; }
  std::span<const Stamp> stamps() override { return {}; }

  // Of the recorded step; runs are launched in the order of their numbers.
  std::span<const Fence> waits_of(std::int32_t run) const {
    const std::size_t begin = run == 0 ? 0 : waits_end_[at(run - 1)];
    return std::span(waits_).subspan(begin, waits_end_[at(run)] - begin);
  }

 private:
  const ProgramTables& tables_;
  DeviceSpec spec_;
  std::vector<Fence> waits_;
  std::vector<std::size_t> waits_end_;
};

class Recorder {
 public:
  Recorder(const PhysicalGraph& graph, const GroupMembers& members, const RankClasses& classes,
           const DryRun& dry, GraphTables& tables)
      : graph_(graph), members_(members), classes_(classes), dry_(dry) {
    for (const Rank rank : dry.ranks) {
      tables_.push_back(tables.of(graph.ranks[rank.index()].program));
      entry_of_.emplace_back(tables_.back()->runs.size(), -1);
      number_positions(*tables_.back());
    }
  }

  Tape run() {
    run_three_steps();
    tape_.ranks = dry_.ranks;
    for (const Issue& issue : dry_.order) add_entries(issue);
    for (TapeEntry& entry : tape_.entries) add_waits(entry);
    add_meetings();
    return std::move(tape_);
  }

 private:
  // Which run has a position on a queue.
  void number_positions(const ProgramTables& tables) {
    run_at_.emplace_back();
    for (std::size_t r = 0; r < tables.runs.size(); ++r) {
      run_at_.back()[static_cast<std::size_t>(tables.runs[r].queue)].push_back(
          static_cast<std::int32_t>(r));
    }
  }

  std::int32_t place_of(Rank rank) const { return classes_.class_of[rank.index()]; }

  // What a rank waits for follows from its program alone (invariants 3 and 5), so one rank per
  // program is run, and programs do not meet.
  void run_three_steps() {
    std::map<ProgramId, std::size_t> device_of;
    std::vector<std::size_t> first_place;
    for (std::size_t place = 0; place < dry_.ranks.size(); ++place) {
      const ProgramId program = graph_.ranks[dry_.ranks[place].index()].program;
      const auto [entry, is_new] = device_of.emplace(program, first_place.size());
      if (is_new) first_place.push_back(place);
      device_of_.push_back(entry->second);
    }
    devices_.reserve(first_place.size());
    for (const std::size_t place : first_place) devices_.emplace_back(*tables_[place]);
    for_each_in_parallel(first_place.size(), [&](std::size_t device) {
      const std::size_t place = first_place[device];
      IdleHostActors host;
      RankRuntime(graph_, dry_.ranks[place], tables_[place], devices_[device], host)
          .run(kRecordedStep + 1);
    });
  }

  void add_entries(const Issue& issue) {
    const std::int32_t place = place_of(issue.rank);
    const auto first = static_cast<std::int32_t>(tape_.entries.size());
    std::array<bool, kNumQueueRoles> used{};
    for (std::int32_t i = 0; i < issue.num_runs; ++i) {
      const RunEntry& run = tables_[at(place)]->runs[at(issue.first.value + i)];
      TapeEntry entry;
      entry.rank = issue.rank;
      entry.place = place;
      entry.run = RunId(issue.first.value + i);
      entry.queue = run.queue;
      entry.meeting = dry_.meeting_of_run[at(place)][at(entry.run.value)];
      entry.launch_group = issue.num_runs > 1 ? first : -1;
      bool& seen = used[static_cast<std::size_t>(run.queue)];
      entry.opens_launch = !std::exchange(seen, true);
      entry_of_[at(place)][at(entry.run.value)] = first + i;
      tape_.entries.push_back(entry);
    }
  }

  void add_waits(TapeEntry& entry) {
    const ProgramTables& tables = *tables_[at(entry.place)];
    entry.first_wait = static_cast<std::int32_t>(tape_.waits.size());
    for (const Fence fence : devices_[device_of_[at(entry.place)]].waits_of(entry.run.value)) {
      const auto queue = static_cast<std::size_t>(fence.queue);
      const std::int64_t per_step = tables.runs_per_step[queue];
      const std::int64_t step = fence.sequence / per_step;
      const std::int64_t lag = kRecordedStep - step;
      // No frame has more registers than contents per step, so a credit is at most one step old.
      SEXTANT_INVARIANT(lag == 0 || lag == 1, "{} waits {} steps back",
                        run_to_text(graph_, graph_.ranks[entry.rank.index()].program, entry.run),
                        lag);
      const std::int32_t run =
          run_at_[at(entry.place)][queue][static_cast<std::size_t>(fence.sequence % per_step)];
      tape_.waits.push_back({entry_of_[at(entry.place)][at(run)], static_cast<std::int32_t>(lag)});
      ++entry.num_waits;
    }
  }

  void add_meetings() {
    std::vector<std::vector<std::int32_t>> arriving(at(dry_.num_meetings));
    for (std::size_t e = 0; e < tape_.entries.size(); ++e) {
      const std::int32_t meeting = tape_.entries[e].meeting;
      if (meeting >= 0) arriving[at(meeting)].push_back(static_cast<std::int32_t>(e));
    }
    for (std::size_t m = 0; m < arriving.size(); ++m) {
      TapeMeeting meeting;
      meeting.first_call = static_cast<std::int32_t>(tape_.calls.size());
      meeting.first_entry = static_cast<std::int32_t>(tape_.meeting_entries.size());
      meeting.num_entries = static_cast<std::int32_t>(arriving[m].size());
      for (const std::int32_t e : arriving[m])
        add_call(static_cast<std::int32_t>(m), e, arriving[m]);
      meeting.num_calls = static_cast<std::int32_t>(tape_.calls.size()) - meeting.first_call;
      tape_.meeting_entries.insert(tape_.meeting_entries.end(), arriving[m].begin(),
                                   arriving[m].end());
      tape_.meetings.push_back(meeting);
    }
  }

  const Actor& actor_of(const TapeEntry& entry) const {
    const RankProgram& program = graph_.program_of(entry.rank);
    const Run& run = program.order[entry.run.index()];
    const Block& block = graph_.block_of(program.instances[run.instance.index()]);
    return block.actors[at(run.first_actor)];
  }

  // The call of this entry's own group: shared with the entries of the same group.
  void add_call(std::int32_t meeting, std::int32_t e, const std::vector<std::int32_t>& arriving) {
    TapeEntry& entry = tape_.entries[at(e)];
    const Actor& actor = actor_of(entry);
    const GroupId group = graph_.ranks[entry.rank.index()].groups[at(actor.communication->group)];
    const std::span<const GroupMember> members = members_.of(group);
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (members[i].rank == entry.rank) entry.member = static_cast<std::int32_t>(i);
    }
    for (const std::int32_t other : arriving) {
      if (other == e) break;
      if (group_of_entry_[other] != group) continue;
      entry.call = tape_.entries[at(other)].call;
      group_of_entry_[e] = group;
      return;
    }
    group_of_entry_[e] = group;
    entry.call = static_cast<std::int32_t>(tape_.calls.size());
    TapeCall call;
    call.meeting = meeting;
    call.cost = cost_of(entry, actor, group);
    call.first_member = static_cast<std::int32_t>(tape_.member_entries.size());
    call.num_members = static_cast<std::int32_t>(members.size());
    for (const GroupMember& member : members) {
      tape_.member_entries.push_back(entry_of_member(member, arriving));
    }
    tape_.calls.push_back(call);
  }

  // The arriving entry of the member's representative, for the role the member has.
  std::int32_t entry_of_member(const GroupMember& member,
                               const std::vector<std::int32_t>& arriving) const {
    for (const std::int32_t e : arriving) {
      const TapeEntry& entry = tape_.entries[at(e)];
      if (entry.place == place_of(member.rank) &&
          actor_of(entry).communication->group == member.role) {
        return e;
      }
    }
    fail(ErrorCode::kInternal, "rank {} does not arrive at a communication of its group",
         member.rank.value);
  }

  // Actors have one cost, unless they start together with others.
  std::int32_t cost_of(const TapeEntry& entry, const Actor& actor, GroupId group) {
    const auto next = static_cast<std::int32_t>(tape_.costs.size());
    if (entry.launch_group < 0) {
      const auto [found, is_new] = cost_of_.emplace(std::pair(&actor, group), next);
      if (!is_new) return found->second;
    }
    tape_.costs.push_back(launched_cost(graph_, graph_.ranks[entry.rank.index()].program, entry.run,
                                        graph_.groups[group.index()].ranks));
    return next;
  }

  const PhysicalGraph& graph_;
  const GroupMembers& members_;
  const RankClasses& classes_;
  const DryRun& dry_;
  std::vector<std::shared_ptr<const ProgramTables>> tables_;  // by place
  std::vector<RecordingDevice> devices_;                      // one per program
  std::vector<std::size_t> device_of_;                        // by place
  std::vector<std::vector<std::int32_t>> entry_of_;           // by place, run
  std::vector<std::array<std::vector<std::int32_t>, kNumQueueRoles>> run_at_;
  std::map<std::int32_t, GroupId> group_of_entry_;
  std::map<std::pair<const Actor*, GroupId>, std::int32_t> cost_of_;
  Tape tape_;
};

}  // namespace

Tape record(const PhysicalGraph& graph, const GroupMembers& members, const RankClasses& classes,
            const DryRun& dry, GraphTables& tables) {
  return Recorder(graph, members, classes, dry, tables).run();
}

Tape record(const PhysicalGraph& graph, const GroupMembers& members, const RankClasses& classes) {
  GraphTables tables(graph);
  const DryRun dry = dry_run(graph, members, classes, tables);
  return record(graph, members, classes, dry, tables);
}

Tape record(const PhysicalGraph& graph, RankScope scope) {
  const GroupMembers members(graph);
  return record(graph, members,
                scope == RankScope::kAllRanks ? all_ranks(graph) : rank_classes(graph, members));
}

Tape record(const PhysicalGraph& graph) { return record(graph, RankScope::kOnePerClass); }

}  // namespace sextant
