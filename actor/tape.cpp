// Recording: the waits of programs, put together in the order in which the dry run ran the ranks.
#include "actor/tape.h"

#include "actor/device.h"
#include "core/check.h"
#include "core/communication_volume.h"

#include <algorithm>
#include <array>
#include <optional>
#include <unordered_map>
#include <utility>

namespace sextant {
namespace {

std::size_t at(std::int32_t index) { return static_cast<std::size_t>(index); }

// What the tape says of a run, whichever rank it is of.
struct RunFacts {
  const Actor* actor = nullptr;     // its first
  std::int32_t piece = -1;          // of computation
  std::int32_t communication = -1;  // its number among the communicating actors of the program
  bool in_bucket = false;           // others of its launch group share its cost
};

// By run, per program.
class ProgramFacts {
 public:
  ProgramFacts(const PhysicalGraph& graph, std::vector<TapePiece>& pieces)
      : graph_(graph), pieces_(pieces), pieces_of_block_(graph.blocks.size()) {
    facts_.resize(graph.programs.size());
  }

  const std::vector<RunFacts>& of(ProgramId id) {
    std::vector<RunFacts>& facts = facts_[id.index()];
    const RankProgram& program = graph_.programs[id.index()];
    if (facts.size() == program.order.size()) return facts;
    facts.reserve(program.order.size());
    std::unordered_map<const Actor*, std::int32_t> communications;
    for (const Run& run : program.order) {
      const BlockId block = program.instances[run.instance.index()].block;
      RunFacts& added = facts.emplace_back();
      added.actor = &graph_.blocks[block.index()].actors[at(run.first_actor)];
      if (!added.actor->communication)
        added.piece = piece_of(block, run);
      else
        added.communication =
            communications.emplace(added.actor, static_cast<std::int32_t>(communications.size()))
                .first->second;
    }
    for (std::size_t r = 0; r < facts.size(); ++r)
      facts[r].in_bucket = shares_bucket(program, facts, r);
    return facts;
  }

 private:
  // Of a launch group, with the same queue, group and primitive (core/communication_volume.h).
  static bool shares_bucket(const RankProgram& program, const std::vector<RunFacts>& facts,
                            std::size_t run) {
    const std::int32_t group = program.order[run].launch_group;
    if (group < 0) return false;
    const auto shares = [&](std::size_t other) {
      return facts[other].actor->queue == facts[run].actor->queue &&
             facts[other].actor->communication->group == facts[run].actor->communication->group &&
             facts[other].actor->communication->primitive ==
                 facts[run].actor->communication->primitive;
    };
    for (std::size_t r = run; r-- > 0 && program.order[r].launch_group == group;)
      if (shares(r)) return true;
    for (std::size_t r = run + 1; r < facts.size() && program.order[r].launch_group == group; ++r)
      if (shares(r)) return true;
    return false;
  }

  std::int32_t piece_of(BlockId block, const Run& run) {
    const std::size_t actors = graph_.blocks[block.index()].actors.size();
    std::vector<std::int32_t>& numbers = pieces_of_block_[block.index()];
    if (numbers.empty()) numbers.assign(actors * (actors + 1), -1);
    std::int32_t& number = numbers[at(run.first_actor) * (actors + 1) + at(run.num_actors)];
    if (number < 0) {
      number = static_cast<std::int32_t>(pieces_.size());
      pieces_.push_back({block, run.first_actor, run.num_actors});
    }
    return number;
  }

