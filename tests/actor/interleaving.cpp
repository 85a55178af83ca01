// Every event is one of: a rank issues, a launch begins or ends, a host actor begins or ends, a
// message arrives. Each source of events has a weight for the whole run, so that in some runs one
// queue, one host thread or the network is far behind all else.
#include "tests/actor/interleaving.h"

#include "actor/bus/actor_bus.h"
#include "actor/hosts/simulated_groups.h"
#include "actor/protocol/protocol.h"
#include "core/base/check.h"
#include "tests/actor/tampered_group.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <utility>
#include <vector>

namespace sextant::testing {
namespace {

constexpr std::int64_t kSteps = 2;
constexpr std::int32_t kStop = -1;  // for a channel

using Meeting = std::pair<GroupId, std::int64_t>;  // group, occurrence

constexpr std::int32_t kUnfinished = -2;  // for an instance

// A unit of memory that a launch reads or writes: what is there while it runs, and after it.
struct Held {
  std::size_t unit = 0;
  ContentTag after, meanwhile;
};

struct LaunchMember {
  RunId run;
  std::int64_t step = 0;
  Fence fence;
  std::vector<Fence> waits;
  std::optional<Meeting> meeting;
  std::vector<Held> held;
};

// Launches that start together: one, as a rule.
struct Call {
  std::vector<LaunchMember> members;
  bool has_begun = false;
};

class RankWorld {
 public:
  RankWorld(const ExploredProgram& program, ActorThread launch, ActorThread host,
            HostGroup& of_launch, HostGroup& of_host)
      : program(program),
        counters(*program.tables,
                 program.tables->host_sites.empty() ? SiteOwner::kAll : SiteOwner::kLaunchThread),
        host_counters(*program.tables, SiteOwner::kHostThread),
        launch_bus(std::span(&launch, 1), 0, &of_launch),
        host_bus(std::span(&host, 1), 0, &of_host),
        launch_end(launch_bus.end(launch)),
        host_end(host_bus.end(host)),
        memory(program.units) {
    for (const Touch& touch : program.state)
      for (std::size_t unit = 0; unit < touch.count; ++unit) memory[touch.first + unit] = touch.tag;
  }

  const ProgramTables& tables() const { return *program.tables; }
  bool has_host() const { return !tables().host_sites.empty(); }

  const ExploredProgram& program;
  Protocol counters, host_counters;
  ActorBus launch_bus, host_bus;
  ActorBus::End &launch_end, &host_end;
  std::vector<ContentTag> memory;

  std::int32_t next = 0;
  std::int64_t step = 0;
  bool is_blocked = false;  // until a message comes
  std::deque<std::shared_ptr<Call>> calls;
  std::array<std::deque<std::shared_ptr<Call>>, kNumQueueRoles> queues;  // not over
  FixedTable<QueueRole, std::int64_t, kNumQueueRoles> done;
  std::map<GroupId, std::int64_t> occurrences;
  std::map<Meeting, std::size_t> heard;  // members that have come, this one not counted

  SiteId host_site;  // that is acting
  std::vector<Fence> host_waits;
  bool host_heard_stop = false;
  bool host_has_ended = false;  // it heard Stop and owed nothing
};

// More than 200 lines: launch threads, queues, host threads and the network take turns on one
// state, and each event decides which others may happen next.
class World {
 public:
  World(const ExploredGraph& explored, std::uint64_t seed)
      : explored_(explored),
        graph_(explored.graph()),
        random_(seed),
        groups_(2 * graph_.ranks.size(),
                {.seed = seed,
                 .max_delay = static_cast<std::uint32_t>(seed % 40),
                 .repeat_percent = static_cast<std::uint32_t>(seed % 3) * 15}) {
    for (std::size_t node = 0; node < 2 * graph_.ranks.size(); ++node)
      tampered_.push_back(std::make_unique<TamperedGroup>(groups_.of(Rank(node)), explored.bug()));
    for (const Rank r : graph_.ranks.keys()) {
      const auto node = static_cast<std::uint16_t>(2 * r.value);
      ranks_.push_back(
          std::make_unique<RankWorld>(explored.of(r), ActorThread{node, 0, false},
                                      ActorThread{static_cast<std::uint16_t>(node + 1), 0, true},
                                      *tampered_[node], *tampered_[node + 1U]));
    }
    constexpr std::array<std::uint32_t, 3> kWeights{1, 8, 64};
    for (std::size_t source = 0; source < ranks_.size() * kSourcesOfRank + 1; ++source)
      weights_.push_back(kWeights[random_() % kWeights.size()]);
  }

