// Vector clocks over queues, walking the issue order through two steps and adding a guard wherever
// a use is not known to follow an earlier one of the same bytes.
#include "actor/byte_order.h"

#include "actor/byte_uses.h"
#include "actor/protocol.h"
#include "core/at.h"
#include "core/check.h"

#include <algorithm>
#include <array>

namespace sextant {
namespace {

constexpr std::int32_t kStepsToOrder = 2;

// By queue: the largest sequence known to be complete.
struct Clock {
  std::array<std::int32_t, kNumQueueRoles> known;
  Clock() { known.fill(-1); }
  void join(const Clock& other) {
    for (std::size_t q = 0; q < kNumQueueRoles; ++q) known[q] = std::max(known[q], other.known[q]);
  }
};

// The last uses of one segment, as launches (step * runs + run), -1: none.
struct LastUses {
  std::int32_t write = -1;
  std::array<std::int32_t, kNumQueueRoles> reads;
  LastUses() { reads.fill(-1); }
};

class GuardFinder {
 public:
  GuardFinder(const PhysicalGraph& graph, ProgramId program, const ProgramTables& tables)
      : graph_(graph),
        program_(program),
        tables_(tables),
        uses_(graph, program, tables, ByteUses::Grain::kMerged),
        protocol_(tables),
        runs_(static_cast<std::int32_t>(tables.runs.size())),
        done_(tables.runs.size() * kStepsToOrder),
        added_(tables.runs.size()),
        segments_(at(uses_.num_segments())) {
    for (std::size_t r = 0; r < tables.runs.size(); ++r) {
      const RunEntry& entry = tables.runs[r];
      run_at_[static_cast<std::size_t>(entry.queue)].push_back(static_cast<std::int32_t>(r));
    }
  }

  std::vector<Guard> find() {
    const std::vector<std::string> conflicts = uses_.host_conflicts();
    require(conflicts.empty(), ErrorCode::kInfeasible, "{}",
            conflicts.empty() ? "" : conflicts.front());
    for (step_ = 0; step_ < kStepsToOrder; ++step_) {
      protocol_.run_host_actors_freely(step_ + 1);
      for (std::int32_t run = 0; run < runs_; run += tables_.runs[at(run)].group_size) walk(run);
    }
    std::vector<Guard> guards;
    for (std::int32_t run = 0; run < runs_; ++run) {
      guards.insert(guards.end(), added_[at(run)].begin(), added_[at(run)].end());
    }
    return guards;
  }

 private:
  Clock& done(std::int32_t launch) { return done_[at(launch)]; }

  // One launch: what it knows when it starts, the guards it needs, what is known when it is done.
  void walk(std::int32_t first) {
    const std::optional<Blocker> blocker = protocol_.issue(first, step_);
    require(!blocker.has_value(), ErrorCode::kInfeasible, "the issue order cannot run: {}",
            blocker ? to_text(*blocker, tables_, graph_, program_) : "");
    if (!tables_.host_sites.empty()) protocol_.run_host_actors_freely(step_ + 1);
    const std::int32_t members = tables_.runs[at(first)].group_size;
    Clock clock;
    for (std::int32_t m = 0; m < members; ++m) {
      clock.join(queue_clock_[static_cast<std::size_t>(tables_.runs[at(first + m)].queue)]);
      for (const Fence fence : protocol_.waits(m)) clock.join(done(launch_of(fence)));
      for (const Guard& guard : added_[at(first + m)]) {
        if (guard.lag <= step_) {
          clock.join(done((step_ - guard.lag) * runs_ + guard.earlier.value));
        }
      }
    }
    for (std::int32_t m = 0; m < members; ++m) order_uses(first, first + m, clock);
    for (std::int32_t m = 0; m < members; ++m) {
      const RunEntry& entry = tables_.runs[at(first + m)];
      std::int32_t& own = clock.known[static_cast<std::size_t>(entry.queue)];
      own = std::max(own, static_cast<std::int32_t>(tables_.sequence_of(first + m, step_)));
    }
    for (std::int32_t m = 0; m < members; ++m) {
      done(step_ * runs_ + first + m) = clock;
      queue_clock_[static_cast<std::size_t>(tables_.runs[at(first + m)].queue)] = clock;
    }
  }

