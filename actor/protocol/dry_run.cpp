// Each rank runs alone until a communication; it goes on when the others have come as far.
#include "actor/protocol/dry_run.h"

#include "actor/protocol/protocol.h"
#include "core/base/check.h"
#include "core/graphs/meeting_members.h"

#include <algorithm>
#include <deque>
#include <map>
#include <span>
#include <unordered_map>
#include <utility>

namespace sextant {
namespace {

using CircleId = Id<struct CircleTag>;

// Members of one kind of group, as (class, role): what the representatives of all ranks see.
struct Circle {
  struct Seat {
    std::int32_t rank_class = 0;
    GroupRole role = 0;
    std::int64_t arrived = 0;  // occurrences posted
  };
  std::vector<Seat> seats;
  std::vector<const Communication*> posted;  // by occurrence, of the first to come
  std::vector<MeetingId> meetings;           // by occurrence
  std::int64_t complete = 0;                 // occurrences at which all have arrived
  std::size_t behind = 0;                    // seats that have arrived at no more
};

struct OpenMeeting {
  CircleId circle;
  std::int64_t occurrence = 0;
};

// A representative and where it is.
struct Runner {
  Rank rank;
  ProgramId program;
  std::shared_ptr<const ProgramTables> tables;
  std::optional<Protocol> protocol;  // nothing: every run is known to be enabled in its turn
  std::vector<CircleId> circle_of_role;
  std::vector<std::int32_t> seat_of_role;
  RunId next{0};
  std::int32_t posted_size = 0;
  bool recorded = false;  // the launch it is at stands in the order
  bool queued = false;    // among the ready
  std::vector<OpenMeeting> open;

  Runner(Rank r, ProgramId p, std::shared_ptr<const ProgramTables> t, bool counts_messages)
      : rank(r), program(p), tables(std::move(t)) {
    if (counts_messages) protocol.emplace(*tables);
  }
  bool ended() const { return next.index() == tables->runs.size(); }
};

const Communication& communication_of(const PhysicalGraph& graph, ProgramId program, RunId run) {
  const RankProgram& owner = graph.programs[program];
  const Run& entry = owner.order[run];
  const Block& block = graph.block_of(owner.instances[entry.instance]);
  return *block.actors[static_cast<std::size_t>(entry.first_actor)].communication;
}

void check_fingerprint(const PhysicalGraph& graph, const Runner& runner, RunId run,
                       const Communication& mine, const Communication& first,
                       std::int64_t occurrence) {
  if (are_same(graph, mine, first)) return;
  const GroupId group = graph.ranks[runner.rank].groups[static_cast<std::size_t>(mine.group)];
  fail(ErrorCode::kInfeasible,
       "rank {} at {}: communication {} of group '{}' is {} {} of layouts {} -> {}, but another "
       "member issues {} {} of layouts {} -> {} there",
       runner.rank.value, run_to_text(graph, runner.program, run), occurrence,
       graph.groups[group].name, to_string(mine.primitive), to_string(mine.dtype), mine.from.value,
       mine.to.value, to_string(first.primitive), to_string(first.dtype), first.from.value,
       first.to.value);
}

// All of a rank's messages are its own: what is missing when its turn comes never arrives.
[[noreturn]] void refuse_order(const PhysicalGraph& graph, const Runner& runner,
                               const Blocker& blocker) {
  const std::string text = to_text(blocker, *runner.tables, graph, runner.program);
  const std::int64_t act = runner.protocol->acts_of(blocker.owing_site);
  std::string later = "which does not act again in this step";
  for (std::size_t r = static_cast<std::size_t>(blocker.run); r < runner.tables->runs.size(); ++r) {
    const RunEntry& entry = runner.tables->runs[r];
    if (blocker.owing_site < entry.first_site ||
        blocker.owing_site >= entry.first_site.plus(entry.num_sites) ||
        graph.programs[runner.program].order[RunId(r)].act < act) {
      continue;
    }
    later = fmt::format("whose turn is not before run {}", r);
    break;
  }
  if (blocker.owed_by_host) later = "a host actor that waits for a later run";
  fail(ErrorCode::kInfeasible, "the issue order of rank {} cannot run: {}, {}", runner.rank.value,
       text, later);
}

void check_returned(const PhysicalGraph& graph, std::span<const Runner> runners) {
  for (const Runner& runner : runners) {
    // Rates that balance return every counter once all acts have taken place.
    if (!runner.protocol) continue;
    const std::optional<std::string> text = runner.protocol->not_returned(graph, runner.program);
    require(!text.has_value(), ErrorCode::kInfeasible,
            "rank {}: a counter does not return to its start after a step: {}", runner.rank.value,
            text.value_or(""));
  }
}

// Who meets in which communications, by circle: made once, before the ranks run.
class Circles {
 public:
  explicit Circles(const RankClasses& classes) : classes_(classes) {}