  InterleavingResult run() {
    InterleavingResult result;
    while (!wrong_ && act_once()) ++result.events;
    if (!wrong_) check_end();
    result.wrong = std::move(wrong_);
    result.early = groups_.early();
    result.repeated = groups_.repeated();
    return result;
  }

 private:
  enum class Kind : std::uint8_t { kIssue, kBegin, kEnd, kHostBegin, kHostEnd, kNetwork };
  struct Event {
    Kind kind;
    std::size_t rank = 0, queue = 0;
  };
  static constexpr std::size_t kSourcesOfRank = kNumQueueRoles + 2;  // its thread, its host thread

  bool has_bug(PlantedBug bug) const { return explored_.bug() == bug; }
  template <typename... Args>
  void report(fmt::format_string<Args...> text, Args&&... args) {
    if (!wrong_) wrong_ = fmt::format(text, std::forward<Args>(args)...);
  }
  std::string text_of(std::size_t rank, RunId run) const {
    return fmt::format("rank {}: {}", rank,
                       run_to_text(graph_, graph_.ranks[Rank(rank)].program, run));
  }

  // Draws among all events that may happen now.
  bool act_once() {
    events_.clear();
    sums_.clear();
    const auto add = [&](const Event& event, std::size_t source) {
      events_.push_back(event);
      sums_.push_back((sums_.empty() ? 0 : sums_.back()) + weights_[source]);
    };
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      const std::size_t first = r * kSourcesOfRank;
      if (may_issue(*ranks_[r])) add({Kind::kIssue, r}, first);
      if (may_host_begin(*ranks_[r])) add({Kind::kHostBegin, r}, first + 1);
      if (may_host_end(*ranks_[r])) add({Kind::kHostEnd, r}, first + 1);
      for (std::size_t queue = 0; queue < kNumQueueRoles; ++queue) {
        if (call_to_begin(*ranks_[r], queue)) add({Kind::kBegin, r, queue}, first + 2 + queue);
        if (call_to_end(*ranks_[r], queue)) add({Kind::kEnd, r, queue}, first + 2 + queue);
      }
    }
    if (is_network_busy_) add({Kind::kNetwork}, ranks_.size() * kSourcesOfRank);
    if (events_.empty()) return false;
    const std::size_t drawn = static_cast<std::size_t>(
        std::upper_bound(sums_.begin(), sums_.end(), random_() % sums_.back()) - sums_.begin());
    happen(events_[drawn]);
    return true;
  }

  void happen(const Event& event) {
    switch (event.kind) {
      case Kind::kIssue:
        return issue(event.rank);
      case Kind::kBegin:
        return begin(event.rank, call_to_begin(*ranks_[event.rank], event.queue));
      case Kind::kEnd:
        return end(event.rank, call_to_end(*ranks_[event.rank], event.queue));
      case Kind::kHostBegin:
        return host_begin(*ranks_[event.rank]);
      case Kind::kHostEnd:
        return host_end(event.rank);
      case Kind::kNetwork:
        return arrive();
    }
  }

  // Launch thread.
  bool may_issue(const RankWorld& rank) const {
    constexpr std::size_t kRunAhead = 12;  // calls that are not over
    return rank.step < kSteps && !rank.is_blocked && rank.calls.size() < kRunAhead;
  }