  std::int32_t launch_of(Fence fence) const {
    const auto queue = static_cast<std::size_t>(fence.queue);
    const std::int64_t per_step = tables_.runs_per_step[queue];
    return static_cast<std::int32_t>(fence.sequence / per_step) * runs_ +
           run_at_[queue][static_cast<std::size_t>(fence.sequence % per_step)];
  }

  void order_uses(std::int32_t group, std::int32_t run, Clock& clock) {
    const RunEntry& entry = tables_.runs[at(run)];
    const std::int32_t act = graph_.programs[program_.index()].order[at(run)].act;
    const std::int32_t launch = step_ * runs_ + run;
    wanted_.fill(-1);
    for_each_use(entry, act, [&](const SiteUse& use, LastUses& last) {
      want(last.write, launch, clock, step_ * runs_ + group);
      if (!use.writes) return;
      for (const std::int32_t read : last.reads) want(read, launch, clock, step_ * runs_ + group);
    });
    add_guards(run, clock);
    for_each_use(entry, act, [&](const SiteUse& use, LastUses& last) {
      if (use.writes) {
        last.write = launch;
        last.reads.fill(-1);
      } else {
        last.reads[static_cast<std::size_t>(entry.queue)] = launch;
      }
    });
  }

  template <typename Visit>
  void for_each_use(const RunEntry& entry, std::int32_t act, const Visit& visit) {
    for (std::int32_t s = entry.first_site; s < entry.first_site + entry.num_sites; ++s) {
      for (const SiteUse& use : uses_.of_site(s)) {
        const SegmentRange range = uses_.range(use, act);
        for (std::int32_t i = range.begin; i < range.end; ++i) visit(use, segments_[at(i)]);
      }
    }
  }

  // `launch` must follow `earlier`: remembered unless the clock says that it does.
  void want(std::int32_t earlier, std::int32_t launch, const Clock& clock,
            std::int32_t group_launch) {
    if (earlier < 0 || earlier == launch) return;
    if (earlier >= group_launch) {
      fail(ErrorCode::kInfeasible, "{} and {} start together but use the same bytes",
           run_to_text(graph_, program_, RunId(earlier % runs_)),
           run_to_text(graph_, program_, RunId(launch % runs_)));
    }
    const RunEntry& entry = tables_.runs[at(earlier % runs_)];
    const auto queue = static_cast<std::size_t>(entry.queue);
    if (clock.known[queue] >= tables_.sequence_of(earlier % runs_, earlier / runs_)) return;
    wanted_[queue] = std::max(wanted_[queue], earlier);
  }

  // At most one per queue; the latest first, because it may imply the others.
  void add_guards(std::int32_t run, Clock& clock) {
    std::array<std::int32_t, kNumQueueRoles> latest = wanted_;
    std::sort(latest.begin(), latest.end(), std::greater<>());
    for (const std::int32_t earlier : latest) {
      if (earlier < 0) break;
      const RunEntry& entry = tables_.runs[at(earlier % runs_)];
      const auto queue = static_cast<std::size_t>(entry.queue);
      if (clock.known[queue] >= tables_.sequence_of(earlier % runs_, earlier / runs_)) continue;
      added_[at(run)].push_back({RunId(run), RunId(earlier % runs_), step_ - earlier / runs_});
      clock.join(done(earlier));
    }
  }

  const PhysicalGraph& graph_;
  ProgramId program_;
  const ProgramTables& tables_;
  ByteUses uses_;
  Protocol protocol_;
  std::int32_t runs_;
  std::int32_t step_ = 0;
  std::array<std::vector<std::int32_t>, kNumQueueRoles> run_at_;  // by position
  std::array<Clock, kNumQueueRoles> queue_clock_;
  std::vector<Clock> done_;                // by launch
  std::vector<std::vector<Guard>> added_;  // by run
  std::vector<LastUses> segments_;
  std::array<std::int32_t, kNumQueueRoles> wanted_;
};

}  // namespace

std::vector<Guard> missing_guards(const PhysicalGraph& graph, ProgramId program,
                                  const ProgramTables& tables) {
  return GuardFinder(graph, program, tables).find();
}

std::vector<Guard> missing_guards(const PhysicalGraph& graph, ProgramId program) {
  const ProgramTables tables(graph, program);
  return missing_guards(graph, program, tables);
}

}  // namespace sextant