  // The circle of each role. Equal circles are one: equitable classes make all groups that a class
  // names in a role look alike.
  void seat(Runner& runner, const PhysicalGraph& graph, const GroupMembers& members) {
    const RankProgram& program = graph.programs[runner.program];
    const std::vector<GroupId>& groups = graph.ranks[runner.rank].groups;
    require(static_cast<std::size_t>(program.num_group_roles) == groups.size(),
            ErrorCode::kBadInput, "rank {} binds {} group roles, its program '{}' has {}",
            runner.rank.value, groups.size(), program.name, program.num_group_roles);
    for (std::size_t role = 0; role < groups.size(); ++role) {
      const auto [known, is_new] = circle_of_group_.try_emplace(groups[role]);
      if (is_new) known->second = circle_of(members.of(groups[role]));
      const std::vector<Circle::Seat>& seats = circles_[known->second].seats;
      const std::pair<std::int32_t, GroupRole> own{classes_.class_of[runner.rank.index()],
                                                   static_cast<GroupRole>(role)};
      runner.circle_of_role.push_back(known->second);
      runner.seat_of_role.push_back(static_cast<std::int32_t>(
          std::lower_bound(seats.begin(), seats.end(), own,
                           [](const Circle::Seat& seat, const auto& wanted) {
                             return std::pair(seat.rank_class, seat.role) < wanted;
                           }) -
          seats.begin()));
    }
  }

  Circle& operator[](CircleId circle) { return circles_[circle]; }
  const Circle& operator[](CircleId circle) const { return circles_[circle]; }

 private:
  // Under all ranks two groups of equal ranks differ in the roles: each has its own circle.
  CircleId circle_of(std::span<const GroupMember> members) {
    std::vector<std::pair<std::int32_t, GroupRole>> seats;
    seats.reserve(members.size());
    for (const GroupMember& member : members)
      seats.push_back({classes_.class_of[member.rank.index()], member.role});
    std::sort(seats.begin(), seats.end());
    seats.erase(std::unique(seats.begin(), seats.end()), seats.end());
    const auto [found, is_new] = circle_of_seats_.emplace(seats, circles_.next_key());
    if (is_new) {
      Circle& circle = circles_.emplace_back();
      for (const auto& [rank_class, role] : seats) circle.seats.push_back({rank_class, role, 0});
      circle.behind = seats.size();
    }
    return found->second;
  }

  const RankClasses& classes_;
  Table<CircleId, Circle> circles_;
  std::map<std::vector<std::pair<std::int32_t, GroupRole>>, CircleId> circle_of_seats_;
  std::unordered_map<GroupId, CircleId> circle_of_group_;
};

class DryRunner {
 public:
  DryRunner(const PhysicalGraph& graph, const GroupMembers& members, const RankClasses& classes,
            const GraphTables& tables)
      : graph_(graph), circles_(classes) {
    runners_.reserve(classes.size());
    for (const Rank rank : classes.representatives) {
      const ProgramId program = graph.ranks[rank].program;
      runners_.emplace_back(rank, program, tables.of(program), !tables.is_direct(program));
      result_.meeting_of_run.emplace_back(runners_.back().tables->runs.size());
    }
    for (Runner& runner : runners_) circles_.seat(runner, graph, members);
    result_.ranks = classes.representatives;
  }