  void issue(std::size_t r) {
    RankWorld& rank = *ranks_[r];
    if (const std::optional<Blocker> blocker = rank.counters.issue(rank.next, rank.step)) {
      if (!blocker->owed_by_host)
        report("{}", to_text(*blocker, rank.tables(), graph_, graph_.ranks[Rank(r)].program));
      rank.is_blocked = true;
      return;
    }
    auto call = std::make_shared<Call>();
    const std::int32_t members = rank.tables().runs[static_cast<std::size_t>(rank.next)].group_size;
    for (std::int32_t m = 0; m < members; ++m) {
      LaunchMember member{RunId(rank.next + m),
                          rank.step,
                          rank.counters.fence_of(rank.next + m, rank.step),
                          waits_of(rank, m),
                          meeting_of(r, RunId(rank.next + m)),
                          {}};
      rank.queues[static_cast<std::size_t>(member.fence.queue)].push_back(call);
      call->members.push_back(std::move(member));
    }
    rank.calls.push_back(std::move(call));
    for (const Message& message : rank.counters.outbox())
      post(rank.launch_end, host_of(r), message);
    rank.counters.clear_outbox();
    rank.next += members;
    if (static_cast<std::size_t>(rank.next) < rank.tables().runs.size()) return;
    rank.next = 0;
    if (++rank.step < kSteps) return;
    if (rank.has_host()) post(rank.launch_end, host_of(r), {Message::Kind::kReq, kStop, {}});
    if (!has_bug(PlantedBug::kNoDrain)) return;
    rank.calls.clear();
    for (auto& queue : rank.queues) queue.clear();
  }

  std::vector<Fence> waits_of(const RankWorld& rank, std::int32_t member) const {
    const std::span<const Fence> waits = rank.counters.waits(member);
    std::vector<Fence> result(waits.begin(), waits.end());
    if (has_bug(PlantedBug::kWaitsLeftOut)) result.clear();
    if (has_bug(PlantedBug::kWaitsOneEarly))
      for (Fence& fence : result) --fence.sequence;
    return result;
  }

  std::optional<Meeting> meeting_of(std::size_t r, RunId id) {
    const RankProgram& program = graph_.program_of(Rank(r));
    const Run& run = program.order[id];
    const auto& communication = graph_.block_of(program.instances[run.instance])
                                    .actors[static_cast<std::size_t>(run.first_actor)]
                                    .communication;
    if (!communication) return std::nullopt;
    const GroupId group =
        graph_.ranks[Rank(r)].groups[static_cast<std::size_t>(communication->group)];
    return Meeting{group, ranks_[r]->occurrences[group]++};
  }

  // Device.
  static bool is_done(const RankWorld& rank, Fence fence) {
    return fence.sequence < rank.done[fence.queue];
  }

  bool may_begin(const RankWorld& rank, const std::shared_ptr<Call>& call) const {
    for (const LaunchMember& member : call->members) {
      const auto& queue = rank.queues[static_cast<std::size_t>(member.fence.queue)];
      const bool is_next = queue.front() == call || (has_bug(PlantedBug::kQueueOvertakesItself) &&
                                                     queue.size() > 1 && queue[1] == call);
      if (!is_next || !std::all_of(member.waits.begin(), member.waits.end(),
                                   [&](Fence fence) { return is_done(rank, fence); }))
        return false;
      if (has_bug(PlantedBug::kGroupStartsWithFirst)) return true;
    }
    return true;
  }

  std::shared_ptr<Call> call_to_begin(const RankWorld& rank, std::size_t queue) const {
    const std::size_t places = has_bug(PlantedBug::kQueueOvertakesItself) ? 2 : 1;
    for (std::size_t i = 0; i < std::min(places, rank.queues[queue].size()); ++i)
      if (const auto& call = rank.queues[queue][i]; !call->has_begun && may_begin(rank, call))
        return call;
    return nullptr;
  }

  std::shared_ptr<Call> call_to_end(const RankWorld& rank, std::size_t queue) const {
    for (const auto& call : rank.queues[queue])
      if (call->has_begun && have_all_come(rank, *call)) return call;
    return nullptr;
  }

