// Recording: the waits of programs, put together in the order in which the dry run ran the ranks.
#include "actor/tapes/tape.h"

#include "actor/protocol/device.h"
#include "actor/protocol/dry_run.h"
#include "core/base/at.h"
#include "core/base/check.h"
#include "core/costs/communication_volume.h"
#include "core/graphs/launch_bucket.h"

#include <algorithm>
#include <array>
#include <optional>
#include <unordered_map>
#include <utility>

namespace sextant {
namespace {

// What the tape says of a run, whichever rank it is of.
struct RunFacts {
  const Actor* actor = nullptr;     // its first
  TapePieceId piece;                // of computation
  std::int32_t communication = -1;  // its number among the communicating actors of the program
  GroupRole role = -1;              // of communication
  QueueRole queue = QueueRole::kCompute;
  bool optimizer = false;
  bool in_bucket = false;  // others of its launch group share its cost
};

// By run, per program.
class ProgramFacts {
 public:
  ProgramFacts(const PhysicalGraph& graph, Table<TapePieceId, TapePiece>& pieces)
      : graph_(graph), pieces_(pieces), pieces_of_block_(graph.blocks.size()) {
    facts_.resize(graph.programs.size());
  }

  const std::vector<RunFacts>& of(ProgramId id) {
    std::vector<RunFacts>& facts = facts_[id.index()];
    const RankProgram& program = graph_.programs[id];
    if (facts.size() == program.order.size()) return facts;
    facts.reserve(program.order.size());
    std::unordered_map<const Actor*, std::int32_t> communications;
    for (const Run& run : program.order) {
      const BlockId block = program.instances[run.instance].block;
      RunFacts& added = facts.emplace_back();
      added.actor = &graph_.blocks[block].actors[at(run.first_actor)];
      added.queue = added.actor->queue;
      added.optimizer = added.actor->phase == Phase::kOptimizer;
      if (!added.actor->communication) {
        added.piece = piece_of(block, run);
        continue;
      }
      added.role = added.actor->communication->group;
      added.communication =
          communications.emplace(added.actor, static_cast<std::int32_t>(communications.size()))
              .first->second;
    }
    for (std::size_t r = 0; r < facts.size(); ++r)
      facts[r].in_bucket = is_in_bucket(program, facts, r);
    return facts;
  }

 private:
  static bool is_in_bucket(const RankProgram& program, const std::vector<RunFacts>& facts,
                           std::size_t run) {
    const LaunchGroupId group = program.order[RunId(run)].launch_group;
    if (!group.is_valid()) return false;
    for (std::size_t r = run; r-- > 0 && program.order[RunId(r)].launch_group == group;)
      if (share_bucket(*facts[r].actor, *facts[run].actor)) return true;
    for (std::size_t r = run + 1; r < facts.size() && program.order[RunId(r)].launch_group == group;
         ++r)
      if (share_bucket(*facts[r].actor, *facts[run].actor)) return true;
    return false;
  }

  TapePieceId piece_of(BlockId block, const Run& run) {
    const std::size_t actors = graph_.blocks[block].actors.size();
    std::vector<TapePieceId>& pieces = pieces_of_block_[block];
    if (pieces.empty()) pieces.resize(actors * (actors + 1));
    TapePieceId& piece = pieces[at(run.first_actor) * (actors + 1) + at(run.num_actors)];
    if (!piece.is_valid()) piece = pieces_.add({block, run.first_actor, run.num_actors});
    return piece;
  }

  const PhysicalGraph& graph_;
  Table<TapePieceId, TapePiece>& pieces_;
  // By first actor and number of actors.
  Table<BlockId, std::vector<TapePieceId>> pieces_of_block_;
  std::vector<std::vector<RunFacts>> facts_;
};

// More than 200 lines: entries, then waits, then meetings fill one tape, and each reads what the
// one before it has kept by place and run.
class Recorder {
 public:
  Recorder(const ProvenGraph& proven, const RankClasses& classes)
      : graph_(proven.graph()),
        members_(proven.members()),
        classes_(classes),
        dry_run_(proven.dry_run_of(classes)),
        dry_(*dry_run_),
        lists_of_group_(graph_.groups.size()) {
    ProgramFacts facts(graph_, tape_.pieces);
    std::size_t entries = 0;
    for (const Rank rank : dry_.ranks) {
      const ProgramId program = graph_.ranks[rank].program;
      Place place;
      place.tables = proven.tables().of(program);
      place.waits = &proven.tables().waits_of(program);
      place.facts = &facts.of(program);
      place.entry_of.assign(place.tables->runs.size(), -1);
      place.cost_of.resize(place.tables->runs.size());
      entries += place.tables->runs.size();
      places_.push_back(std::move(place));
    }
    tape_.entries.reserve(entries);
    tape_.ranks = dry_.ranks;
    for (const Issue& issue : dry_.order) add_entries(issue);
    for (TapeEntry& entry : tape_.entries) add_waits(entry);
    add_meetings();
  }