  DryRun run() {
    std::deque<std::size_t> ready;
    for (std::size_t r = 0; r < runners_.size(); ++r) {
      if (runners_[r].protocol) runners_[r].protocol->run_host_actors_freely(1);
      runners_[r].queued = true;
      ready.push_back(r);
    }
    while (!ready.empty()) {
      const std::size_t r = ready.front();
      ready.pop_front();
      runners_[r].queued = false;
      advance(r, ready);
    }
    for (const Runner& runner : runners_) {
      if (!runner.ended()) refuse();
    }
    check_returned(graph_, runners_);
    return std::move(result_);
  }

 private:
  void advance(std::size_t r, std::deque<std::size_t>& ready) {
    Runner& runner = runners_[r];
    while (!runner.ended()) {
      if (runner.posted_size == 0) post(r, ready);
      if (!may_leave(runner)) return;
      if (!runner.recorded) record(r);
      runner.open.clear();
      runner.recorded = false;
      runner.next = runner.next.plus(runner.posted_size);
      runner.posted_size = 0;
    }
  }

  // Issues the next launch; its communications are posted, not yet complete.
  void post(std::size_t r, std::deque<std::size_t>& ready) {
    Runner& runner = runners_[r];
    if (runner.protocol) issue(runner);
    const RunEntry& entry = runner.tables->runs[runner.next.index()];
    runner.posted_size = entry.group_size;
    for (std::int32_t i = 0; entry.communicates && i < entry.group_size; ++i) {
      arrive(r, runner.next.plus(i));
    }
    for (const OpenMeeting& meeting : runner.open) settle(r, meeting.circle, ready);
  }

  void issue(Runner& runner) const {
    const std::optional<Blocker> blocker = runner.protocol->issue(runner.next.value, 0);
    if (blocker) refuse_order(graph_, runner, *blocker);
    runner.protocol->run_host_actors_freely(1);
  }

  void arrive(std::size_t r, RunId run) {
    Runner& runner = runners_[r];
    const Communication& communication = communication_of(graph_, runner.program, run);
    const auto roles = static_cast<GroupRole>(runner.circle_of_role.size());
    if (communication.group < 0 || communication.group >= roles) {
      fail(ErrorCode::kBadInput, "{}: group role {} of {}",
           run_to_text(graph_, runner.program, run), communication.group, roles);
    }
    const auto role = static_cast<std::size_t>(communication.group);
    const CircleId c = runner.circle_of_role[role];
    Circle& circle = circles_[c];
    const std::int64_t occurrence =
        circle.seats[static_cast<std::size_t>(runner.seat_of_role[role])].arrived++;
    if (occurrence == circle.complete) --circle.behind;
    if (static_cast<std::size_t>(occurrence) == circle.posted.size()) {
      circle.posted.push_back(&communication);
      circle.meetings.push_back(MeetingId(result_.num_meetings++));
    }
    check_fingerprint(graph_, runner, run, communication,
                      *circle.posted[static_cast<std::size_t>(occurrence)], occurrence);
    result_.meeting_of_run[r][run] = circle.meetings[static_cast<std::size_t>(occurrence)];
    runner.open.push_back({c, occurrence});
  }

