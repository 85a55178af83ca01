// Groups whose members are timed alike communicate at the same times, and links that are loaded
// alike by the same groups are one piece of work.

#include "simulator/reports/link_use.h"

#include "actor/protocol/rank_classes.h"
#include "core/base/at.h"
#include "core/base/check.h"
#include "core/costs/communication_volume.h"
#include "simulator/steps/run_facts.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

namespace sextant {

namespace {

struct Interval {
  Time begin, end;
};

// A communication that the members of a group issue so many times per step.
struct Issued {
  RunId run;  // the first of them
  std::vector<Interval> intervals;
};

// Groups with equally timed members: what they issue, from the first of them.
struct GroupClass {
  std::vector<GroupId> groups;
  std::vector<Issued> issued;
};

// One use of a link: by which class of groups, which communication, how many bytes each time.
struct Use {
  std::int32_t group_class = 0, issued = 0;
  double bytes = 0;
  auto key() const { return std::tie(group_class, issued, bytes); }
  bool operator<(const Use& other) const { return key() < other.key(); }
};

// On a circle as long as the step.
class BusyTime {
 public:
  explicit BusyTime(Duration step) : step_(step) {}

  void add(Interval interval) {
    const Duration length = interval.end - interval.begin;
    if (length.value <= 0 || step_.value <= 0) return;
    if (length >= step_) {
      pieces_.push_back({Time(), Time() + step_});
      return;
    }
    const Time begin(interval.begin.value % step_.value);
    const Time end = begin + length, round = Time() + step_;
    pieces_.push_back({begin, std::min(end, round)});
    if (end > round) pieces_.push_back({Time(), end - step_});
  }