  Tape take() { return std::move(tape_); }

 private:
  // Who arrives, in which role.
  struct Seat {
    std::int32_t place = 0;
    GroupRole role = 0;
    bool operator==(const Seat&) const = default;
  };
  // Of the meeting at hand.
  struct Arriving {
    std::int32_t entry;
    Seat seat;
    GroupId group;
    TapeCallId call;
  };
  // The last list of a group in Tape::members, and who arrived then.
  struct ListOfMembers {
    std::int32_t first_member = -1;
    std::ptrdiff_t first_seat = 0;
    std::size_t num_arriving = 0;
  };
  struct CostInGroup {
    CollectiveCost alone;  // without others of a bucket
    TapeCostId number;
  };
  // A communicating actor: its sizes for any group, and its costs by group.
  struct OfActor {
    std::optional<CollectiveSizes> sizes;
    std::unordered_map<std::int32_t, CostInGroup> costs;
  };
  struct Place {
    std::shared_ptr<const ProgramTables> tables;
    const ProgramWaits* waits = nullptr;
    const std::vector<RunFacts>* facts = nullptr;
    std::vector<std::int32_t> entry_of;  // by run
    std::vector<TapeCostId> cost_of;     // by number of the communicating actor
  };

  std::int32_t place_of(Rank rank) const { return classes_.class_of[rank.index()]; }

  void add_entries(const Issue& issue) {
    const std::int32_t number = place_of(issue.rank);
    Place& place = places_[at(number)];
    const auto first = static_cast<std::int32_t>(tape_.entries.size());
    FixedTable<QueueRole, bool, kNumQueueRoles> used;
    for (std::int32_t i = 0; i < issue.num_runs; ++i) {
      const std::int32_t run = issue.first.value + i;
      const RunFacts& facts = (*place.facts)[at(run)];
      TapeEntry entry;
      entry.rank = issue.rank;
      entry.place = number;
      entry.run = RunId(run);
      entry.queue = facts.queue;
      entry.meeting = dry_.meeting_of_run[at(number)][RunId(run)];
      entry.launch_group = issue.num_runs > 1 ? first : -1;
      entry.piece = facts.piece;
      bool& seen = used[entry.queue];
      entry.opens_launch = !std::exchange(seen, true);
      entry.optimizer = facts.optimizer;
      place.entry_of[at(run)] = first + i;
      tape_.entries.push_back(entry);
    }
  }

  void add_waits(TapeEntry& entry) {
    const Place& place = places_[at(entry.place)];
    const std::span<const ProgramWait> waits = place.waits->of(entry.run.value);
    entry.first_wait = static_cast<std::int32_t>(tape_.waits.size());
    entry.num_waits = static_cast<std::uint8_t>(waits.size());
    for (const ProgramWait& wait : waits)
      tape_.waits.push_back({place.entry_of[at(wait.run)], wait.lag});
  }

  void add_meetings() {
    tape_.meetings.resize(dry_.num_meetings);
    for (const TapeEntry& entry : tape_.entries)
      if (entry.meeting.is_valid()) ++tape_.meetings[entry.meeting].num_entries;
    std::int32_t next = 0;
    for (TapeMeeting& meeting : tape_.meetings) {
      meeting.first_entry = next;
      next += std::exchange(meeting.num_entries, 0);
    }
    tape_.meeting_entries.resize(at(next));
    for (std::size_t e = 0; e < tape_.entries.size(); ++e) {
      if (!tape_.entries[e].meeting.is_valid()) continue;
      TapeMeeting& meeting = tape_.meetings[tape_.entries[e].meeting];
      tape_.meeting_entries[at(meeting.first_entry + meeting.num_entries++)] =
          static_cast<std::int32_t>(e);
    }
    for (const MeetingId meeting : tape_.meetings.keys()) add_calls(meeting);
  }

  // The calls of the groups of those who arrive, each group's once.
  void add_calls(MeetingId m) {
    TapeMeeting& meeting = tape_.meetings[m];
    meeting.first_call = tape_.calls.next_key();
    arriving_.clear();
    for (std::int32_t i = meeting.first_entry; i < meeting.first_entry + meeting.num_entries; ++i) {
      const std::int32_t e = tape_.meeting_entries[at(i)];
      const TapeEntry& entry = tape_.entries[at(e)];
      const GroupRole role = facts_of(entry).role;
      arriving_.push_back({e, {entry.place, role}, graph_.ranks[entry.rank].groups[at(role)], {}});
    }
    for (Arriving& one : arriving_) {
      TapeEntry& entry = tape_.entries[at(one.entry)];
      entry.member = members_.positions_of(entry.rank)[at(one.seat.role)];
      // Few arrive, unless all are of one group: then the first is found at once.
      const auto same =
          std::find_if(arriving_.begin(), arriving_.end(),
                       [&](const Arriving& other) { return other.group == one.group; });
      one.call = same->call.is_valid() ? same->call : add_call(m, entry, one.group);
      entry.call = one.call;
    }
    meeting.num_calls = tape_.calls.next_key().value - meeting.first_call.value;
  }