  bool have_all_come(const RankWorld& rank, const Call& call) const {
    return std::all_of(call.members.begin(), call.members.end(), [&](const LaunchMember& member) {
      if (!member.meeting) return true;
      Meeting meeting = *member.meeting;
      std::size_t others = graph_.groups[meeting.first].ranks.size() - 1;
      if (has_bug(PlantedBug::kMeetingWithoutOne)) others -= std::min<std::size_t>(others, 1);
      if (has_bug(PlantedBug::kMeetingsNotToldApart)) meeting.second = 0;
      const auto heard = rank.heard.find(meeting);
      return others == 0 || (heard != rank.heard.end() && heard->second >= others);
    });
  }

  void begin(std::size_t r, const std::shared_ptr<Call>& call) {
    RankWorld& rank = *ranks_[r];
    call->has_begun = true;
    for (LaunchMember& member : call->members) {
      const auto& touches = rank.program.of_run[member.run.index()];
      for (const Touch& touch : touches)
        if (const auto wrong = apply(rank, touch, member.step))
          report("{} {}", text_of(r, member.run), *wrong);
      hold(rank, member, touches);
      if (member.meeting) announce(r, *member.meeting);
    }
  }

  // Until it ends nobody else may change what it touches, and what it writes is nobody's content.
  static void hold(RankWorld& rank, LaunchMember& member, const std::vector<Touch>& touches) {
    for (const Touch& touch : touches)
      for (std::size_t unit = touch.first; unit < touch.first + touch.count; ++unit)
        member.held.push_back({unit, rank.memory[unit], {}});
    const ContentTag unfinished{kUnfinished, member.run.value, 0, member.step, 0};
    for (const Touch& touch : touches)
      for (std::size_t unit = touch.first; touch.writes && unit < touch.first + touch.count; ++unit)
        rank.memory[unit] = unfinished;
    for (Held& held : member.held) held.meanwhile = rank.memory[held.unit];
  }

  void announce(std::size_t r, const Meeting& meeting) {
    come_[meeting].insert(r);
    for (const Rank other : graph_.groups[meeting.first].ranks)
      if (other.index() != r)
        post(ranks_[r]->launch_end, ActorId(2 * other.value, 0, QueueRole::kCollective, 0),
             {Message::Kind::kReq, meeting.first.value, {QueueRole::kCollective, meeting.second}});
  }

  void end(std::size_t r, const std::shared_ptr<Call>& call) {
    RankWorld& rank = *ranks_[r];
    for (const LaunchMember& member : call->members) {
      for (const Held& held : member.held)
        if (rank.memory[held.unit] != held.meanwhile)
          report("{}: while it ran {} became {}", text_of(r, member.run), to_text(held.meanwhile),
                 to_text(rank.memory[held.unit]));
      for (const Held& held : member.held) rank.memory[held.unit] = held.after;
      if (member.meeting) check_meeting(r, member);
      auto& queue = rank.queues[static_cast<std::size_t>(member.fence.queue)];
      queue.erase(std::find(queue.begin(), queue.end(), call));
      ++rank.done[member.fence.queue];
    }
    rank.calls.erase(std::find(rank.calls.begin(), rank.calls.end(), call));
  }

  void check_meeting(std::size_t r, const LaunchMember& member) {
    for (const Rank other : graph_.groups[member.meeting->first].ranks)
      if (!come_[*member.meeting].contains(other.index()))
        report("{} is over before rank {} has come", text_of(r, member.run), other.value);
  }

  // A read wants its content whole; a write leaves its own, state over the version before, an
  // accumulation over the acts before.
  static std::optional<std::string> apply(RankWorld& rank, const Touch& touch, std::int64_t step) {
    ContentTag tag = touch.tag;
    tag.version = step;
    std::optional<ContentTag> wanted;
    if (!touch.writes || touch.is_state) wanted = tag;
    if (touch.writes && tag.parts > 1) {
      wanted = tag;
      --wanted->parts;
    }
    if (touch.writes && touch.is_state) ++tag.version;
    std::optional<std::string> wrong;
    for (std::size_t unit = touch.first; unit < touch.first + touch.count; ++unit) {
      if (wanted && rank.memory[unit] != *wanted)
        wrong = fmt::format("wants {} and finds {}", to_text(*wanted), to_text(rank.memory[unit]));
      if (touch.writes) rank.memory[unit] = tag;
    }
    return wrong;
  }