  Duration total() {
    std::sort(pieces_.begin(), pieces_.end(),
              [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
    Duration sum;
    Time covered;
    for (const Interval& piece : pieces_) {
      const Time from = std::max(piece.begin, covered);
      if (piece.end > from) sum += piece.end - from;
      covered = std::max(covered, piece.end);
    }
    return sum;
  }

 private:
  Duration step_;
  std::vector<Interval> pieces_;
};

class LinkAccount {
 public:
  LinkAccount(const PhysicalGraph& graph, const Timeline& timeline, const NetworkModel& network)
      : graph_(graph),
        timeline_(timeline),
        network_(network),
        members_(graph),
        uses_(network.links().size()) {
    sort_groups();
    for (std::size_t c = 0; c < classes_.size(); ++c) list_issued(classes_[c]);
    for (std::size_t c = 0; c < classes_.size(); ++c) load_links(c);
  }

  LinkUses run() {
    LinkUses result;
    result.step_time = timeline_.step_time();
    std::map<Row, LinkUse> rows;
    std::map<std::vector<Use>, std::pair<double, Duration>> known;
    for (std::size_t link = 0; link < uses_.size(); ++link) {
      if (uses_[link].empty()) {
        ++result.idle;
        continue;
      }
      std::sort(uses_[link].begin(), uses_[link].end());
      const auto [place, is_new] = known.try_emplace(uses_[link]);
      if (is_new) place->second = sum_of(uses_[link]);
      add_row(network_.links()[link], place->second.first, place->second.second, rows);
    }
    for (auto& [row, use] : rows) finish(std::move(use), result);
    std::stable_sort(
        result.used.begin(), result.used.end(),
        [](const LinkUse& a, const LinkUse& b) { return a.utilisation > b.utilisation; });
    return result;
  }

 private:
  // Kind, capacity, bytes, time in use.
  using Row = std::tuple<std::string, double, std::int64_t, std::int64_t>;

  // By place and role of all members: nothing else decides when they communicate.
  void sort_groups() {
    std::map<std::vector<std::pair<std::int32_t, GroupRole>>, std::size_t> numbers;
    for (const GroupId group : graph_.groups.keys()) {
      const auto members = members_.of(group);
      if (members.size() < 2) continue;
      std::vector<std::pair<std::int32_t, GroupRole>> key;
      for (const GroupMember& member : members)
        key.emplace_back(timeline_.place_of[member.rank.index()], member.role);
      std::sort(key.begin(), key.end());
      const auto [place, is_new] = numbers.try_emplace(std::move(key), classes_.size());
      if (is_new) classes_.emplace_back();
      classes_[place->second].groups.push_back(group);
    }
  }

  // An actor is one communication, however often it runs; launch groups share sizes run by run.
  void list_issued(GroupClass& group_class) const {
    const GroupMember& first = members_.of(group_class.groups.front()).front();
    const RankTimeline& timed = timeline_.ranks[at(timeline_.place_of[first.rank.index()])];
    const RankProgram& program = graph_.program_of(first.rank);
    std::map<const Actor*, std::size_t> known;
    for (const TimedRun& run : timed.runs) {
      const Actor& actor = first_actor_of(graph_, timed.rank, run.run);
      if (!actor.communication || actor.communication->group != first.role) continue;
      const bool is_bucket = program.order[run.run].launch_group.is_valid();
      const std::size_t next = group_class.issued.size();
      const std::size_t number = is_bucket ? next : known.try_emplace(&actor, next).first->second;
      if (number == next) group_class.issued.push_back({run.run, {}});
      group_class.issued[number].intervals.push_back({run.arrived, run.end});
    }
  }

  void load_links(std::size_t number) {
    const GroupClass& group_class = classes_[number];
    for (const GroupId group : group_class.groups) {
      const std::vector<Rank>& ranks = graph_.groups[group].ranks;
      const ProgramId program = graph_.ranks[members_.of(group).front().rank].program;
      for (std::size_t i = 0; i < group_class.issued.size(); ++i) {
        network_.demand(launched_cost(graph_, program, group_class.issued[i].run, ranks), demand_);
        for (const LinkLoad& load : demand_.loads)
          if (load.bytes > 0)
            uses_[at(load.link)].push_back(
                {static_cast<std::int32_t>(number), static_cast<std::int32_t>(i), load.bytes});
      }
    }
  }

  // Bytes in ascending order: the same sum, whatever the classes are called.
  std::pair<double, Duration> sum_of(const std::vector<Use>& uses) const {
    std::vector<double> bytes;
    BusyTime busy(timeline_.step_time());
    for (std::size_t i = 0; i < uses.size(); ++i) {
      const std::vector<Interval>& intervals =
          classes_[at(uses[i].group_class)].issued[at(uses[i].issued)].intervals;
      bytes.push_back(uses[i].bytes * static_cast<double>(intervals.size()));
      const bool same = i > 0 && uses[i - 1].group_class == uses[i].group_class &&
                        uses[i - 1].issued == uses[i].issued;
      if (same) continue;
      for (const Interval& interval : intervals) busy.add(interval);
    }
    std::sort(bytes.begin(), bytes.end());
    double sum = 0;
    for (const double one : bytes) sum += one;
    return {sum, busy.total()};
  }

  static void add_row(const SharedLink& link, double bytes, Duration busy,
                      std::map<Row, LinkUse>& rows) {
    const Row row{kind_of(link.name), link.bytes_per_second, std::llround(bytes), busy.value};
    const auto [place, is_new] = rows.try_emplace(row);
    if (!is_new) {
      ++place->second.links;
      return;
    }
    place->second.name = link.name;
    place->second.kind = std::get<0>(row);
    place->second.capacity_b_s = link.bytes_per_second;
    place->second.bytes = Bytes(std::llround(bytes));
    place->second.busy = busy;
  }

  // "node3.gpu5.nvlink4.out" -> "node*.gpu*.nvlink*.out".
  static std::string kind_of(const std::string& name) {
    std::string kind;
    for (const char c : name) {
      const bool is_digit = c >= '0' && c <= '9';
      if (!is_digit)
        kind += c;
      else if (kind.empty() || kind.back() != '*')
        kind += '*';
    }
    return kind;
  }

  // Sharing lets what fills a link exactly pass within 10^-4 (simulator/modes/progress.h).
  static void finish(LinkUse use, LinkUses& result) {
    const auto bytes = static_cast<double>(use.bytes.value);
    const double could = use.capacity_b_s * to_seconds(result.step_time);
    use.utilisation = could > 0 ? bytes / could : 0;
    if (bytes > 1.001 * use.capacity_b_s * to_seconds(use.busy) + 1) result.is_crowded = true;
    result.used.push_back(std::move(use));
  }

  const PhysicalGraph& graph_;
  const Timeline& timeline_;
  const NetworkModel& network_;
  GroupMembers members_;
  std::vector<GroupClass> classes_;
  std::vector<std::vector<Use>> uses_;  // by link
  NetworkDemand demand_;
};

}  // namespace

LinkUses link_uses(const PhysicalGraph& graph, const Timeline& timeline,
                   const NetworkModel& network) {
  require(timeline.place_of.size() == graph.ranks.size(), ErrorCode::kUsage,
          "a timeline of {} ranks, the graph has {}", timeline.place_of.size(), graph.ranks.size());
  return LinkAccount(graph, timeline, network).run();
}

}  // namespace sextant
