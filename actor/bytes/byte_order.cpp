// Vector clocks over queues, walking the issue order through two steps and adding a guard wherever
// a use is not known to follow an earlier one of the same bytes. What follows an earlier use of its
// own step in the first step does so in the second: it waits for the same launches, a step later,
// and for more. So the second step is walked for what the first step found untouched.
#include "actor/bytes/byte_order.h"

#include "actor/bytes/byte_uses.h"
#include "actor/bytes/segment_runs.h"
#include "actor/protocol/launch_queues.h"
#include "actor/protocol/program_waits.h"
#include "actor/protocol/protocol.h"
#include "core/base/at.h"
#include "core/base/check.h"

#include <algorithm>
#include <optional>

namespace sextant {
namespace {

constexpr std::int32_t kStepsToOrder = 2;

// No launch: before all of them.
constexpr std::int32_t kNone = -1;

// The largest sequence of each queue that is known to be complete.
struct Clock {
  ByLaunchQueue<std::int32_t> known{kNone};
  void join(const Clock& other) { join_largest(known, other.known); }
};

// The last uses of one segment, as launches (step * runs + run).
struct LastUses {
  std::int32_t write = kNone;
  QueueRole write_queue = QueueRole::kCompute;
  std::uint16_t reading_queues = 0;  // that have read since the write
  ByLaunchQueue<std::int32_t> reads{kLeaveUnset};
};

// More than 200 lines: one walk, whose every step reads and moves the clocks, the last uses and the
// guards that the steps before it added.
class GuardFinder {
 public:
  // `direct`: what positions in the order say of waits; null where they do not.
  GuardFinder(const PhysicalGraph& graph, ProgramId program, const ProgramTables& tables,
              const ProgramWaits* direct)
      : graph_(graph),
        program_(program),
        tables_(tables),
        uses_(graph, program, tables, ByteUses::Grain::kMerged),
        direct_(direct),
        runs_(static_cast<std::int32_t>(tables.runs.size())),
        done_(tables.runs.size() * kStepsToOrder),
        added_(tables.runs.size()),
        is_first_(tables.runs.size(), 0),
        segments_(uses_.num_segments()) {
    if (!direct_) protocol_.emplace(tables);
    wanted_.fill(kNone);
    for (std::size_t r = 0; r < tables.runs.size(); ++r) {
      const RunEntry& entry = tables.runs[r];
      run_at_[entry.queue].push_back(static_cast<std::int32_t>(r));
    }
    for (std::int32_t step = 0; step < kStepsToOrder; ++step)
      for (std::int32_t run = 0; run < runs_; ++run)
        sequences_.push_back(static_cast<std::int32_t>(tables.sequence_of(run, step)));
  }

  std::vector<Guard> find() {
    const std::vector<std::string> conflicts = uses_.host_conflicts();
    require(conflicts.empty(), ErrorCode::kInfeasible, "{}",
            conflicts.empty() ? "" : conflicts.front());
    for (step_ = 0; step_ < kStepsToOrder; ++step_) {
      if (protocol_) protocol_->run_host_actors_freely(step_ + 1);
      for (std::int32_t run = 0; run < end_of_walk(); run += tables_.runs[at(run)].group_size)
        walk(run);
    }
    std::vector<Guard> guards;
    for (std::int32_t run = 0; run < runs_; ++run) {
      guards.insert(guards.end(), added_[at(run)].begin(), added_[at(run)].end());
    }
    return guards;
  }

 private:
  Clock& done(std::int32_t launch) { return done_[at(launch)]; }

  // Messages that are counted are counted through both steps.
  std::int32_t end_of_walk() const { return step_ == 0 || protocol_ ? runs_ : end_of_first_; }

  // In the first step: the run uses bytes that no earlier one has written.
  void note_first(std::int32_t run) {
    is_first_[at(run)] = 1;
    end_of_first_ = std::max(end_of_first_, run + 1);
  }