  // Host thread.
  SiteId next_host_site(const RankWorld& rank) const {
    for (const SiteId s : rank.tables().host_sites) {
      const Site& site = rank.tables().sites[s];
      if (rank.host_counters.acts_of(s) < kSteps * site.acts_per_step &&
          rank.host_counters.host_act_enabled(s))
        return s;
    }
    return SiteId::none;
  }
  bool may_host_begin(const RankWorld& rank) const {
    return rank.has_host() && !rank.host_site.is_valid() && !rank.host_has_ended &&
           next_host_site(rank).is_valid();
  }
  // Stop comes behind the last message: whoever has heard it and has nothing to do has done all.
  void look_whether_host_ends(RankWorld& rank) {
    if (!rank.host_heard_stop) return;
    const bool owes = rank.host_site.is_valid() || next_host_site(rank).is_valid();
    if (!owes || has_bug(PlantedBug::kEarlyStop)) rank.host_has_ended = true;
  }
  void host_begin(RankWorld& rank) {
    rank.host_site = next_host_site(rank);
    rank.host_waits.clear();
    rank.host_counters.begin_host_act(rank.host_site, rank.host_waits);
    const bool loads = rank.tables().sites[rank.host_site].num_writes > 0;
    if (has_bug(loads ? PlantedBug::kCreditWithoutFence : PlantedBug::kInputWithoutFence))
      rank.host_waits.clear();
  }
  bool may_host_end(const RankWorld& rank) const {
    return rank.host_site.is_valid() &&
           std::all_of(rank.host_waits.begin(), rank.host_waits.end(),
                       [&](Fence fence) { return is_done(rank, fence); });
  }
  void host_end(std::size_t r) {
    RankWorld& rank = *ranks_[r];
    const SiteId s = rank.host_site;
    const std::int64_t acts = rank.tables().sites[s].acts_per_step;
    const std::int64_t act = rank.host_counters.acts_of(rank.host_site);
    for (const Touch& touch : rank.program.of_host_act[s][static_cast<std::size_t>(act % acts)])
      if (const auto wrong = apply(rank, touch, act / acts))
        report("rank {}: host act {} of site {} {}", r, act, s, *wrong);
    rank.host_counters.finish_host_act(rank.host_site);
    rank.host_site = SiteId::none;
    for (const Message& message : rank.host_counters.outbox())
      post(rank.host_end, ActorId(static_cast<std::int64_t>(2 * r), 0, QueueRole::kCompute, 0),
           message);
    rank.host_counters.clear_outbox();
    look_whether_host_ends(rank);
  }

  // Network.
  static ActorId host_of(std::size_t r) {
    return {static_cast<std::int64_t>(2 * r + 1), 0, QueueRole::kHost, 0};
  }

  void post(ActorBus::End& from, ActorId to, const Message& message) {
    is_network_busy_ = true;
    const bool is_stop = message.channel == kStop;
    const bool is_ack = message.kind == Message::Kind::kAck;
    // Between a rank and its host thread; one of the first, where there are several.
    const bool is_edge = from.thread().node / 2 == to.node() / 2 && !is_stop;
    const bool is_hit = is_edge && !has_hit_ && random_() % 2 == 0;
    const auto hits = [&](PlantedBug bug, bool fits) { return is_hit && fits && has_bug(bug); };
    const bool is_lost = hits(PlantedBug::kLostAck, is_ack) || hits(PlantedBug::kLostReq, !is_ack);
    const bool is_double =
        hits(PlantedBug::kDoubleAck, is_ack) || hits(PlantedBug::kDoubleReq, !is_ack);
    has_hit_ = has_hit_ || is_lost || is_double;
    const ActorId own(from.thread().node, 0,
                      from.thread().is_host ? QueueRole::kHost : QueueRole::kCompute, 0);
    for (int times = is_lost ? 0 : is_double ? 2 : 1; times > 0; --times)
      from.post({own, to, message});
  }