  const RunFacts& facts_of(const TapeEntry& entry) const {
    return (*places_[at(entry.place)].facts)[entry.run.index()];
  }

  TapeCallId add_call(MeetingId meeting, const TapeEntry& entry, GroupId group) {
    TapeCall call;
    call.meeting = meeting;
    call.cost = cost_of(entry, group);
    call.first_member = list_of_members(group);
    call.num_members = static_cast<std::int32_t>(members_.of(group).size());
    return tape_.calls.add(call);
  }

  // The same arrive in the same order at most meetings of a group.
  std::int32_t list_of_members(GroupId group) {
    ListOfMembers& list = lists_of_group_[group.index()];
    const bool is_known =
        list.first_member >= 0 && list.num_arriving == arriving_.size() &&
        std::equal(arriving_.begin(), arriving_.end(), seats_.begin() + list.first_seat,
                   [](const Arriving& one, const Seat& seat) { return one.seat == seat; });
    if (is_known) return list.first_member;
    list.first_member = static_cast<std::int32_t>(tape_.members.size());
    list.first_seat = static_cast<std::ptrdiff_t>(seats_.size());
    list.num_arriving = arriving_.size();
    for (const Arriving& one : arriving_) seats_.push_back(one.seat);
    // Where every rank is run, members arrive mostly in the order of the group.
    std::size_t guess = 0;
    for (const GroupMember& member : members_.of(group)) {
      find_member({place_of(member.rank), member.role}, guess);
      tape_.members.push_back(static_cast<std::int32_t>(guess));
    }
    return list.first_member;
  }

  void find_member(const Seat& seat, std::size_t& guess) const {
    for (std::size_t tried = 0; tried < arriving_.size(); ++tried) {
      if (arriving_[guess].seat == seat) return;
      if (++guess == arriving_.size()) guess = 0;
    }
    fail(ErrorCode::kInternal, "rank {} does not arrive at a communication of its group",
         tape_.ranks[at(seat.place)].value);
  }

  // An actor has one cost in a group, unless it shares a bucket with others.
  TapeCostId cost_of(const TapeEntry& entry, GroupId group) {
    const RunFacts& facts = facts_of(entry);
    if (facts.in_bucket) return tape_.costs.add(bucket_cost(entry, group));
    TapeCostId& known = places_[at(entry.place)].cost_of[at(facts.communication)];
    if (!known.is_valid()) {
      CostInGroup& cost = cost_in_group(*facts.actor, group);
      if (!cost.number.is_valid()) cost.number = tape_.costs.add(cost.alone);
      known = cost.number;
    }
    return known;
  }

  // The first of a bucket carries the sizes of all.
  CollectiveCost bucket_cost(const TapeEntry& entry, GroupId group) {
    const std::span<const Run> order = graph_.program_of(entry.rank).order;
    const std::vector<RunFacts>& facts = *places_[at(entry.place)].facts;
    const std::size_t run = entry.run.index();
    const auto is_of_bucket = [&](std::size_t other) {
      return order[other].launch_group == order[run].launch_group &&
             share_bucket(*facts[other].actor, *facts[run].actor);
    };
    CollectiveCost cost = cost_in_group(*facts[run].actor, group).alone;
    for (std::size_t r = run; r-- > 0 && order[r].launch_group == order[run].launch_group;)
      if (is_of_bucket(r)) {
        cost.global_bytes = cost.largest_volume = Bytes(0);
        return cost;
      }
    for (std::size_t r = run + 1;
         r < order.size() && order[r].launch_group == order[run].launch_group; ++r) {
      if (!is_of_bucket(r)) continue;
      const CollectiveCost& more = cost_in_group(*facts[r].actor, group).alone;
      cost.global_bytes += more.global_bytes;
      cost.largest_volume += more.largest_volume;
    }
    return cost;
  }

  CostInGroup& cost_in_group(const Actor& actor, GroupId group) {
    OfActor& of_actor = of_actor_[&actor];
    if (!of_actor.sizes) of_actor.sizes.emplace(graph_, *actor.communication);
    const auto [found, is_new] = of_actor.costs.try_emplace(group.value);
    if (is_new) found->second.alone = of_actor.sizes->of(graph_.groups[group].ranks);
    return found->second;
  }

  const PhysicalGraph& graph_;
  const GroupMembers& members_;
  const RankClasses& classes_;
  std::shared_ptr<const DryRun> dry_run_;
  const DryRun& dry_;
  std::vector<Place> places_;
  std::vector<Arriving> arriving_;
  std::vector<ListOfMembers> lists_of_group_;
  std::vector<Seat> seats_;
  std::unordered_map<const Actor*, OfActor> of_actor_;
  Tape tape_;
};

}  // namespace

Tape record(const ProvenGraph& proven, const RankClasses& classes) {
  return Recorder(proven, classes).take();
}

}  // namespace sextant