  const PhysicalGraph& graph_;
  std::vector<TapePiece>& pieces_;
  std::vector<std::vector<std::int32_t>> pieces_of_block_;  // by first actor and number of actors
  std::vector<std::vector<RunFacts>> facts_;
};

class Recorder {
 public:
  Recorder(const PhysicalGraph& graph, const GroupMembers& members, const RankClasses& classes,
           const DryRun& dry, GraphTables& tables)
      : graph_(graph), members_(members), classes_(classes), dry_(dry) {
    ProgramFacts facts(graph, tape_.pieces);
    std::size_t entries = 0;
    for (const Rank rank : dry.ranks) {
      const ProgramId program = graph.ranks[rank.index()].program;
      Place place;
      place.tables = tables.of(program);
      place.waits = &tables.waits_of(program);
      place.facts = &facts.of(program);
      place.entry_of.assign(place.tables->runs.size(), -1);
      place.cost_of.assign(place.tables->runs.size(), -1);
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
  struct Place {
    std::shared_ptr<const ProgramTables> tables;
    const ProgramWaits* waits = nullptr;
    const std::vector<RunFacts>* facts = nullptr;
    std::vector<std::int32_t> entry_of;  // by run
    std::vector<std::int32_t> cost_of;   // by number of the communicating actor
  };

  std::int32_t place_of(Rank rank) const { return classes_.class_of[rank.index()]; }

  void add_entries(const Issue& issue) {
    const std::int32_t number = place_of(issue.rank);
    Place& place = places_[at(number)];
    const auto first = static_cast<std::int32_t>(tape_.entries.size());
    std::array<bool, kNumQueueRoles> used{};
    for (std::int32_t i = 0; i < issue.num_runs; ++i) {
      const std::int32_t run = issue.first.value + i;
      const RunFacts& facts = (*place.facts)[at(run)];
      TapeEntry entry;
      entry.rank = issue.rank;
      entry.place = number;
      entry.run = RunId(run);
      entry.queue = facts.actor->queue;
      entry.meeting = dry_.meeting_of_run[at(number)][at(run)];
      entry.launch_group = issue.num_runs > 1 ? first : -1;
      entry.piece = facts.piece;
      bool& seen = used[static_cast<std::size_t>(entry.queue)];
      entry.opens_launch = !std::exchange(seen, true);
      entry.optimizer = facts.actor->phase == Phase::kOptimizer;
      place.entry_of[at(run)] = first + i;
      tape_.entries.push_back(entry);
    }
  }

  void add_waits(TapeEntry& entry) {
    const Place& place = places_[at(entry.place)];
    const std::span<const ProgramWait> waits = place.waits->of(entry.run.value);
    entry.first_wait = static_cast<std::int32_t>(tape_.waits.size());
    entry.num_waits = static_cast<std::int32_t>(waits.size());
    for (const ProgramWait& wait : waits)
      tape_.waits.push_back({place.entry_of[at(wait.run)], wait.lag});
  }

  void add_meetings() {
    tape_.meetings.resize(at(dry_.num_meetings));
    for (const TapeEntry& entry : tape_.entries)
      if (entry.meeting >= 0) ++tape_.meetings[at(entry.meeting)].num_entries;
    std::int32_t next = 0;
    for (TapeMeeting& meeting : tape_.meetings) {
      meeting.first_entry = next;
      next += std::exchange(meeting.num_entries, 0);
    }
    tape_.meeting_entries.resize(at(next));
    for (std::size_t e = 0; e < tape_.entries.size(); ++e) {
      if (tape_.entries[e].meeting < 0) continue;
      TapeMeeting& meeting = tape_.meetings[at(tape_.entries[e].meeting)];
      tape_.meeting_entries[at(meeting.first_entry + meeting.num_entries++)] =
          static_cast<std::int32_t>(e);
    }
    for (std::size_t m = 0; m < tape_.meetings.size(); ++m) add_calls(static_cast<std::int32_t>(m));
  }

  // The calls of the groups of those who arrive, each group's once.
  void add_calls(std::int32_t m) {
    TapeMeeting& meeting = tape_.meetings[at(m)];
    meeting.first_call = static_cast<std::int32_t>(tape_.calls.size());
    arriving_.clear();
    for (std::int32_t i = meeting.first_entry; i < meeting.first_entry + meeting.num_entries; ++i) {
      const std::int32_t e = tape_.meeting_entries[at(i)];
      const TapeEntry& entry = tape_.entries[at(e)];
      const GroupRole role = facts_of(entry).actor->communication->group;
      arriving_.push_back(
          {e, entry.place, role, graph_.ranks[entry.rank.index()].groups[at(role)], -1});
    }
    for (Arriving& one : arriving_) {
      TapeEntry& entry = tape_.entries[at(one.entry)];
      entry.member = members_.positions_of(entry.rank)[at(one.role)];
      // Few arrive, unless all are of one group: then the first is found at once.
      const auto same =
          std::find_if(arriving_.begin(), arriving_.end(),
                       [&](const Arriving& other) { return other.group == one.group; });
      one.call = same->call >= 0 ? same->call : add_call(m, entry, one.group);
      entry.call = one.call;
    }
    meeting.num_calls = static_cast<std::int32_t>(tape_.calls.size()) - meeting.first_call;
  }

  const RunFacts& facts_of(const TapeEntry& entry) const {
    return (*places_[at(entry.place)].facts)[entry.run.index()];
  }

  std::int32_t add_call(std::int32_t meeting, const TapeEntry& entry, GroupId group) {
    const std::span<const GroupMember> members = members_.of(group);
    TapeCall call;
    call.meeting = meeting;
    call.cost = cost_of(entry, group);
    call.first_member = static_cast<std::int32_t>(tape_.member_entries.size());
    call.num_members = static_cast<std::int32_t>(members.size());
    // Where every rank is run, members arrive mostly in the order of the group.
    std::size_t guess = 0;
    for (const GroupMember& member : members)
      tape_.member_entries.push_back(entry_of_member(member, guess));
    tape_.calls.push_back(call);
    return static_cast<std::int32_t>(tape_.calls.size()) - 1;
  }

  // The arriving entry of the member's representative, for the role the member has.
  std::int32_t entry_of_member(const GroupMember& member, std::size_t& guess) const {
    const std::int32_t place = place_of(member.rank);
    for (std::size_t tried = 0; tried < arriving_.size(); ++tried) {
      const Arriving& one = arriving_[guess];
      if (one.place == place && one.role == member.role) return one.entry;
      if (++guess == arriving_.size()) guess = 0;
    }
    fail(ErrorCode::kInternal, "rank {} does not arrive at a communication of its group",
         member.rank.value);
  }

  // An actor has one cost in a group, unless it shares a bucket with others.
  std::int32_t cost_of(const TapeEntry& entry, GroupId group) {
    const RunFacts& facts = facts_of(entry);
    const std::vector<Rank>& ranks = graph_.groups[group.index()].ranks;
    if (facts.in_bucket)
      return add_cost(
          launched_cost(graph_, graph_.ranks[entry.rank.index()].program, entry.run, ranks));
    std::int32_t& known = places_[at(entry.place)].cost_of[at(facts.communication)];
    if (known >= 0) return known;
    OfActor& of_actor = of_actor_.try_emplace(facts.actor).first->second;
    if (!of_actor.sizes) of_actor.sizes.emplace(graph_, *facts.actor->communication);
    const auto [found, is_new] = of_actor.costs.emplace(group.value, -1);
    if (is_new) found->second = add_cost(of_actor.sizes->of(ranks));
    known = found->second;
    return known;
  }

  std::int32_t add_cost(const CollectiveCost& cost) {
    tape_.costs.push_back(cost);
    return static_cast<std::int32_t>(tape_.costs.size()) - 1;
  }

  // Of the meeting at hand.
  struct Arriving {
    std::int32_t entry, place;
    GroupRole role;
    GroupId group;
    std::int32_t call;
  };

  const PhysicalGraph& graph_;
  const GroupMembers& members_;
  const RankClasses& classes_;
  const DryRun& dry_;
  std::vector<Place> places_;
  std::vector<Arriving> arriving_;
  // A communicating actor: its sizes for any group, and its costs by group.
  struct OfActor {
    std::optional<CollectiveSizes> sizes;
    std::unordered_map<std::int32_t, std::int32_t> costs;
  };
  std::unordered_map<const Actor*, OfActor> of_actor_;
  Tape tape_;
};

}  // namespace

Tape record(const PhysicalGraph& graph, const GroupMembers& members, const RankClasses& classes,
            const DryRun& dry, GraphTables& tables) {
  return Recorder(graph, members, classes, dry, tables).take();
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