  // Wakes the members of a circle at whose next occurrence all have arrived.
  void settle(std::size_t r, CircleId c, std::deque<std::size_t>& ready) {
    Circle& circle = circles_[c];
    if (circle.behind > 0) return;
    circle.complete = circle.seats.front().arrived;
    for (const Circle::Seat& seat : circle.seats)
      circle.complete = std::min(circle.complete, seat.arrived);
    for (const Circle::Seat& seat : circle.seats)
      circle.behind += seat.arrived == circle.complete ? 1 : 0;
    for (const Circle::Seat& seat : circle.seats) {
      const auto member = static_cast<std::size_t>(seat.rank_class);
      Runner& other = runners_[member];
      if (!has_complete(other)) continue;
      if (!other.recorded) record(member);
      if (member == r || other.queued || !may_leave(other)) continue;
      other.queued = true;
      ready.push_back(member);
    }
  }

  bool is_complete(const OpenMeeting& meeting) const {
    return circles_[meeting.circle].complete > meeting.occurrence;
  }
  bool has_complete(const Runner& runner) const {
    return std::any_of(runner.open.begin(), runner.open.end(),
                       [&](const OpenMeeting& meeting) { return is_complete(meeting); });
  }
  bool may_leave(const Runner& runner) const {
    return std::all_of(runner.open.begin(), runner.open.end(),
                       [&](const OpenMeeting& meeting) { return is_complete(meeting); });
  }

  void record(std::size_t r) {
    Runner& runner = runners_[r];
    runner.recorded = true;
    result_.order.push_back({runner.rank, runner.next, runner.posted_size});
  }

  // Follows who waits for whom until a rank comes twice, or one has nothing left to issue.
  [[noreturn]] void refuse() const {
    std::size_t at = 0;
    while (runners_[at].ended()) ++at;
    std::vector<std::size_t> path;
    std::string text = "the ranks wait for each other:";
    while (std::find(path.begin(), path.end(), at) == path.end()) {
      path.push_back(at);
      const Runner& runner = runners_[at];
      if (runner.ended()) {
        text += fmt::format("\n  rank {} has issued its whole step", runner.rank.value);
        break;
      }
      at = missing_peer(runner, text);
    }
    if (!runners_[at].ended())
      text += fmt::format("\n  and so on from rank {}", runners_[at].rank.value);
    throw Error(ErrorCode::kInfeasible, text,
                {"all queues of a rank count as one stream here: an order that needs separate "
                 "streams is refused too",
                 "a launch group lets opposite transfers start together"});
  }

  std::size_t missing_peer(const Runner& runner, std::string& text) const {
    const OpenMeeting& meeting =
        *std::find_if(runner.open.begin(), runner.open.end(),
                      [&](const OpenMeeting& open) { return !is_complete(open); });
    const Circle& circle = circles_[meeting.circle];
    const Circle::Seat& seat =
        *std::find_if(circle.seats.begin(), circle.seats.end(),
                      [&](const Circle::Seat& s) { return s.arrived <= meeting.occurrence; });
    const Runner& peer = runners_[static_cast<std::size_t>(seat.rank_class)];
    const GroupId group = graph_.ranks[peer.rank].groups[static_cast<std::size_t>(seat.role)];
    text += fmt::format(
        "\n  rank {} is at {} and waits for rank {} to reach communication {} of group '{}'",
        runner.rank.value, run_to_text(graph_, runner.program, runner.next), peer.rank.value,
        meeting.occurrence, graph_.groups[group].name);
    return static_cast<std::size_t>(seat.rank_class);
  }

  const PhysicalGraph& graph_;
  std::vector<Runner> runners_;  // by class
  Circles circles_;
  DryRun result_;
};

}  // namespace

DryRun dry_run(const PhysicalGraph& graph, const GroupMembers& members, const RankClasses& classes,
               const GraphTables& tables) {
  return DryRunner(graph, members, classes, tables).run();
}

DryRun dry_run(const PhysicalGraph& graph, RankScope scope) {
  const GroupMembers members(graph);
  const GraphTables tables(graph);
  const RankClasses classes =
      scope == RankScope::kAllRanks ? all_ranks(graph) : rank_classes(graph, members);
  return dry_run(graph, members, classes, tables);
}

}  // namespace sextant