  // One launch: what it knows when it starts, the guards it needs, what is known when it is done.
  void walk(std::int32_t first) {
    if (protocol_) issue(first);
    const std::int32_t members = tables_.runs[at(first)].group_size;
    Clock clock;
    for (std::int32_t m = 0; m < members; ++m) {
      clock.join(queue_clock_[tables_.runs[at(first + m)].queue]);
      join_waits(first, m, clock);
      for (const Guard& guard : added_[at(first + m)]) {
        if (guard.lag <= step_) {
          clock.join(done((step_ - guard.lag) * runs_ + guard.earlier.value));
        }
      }
    }
    for (std::int32_t m = 0; m < members; ++m) {
      if (step_ > 0 && is_first_[at(first + m)] == 0) continue;
      if (members == 1)
        order_uses(first, clock);
      else
        order_member_uses(first, first + m, clock);
    }
    for (std::int32_t m = 0; m < members; ++m) {
      const RunEntry& entry = tables_.runs[at(first + m)];
      std::int32_t& own = clock.known[entry.queue];
      own = std::max(own, sequences_[at(step_ * runs_ + first + m)]);
    }
    for (std::int32_t m = 0; m < members; ++m) {
      done(step_ * runs_ + first + m) = clock;
      queue_clock_[tables_.runs[at(first + m)].queue] = clock;
    }
  }

  void issue(std::int32_t first) {
    const std::optional<Blocker> blocker = protocol_->issue(first, step_);
    require(!blocker.has_value(), ErrorCode::kInfeasible, "the issue order cannot run: {}",
            blocker ? to_text(*blocker, tables_, graph_, program_) : "");
    if (!tables_.host_sites.empty()) protocol_->run_host_actors_freely(step_ + 1);
  }

  // What a launch waits for is the same in every step, but that the first has none before it.
  void join_waits(std::int32_t first, std::int32_t member, Clock& clock) {
    if (protocol_) {
      for (const Fence fence : protocol_->waits(member)) clock.join(done(launch_of(fence)));
      return;
    }
    for (const ProgramWait wait : direct_->of(first + member))
      if (wait.lag <= step_) clock.join(done((step_ - wait.lag) * runs_ + wait.run));
  }

  std::int32_t launch_of(Fence fence) const {
    const std::int64_t per_step = tables_.runs_per_step[fence.queue];
    return static_cast<std::int32_t>(fence.sequence / per_step) * runs_ +
           run_at_[fence.queue][at(fence.sequence % per_step)];
  }

  // A run alone: what it has done itself orders nothing, so each use is noted as it is looked at.
  void order_uses(std::int32_t run, Clock& clock) {
    const std::int32_t launch = step_ * runs_ + run;
    const QueueRole queue = tables_.runs[at(run)].queue;
    want_none();
    for_each_use(run, [&](const SiteUse& use, SegmentRange range) {
      if (use.writes) {
        segments_.look(range, [&](const LastUses& last) { want_all(last, launch, launch, clock); });
        note_write(range, launch, queue);
      } else {
        segments_.change(range, [&](LastUses& last) {
          want_write(last, launch, launch, clock);
          note_read(last, launch, queue);
        });
      }
    });
    add_guards(run, clock);
  }

  // Members of a launch group start together: none of them may have used the bytes of another.
  void order_member_uses(std::int32_t group, std::int32_t run, Clock& clock) {
    const std::int32_t launch = step_ * runs_ + run, group_launch = step_ * runs_ + group;
    const QueueRole queue = tables_.runs[at(run)].queue;
    want_none();
    for_each_use(run, [&](const SiteUse& use, SegmentRange range) {
      segments_.look(range, [&](const LastUses& last) {
        if (use.writes)
          want_all(last, launch, group_launch, clock);
        else
          want_write(last, launch, group_launch, clock);
      });
    });
    add_guards(run, clock);
    for_each_use(run, [&](const SiteUse& use, SegmentRange range) {
      if (use.writes)
        note_write(range, launch, queue);
      else
        segments_.change(range, [&](LastUses& last) { note_read(last, launch, queue); });
    });
  }

  void note_write(SegmentRange range, std::int32_t launch, QueueRole queue) {
    LastUses written;
    written.write = launch;
    written.write_queue = queue;
    segments_.set(range, written);
  }
  static void note_read(LastUses& last, std::int32_t launch, QueueRole queue) {
    last.reads[queue] = launch;
    last.reading_queues |= static_cast<std::uint16_t>(1U << static_cast<unsigned>(queue));
  }