  void arrive() {
    if (groups_.move_one()) {
      take(random_() % (2 * ranks_.size()));
      return;
    }
    for (std::size_t node = 0; node < 2 * ranks_.size(); ++node) take(node);
    is_network_busy_ = !groups_.is_idle();
  }

  void take(std::size_t node) {
    RankWorld& rank = *ranks_[node / 2];
    if (node % 2 == 1) {
      rank.host_end.take([&](const ActorMessage& came) {
        if (rank.host_has_ended) report("a message to the host of rank {} after its end", node / 2);
        rank.host_heard_stop = rank.host_heard_stop || came.message.channel == kStop;
        if (came.message.channel != kStop) rank.host_counters.receive(came.message);
        look_whether_host_ends(rank);
      });
      return;
    }
    rank.launch_end.take([&](const ActorMessage& came) {
      if (came.from.node() == node + 1) {
        rank.counters.receive(came.message);
        rank.is_blocked = false;
      } else {
        const bool is_apart = !has_bug(PlantedBug::kMeetingsNotToldApart);
        ++rank.heard[{GroupId(came.message.channel), is_apart ? came.message.fence.sequence : 0}];
      }
    });
  }

  // Nothing can happen any more.
  void check_end() {
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      RankWorld& rank = *ranks_[r];
      if (rank.step < kSteps)
        report("rank {} waits for ever at {}", r, text_of(r, RunId(rank.next)));
      if (!rank.calls.empty())
        report("{} never ends", text_of(r, rank.calls.front()->members.front().run));
      for (const QueueRole queue : rank.done.keys())
        if (rank.done[queue] != kSteps * rank.tables().runs_per_step[queue])
          report("rank {}: {} launches of queue {} have ended", r, rank.done[queue],
                 to_string(queue));
      if (rank.has_host() && !rank.host_has_ended) report("the host of rank {} has not ended", r);
      for (const SiteId s : rank.tables().host_sites) {
        const Site& site = rank.tables().sites[s];
        if (rank.host_counters.acts_of(s) != kSteps * site.acts_per_step)
          report("site {} of the host of rank {} has acted {} times", s, r,
                 rank.host_counters.acts_of(s));
      }
      const ProgramId program = graph_.ranks[Rank(r)].program;
      if (const auto text = rank.counters.not_returned(graph_, program)) report("{}", *text);
      if (const auto text = rank.host_counters.not_returned(graph_, program)) report("{}", *text);
      for (const auto& [meeting, heard] : rank.heard)
        if (!has_bug(PlantedBug::kMeetingsNotToldApart) &&
            heard != graph_.groups[meeting.first].ranks.size() - 1)
          report("rank {} heard {} members at communication {} of group {}", r, heard,
                 meeting.second, graph_.groups[meeting.first].name);
    }
  }

  const ExploredGraph& explored_;
  const PhysicalGraph& graph_;
  std::mt19937_64 random_;
  SimulatedHostGroups groups_;
  std::vector<std::unique_ptr<TamperedGroup>> tampered_;  // by node: 2 r launches, 2 r + 1 is host
  std::vector<std::unique_ptr<RankWorld>> ranks_;
  std::vector<std::uint32_t> weights_;
  std::map<Meeting, std::set<std::size_t>> come_;  // who has begun
  bool is_network_busy_ = false;
  bool has_hit_ = false;
  std::optional<std::string> wrong_;
  std::vector<Event> events_;
  std::vector<std::uint64_t> sums_;
};

}  // namespace

InterleavingResult run_interleaving(const ExploredGraph& explored, std::uint64_t seed) {
  return World(explored, seed).run();
}

}  // namespace sextant::testing