  // Visits the uses of bytes that something else may use before or after the run.
  template <typename Visit>
  void for_each_use(std::int32_t run, const Visit& visit) {
    const RunEntry& entry = tables_.runs[at(run)];
    const std::int32_t act = graph_.programs[program_].order[RunId(run)].act;
    for (const SiteId s : entry.sites())
      for (const SiteUse& use : uses_.of_site(s))
        if (uses_.is_shared(use, act)) visit(use, uses_.range(use, act));
  }

  // A write follows the write before it and all that was read since.
  void want_all(const LastUses& last, std::int32_t launch, std::int32_t group_launch,
                const Clock& clock) {
    want_write(last, launch, group_launch, clock);
    std::uint32_t reading = last.reading_queues;
    for (std::size_t place = 0; reading != 0; ++place, reading >>= 1U) {
      const auto queue = key_at<QueueRole>(place);
      if ((reading & 1U) != 0) want(last.reads[queue], queue, launch, group_launch, clock);
    }
  }

  void want_write(const LastUses& last, std::int32_t launch, std::int32_t group_launch,
                  const Clock& clock) {
    if (step_ == 0 && last.write < 0) note_first(launch);
    want(last.write, last.write_queue, launch, group_launch, clock);
  }

  // `launch` must follow `earlier`, of this queue: remembered unless the clock says that it does.
  void want(std::int32_t earlier, QueueRole queue, std::int32_t launch, std::int32_t group_launch,
            const Clock& clock) {
    if (earlier < 0 || earlier == launch) return;
    if (earlier >= group_launch) {
      fail(ErrorCode::kInfeasible, "{} and {} start together but use the same bytes",
           run_to_text(graph_, program_, RunId(earlier % runs_)),
           run_to_text(graph_, program_, RunId(launch % runs_)));
    }
    if (clock.known[queue] >= sequences_[at(earlier)]) return;
    wanted_[queue] = std::max(wanted_[queue], earlier);
    wants_ = true;
  }

  void want_none() {
    if (wants_) wanted_.fill(kNone);
    wants_ = false;
  }

  // At most one per queue; the latest first, because it may imply the others.
  void add_guards(std::int32_t run, Clock& clock) {
    if (!wants_) return;
    ByLaunchQueue<std::int32_t> latest = wanted_;  // no longer by queue
    std::sort(latest.begin(), latest.end(), std::greater<>());
    for (const std::int32_t earlier : latest) {
      if (earlier < 0) break;
      const RunEntry& entry = tables_.runs[at(earlier % runs_)];
      if (clock.known[entry.queue] >= sequences_[at(earlier)]) continue;
      added_[at(run)].push_back({RunId(run), RunId(earlier % runs_), step_ - earlier / runs_});
      clock.join(done(earlier));
    }
  }

  const PhysicalGraph& graph_;
  ProgramId program_;
  const ProgramTables& tables_;
  ByteUses uses_;
  const ProgramWaits* direct_;  // null: messages are counted
  std::optional<Protocol> protocol_;
  std::int32_t runs_;
  std::int32_t step_ = 0;
  FixedTable<QueueRole, std::vector<std::int32_t>, kNumQueueRoles> run_at_;  // by position
  FixedTable<QueueRole, Clock, kNumQueueRoles> queue_clock_;
  std::vector<std::int32_t> sequences_;    // by launch
  std::vector<Clock> done_;                // by launch
  std::vector<std::vector<Guard>> added_;  // by run
  std::vector<char> is_first_;     // by run: it uses bytes before a run of its step wrote them
  std::int32_t end_of_first_ = 0;  // of the runs that do
  SegmentRuns<LastUses> segments_;
  ByLaunchQueue<std::int32_t> wanted_;  // of the run at hand
  bool wants_ = false;                  // any
};

}  // namespace

std::vector<Guard> missing_guards(const PhysicalGraph& graph, ProgramId program,
                                  const GraphTables& tables) {
  const ProgramWaits* const direct = tables.direct_waits_of(program);
  return GuardFinder(graph, program, *tables.of(program), direct).find();
}

std::vector<Guard> missing_guards(const PhysicalGraph& graph, ProgramId program) {
  const GraphTables tables(graph);
  return missing_guards(graph, program, tables);
}

}  // namespace sextant
