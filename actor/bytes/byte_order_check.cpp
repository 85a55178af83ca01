// Invariant 7 from what the runtime really waits for: three steps on a device that notes launches,
// register by register, with the content that every byte holds.
#include "actor/bytes/byte_order.h"
#include "actor/bytes/byte_uses.h"
#include "actor/bytes/segment_runs.h"
#include "actor/protocol/device.h"
#include "actor/protocol/launch_queues.h"
#include "actor/protocol/protocol.h"
#include "actor/runtime.h"
#include "core/base/at.h"
#include "core/base/check.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace sextant {
namespace {

constexpr std::int64_t kStepsToCheck = 3;
constexpr std::size_t kMostMessages = 20;

// Hands on what is launched, call by call.
class NotingDevice final : public Device {
 public:
  using Note = std::function<void(std::span<const Launch>, std::span<const Fence>)>;
  NotingDevice(const ProgramTables& tables, Note note) : tables_(tables), note_(std::move(note)) {}
  const DeviceSpec& spec() const override { return spec_; }
  void prepare(const PhysicalGraph&, Rank) override {}
  void launch(std::span<const Launch> group, std::span<Fence> done) override {
    for (std::size_t i = 0; i < group.size(); ++i)
      done[i] = {tables_.runs[group[i].run.index()].queue,
                 tables_.sequence_of(group[i].run.value, group[i].step)};
    note_(group, done);
  }
  FenceState state(Fence) override { return FenceState::kDone; }
  void wait(Fence) override {}
  std::span<std::byte> host_view(InstanceId, std::int32_t, std::int32_t) override { return {}; }
  std::span<const Stamp> stamps() override { return {}; }

 private:
  const ProgramTables& tables_;
  Note note_;
  DeviceSpec spec_;
};

// Stops before the third step where it would repeat the second, which `proves_third` may deny.
template <typename Proves>
void run_steps(const PhysicalGraph& graph, ProgramId program,
               std::shared_ptr<const ProgramTables> tables, NotingDevice::Note note,
               const Proves& proves_third) {
  const auto rank =
      std::find_if(graph.ranks.begin(), graph.ranks.end(),
                   [&](const RankBinding& binding) { return binding.program == program; });
  require(rank != graph.ranks.end(), ErrorCode::kBadInput, "no rank runs program '{}'",
          graph.programs[program].name);
  NotingDevice device(*tables, std::move(note));
  IdleHostActors host;
  RankRuntime runtime(graph, graph.ranks.key_of(rank), tables, device, host, {.keeps_hash = false});
  static_assert(kStepsToCheck == 3);
  runtime.run(1);
  const Protocol first = runtime.protocol();
  runtime.run(1);
  if (!runtime.protocol().repeats(first) || !proves_third()) runtime.run(1);
}

// How many launches of each queue are known to be complete.
using Known = ByLaunchQueue<std::int32_t>;

// A use as the check remembers it: the launch, by its queue and sequence there, and the register.
struct PastUse {
  std::int32_t sequence = -1;
  std::int32_t frame = -1, reg = -1, content = -1;
  QueueRole queue = QueueRole::kCompute;
  bool is_of_launch(const PastUse& other) const {
    return sequence == other.sequence && queue == other.queue;
  }
};

struct Segment {
  PastUse write;
  // Launches that read since the write: the last one per queue, of the queues in the mask.
  ByLaunchQueue<std::int32_t> reads;
  std::uint32_t reading_queues = 0;
};

// More than 200 lines: what proves that a step repeats decides which launches are looked at, and
// both read the clocks, segments and messages of all launches so far.
class Checker {
 public:
  Checker(const PhysicalGraph& graph, ProgramId program, const ProgramTables& tables)
      : graph_(graph),
        program_(program),
        tables_(tables),
        uses_(graph, program, tables_, ByteUses::Grain::kPerRegister),
        segments_(uses_.num_segments()) {
    const std::size_t launches = tables.runs.size() * kStepsToCheck;
    launches_.reserve(launches);
    before_.reserve(launches);
    after_.reserve(launches);
    messages_ = uses_.host_conflicts();
  }

  // Launches of one call, which start together. Calls come in the order in which they are issued,
  // and nothing waits for what is issued later.
  void take(std::span<const Launch> call, std::span<const Fence> fences) {
    const std::size_t first = launches_.size();
    Known known;
    for (std::size_t i = 0; i < call.size(); ++i) {
      launches_.push_back({call[i].run, static_cast<std::int32_t>(call[i].step), fences[i]});
      join_largest(known, queue_[fences[i].queue]);
      for (const Fence wait : call[i].waits) join_wait(launches_.back(), wait, known);
    }
    Known done = known;
    for (const Fence fence : fences) {
      std::int32_t& own = done[fence.queue];
      own = std::max(own, static_cast<std::int32_t>(fence.sequence) + 1);
    }
    for (std::size_t i = 0; i < call.size(); ++i) {
      const QueueRole own = fences[i].queue;
      queue_[own] = done;
      before_.push_back(known);
      after_.push_back(done);
      launch_at_[own].push_back(static_cast<std::int32_t>(first + i));
    }
    for (std::size_t i = first; i < launches_.size(); ++i)
      if (!is_like_a_step_before(i)) check_all_until(i + 1);
    prove_second_step();
  }

  // After two steps, where the third will wait for what the second waited for, a step later:
  // whether every launch of it will know of all that its like in the second step knew of. It does
  // where each launch of the second knew, when it was over, of all that its like in the first knew
  // of, and nothing was wrong. Then what held in the second step holds in the third.
  bool proves_next_step() const {
    const std::size_t runs = tables_.runs.size();
    if (!messages_.empty() || launches_.size() != 2 * runs) return false;
    for (std::size_t launch = 0; launch < runs; ++launch)
      if (launches_[launch].run != launches_[launch + runs].run ||
          !is_known_step_later(after_[launch], after_[launch + runs]))
        return false;
    return true;
  }

  std::vector<std::string> messages() && {
    if (!is_second_proven_) check_all_until(std::min(launches_.size(), 2 * tables_.runs.size()));
    if (messages_.size() > kMostMessages) messages_.resize(kMostMessages);
    return std::move(messages_);
  }

 private:
  struct Noted {
    RunId run;
    std::int32_t step = 0;
    Fence fence;
  };

  // In the first step, a use of bytes that no earlier use of the step has written.
  struct FirstUse {
    std::size_t launch = 0;
    const SiteUse* use = nullptr;
  };

  // Every step uses the same bytes in the same order, so where a launch of the third step knows of
  // all that its like in the second step knew of, a step later, what held there holds here. In the
  // second step that goes for all but first uses, which prove_second_step() looks at. Such
  // launches are put off until one knows less; where something did not hold, none is.
  bool is_like_a_step_before(std::size_t launch) const {
    if (!messages_.empty()) return false;
    const auto runs = tables_.runs.size();
    const Noted& noted = launches_[launch];
    if (noted.step < 1 || launch < runs) return false;
    const Noted& like = launches_[launch - runs];
    if (like.run != noted.run || like.step + 1 != noted.step) return false;
    const bool is_put_off =
        noted.step == 1 ? checked_ == runs && launch < 2 * runs
                        : has_second_step(launch) && launches_[launch - 2 * runs].run == noted.run;
    return is_put_off && is_known_step_later(before_[launch - runs], before_[launch]);
  }

  // Two whole steps lie before the launch, and the second is as it should be.
  bool has_second_step(std::size_t launch) const {
    const std::size_t end = 2 * tables_.runs.size();
    return launch >= end && (is_second_proven_ || checked_ >= end);
  }

  // The second step where all of its launches were put off. What a use meets that an earlier use of
  // its step has written was written, and read since, by the launches of the first step, a step
  // later: it is ordered and the right content as it was there. What is left are first uses, of the
  // bytes that still are as the step before left them. They leave no trace: should a later launch
  // want the whole, it is checked from the end of the first step.
  void prove_second_step() {
    const std::size_t runs = tables_.runs.size();
    if (launches_.size() != 2 * runs || checked_ != runs || !messages_.empty()) return;
    SegmentRuns<Segment> end_of_first = segments_;
    const auto is_of_step_before = [&](const Segment& segment) {
      const PastUse& write = segment.write;
      return write.sequence < tables_.runs_per_step[write.queue];
    };
    for (const FirstUse& first : first_uses_)
      check_use(first.launch + runs, *first.use, is_of_step_before);
    segments_ = std::move(end_of_first);
    is_second_proven_ = messages_.empty();
    if (is_second_proven_) return;
    messages_.clear();
    check_all_until(2 * runs);
  }

  bool is_known_step_later(const Known& earlier, const Known& later) const {
    for (const QueueRole queue : kLaunchQueues)
      if (earlier[queue] > 0 && later[queue] < earlier[queue] + tables_.runs_per_step[queue])
        return false;
    return true;
  }

  void check_all_until(std::size_t end) {
    for (; checked_ < end && messages_.size() < kMostMessages; ++checked_) check_launch(checked_);
  }

  void join_wait(const Noted& launch, Fence wait, Known& known) {
    const std::vector<std::int32_t>& issued = launch_at_[wait.queue];
    if (wait.sequence < static_cast<std::int64_t>(issued.size())) {
      join_largest(known, after_[at(issued[at(wait.sequence)])]);
    } else {
      report(fmt::format("{} (step {}) waits for launch {} of {}, which is issued later",
                         run_to_text(graph_, program_, launch.run), launch.step, wait.sequence,
                         to_string(wait.queue)));
    }
  }

  void check_launch(std::size_t launch) {
    const Noted& noted = launches_[launch];
    const RunEntry& entry = tables_.runs[noted.run.index()];
    for (const SiteId s : entry.sites()) {
      // Uses come actor by actor, inputs before outputs: the order in which the run makes them.
      if (noted.step == 0) check_operands(s, noted.fence, act_of(noted));
      for (const SiteUse& use : uses_.of_site(s)) {
        const bool is_first = check_use(launch, use, [](const Segment&) { return true; });
        if (is_first && noted.step == 0) first_uses_.push_back({launch, &use});
      }
    }
  }

  std::int32_t act_of(const Noted& noted) const {
    return graph_.programs[program_].order[noted.run].act;
  }

  // One use of a launch, of those of its segments that are `wanted`; whether some were never
  // written.
  template <typename Wanted>
  bool check_use(std::size_t launch, const SiteUse& use, const Wanted& wanted) {
    const Noted& noted = launches_[launch];
    const std::int32_t act = act_of(noted);
    const PastUse now = use_of(noted.fence, use, act);
    const SegmentRange range = uses_.range(use, act);
    known_ = &before_[launch];
    bool is_first = false;
    if (!use.writes) {
      const QueueRole queue = tables_.runs[noted.run.index()].queue;
      segments_.change(range, [&](Segment& segment) {
        is_first = is_first || segment.write.sequence < 0;
        if (wanted(segment)) read(segment, now, queue);
      });
      return is_first;
    }
    // Most rates are 1, and a division takes as long as the rest.
    const bool updates = use.rate == 0 || (use.rate > 1 && act % use.rate != 0);
    segments_.look(range, [&](const Segment& segment) {
      is_first = is_first || segment.write.sequence < 0;
      if (!wanted(segment)) return;
      if (updates) check_content(segment.write, now);
      check_write(segment, now);
    });
    segments_.set(range, Segment{.write = now, .reads = {}, .reading_queues = 0});
    return is_first;
  }

  // A kernel may read its inputs until its last output is written, so what an actor writes shares
  // no byte with what it reads, unless it is said to work in place.
  void check_operands(SiteId site, Fence fence, std::int32_t act) {
    const std::span<const SiteUse> uses = uses_.of_site(site);
    for (std::size_t first = 0, end = 0; first < uses.size(); first = end) {
      while (end < uses.size() && uses[end].actor == uses[first].actor) ++end;
      check_actor_operands(site, uses.subspan(first, end - first), fence, act);
    }
  }
  void check_actor_operands(SiteId site, std::span<const SiteUse> uses, Fence fence,
                            std::int32_t act) {
    for (const SiteUse& out : uses) {
      if (!out.writes) continue;
      const SegmentRange written = uses_.range(out, act);
      for (const SiteUse& in : uses) {
        if (in.writes) continue;
        const SegmentRange range = uses_.range(in, act);
        if (range.begin >= written.end || written.begin >= range.end) continue;
        if (is_in_place(site, in, out)) continue;
        const PastUse now = use_of(fence, out, act);
        report(fmt::format("{} writes {} over its own input", text(now), register_text(now)));
      }
    }
  }

  PastUse use_of(Fence fence, const SiteUse& use, std::int32_t act) const {
    return {static_cast<std::int32_t>(fence.sequence), use.frame, use.reg, uses_.content(use, act),
            fence.queue};
  }

  // `out` is said to lie in the bytes of `in`, a register of the same block.
  bool is_in_place(SiteId site, const SiteUse& in, const SiteUse& out) const {
    const Block& block =
        graph_.block_of(graph_.programs[program_].instances[tables_.sites[site].instance]);
    const Actor& actor = block.actors[at(out.actor)];
    if (!actor.in_place || actor.out[at(actor.in_place->out)] != out.reg) return false;
    const Operand& operand = actor.in[at(actor.in_place->in)];
    const InstanceId instance = tables_.frames[at(out.frame)].instance;
    return operand.source == Operand::Source::kRegister &&
           uses_.written_register(instance, operand.index) == in.reg &&
           tables_.frames[at(in.frame)].instance == instance;
  }

  void read(Segment& segment, const PastUse& now, QueueRole queue) {
    check_order(segment.write, now);
    check_content(segment.write, now);
    segment.reads[queue] = now.sequence;
    segment.reading_queues |= 1U << static_cast<unsigned>(queue);
  }

  void check_write(const Segment& segment, const PastUse& now) {
    check_order(segment.write, now);
    std::uint32_t reading = segment.reading_queues;
    for (std::size_t place = 0; reading != 0; ++place, reading >>= 1U) {
      const auto queue = key_at<QueueRole>(place);
      if ((reading & 1U) != 0)
        check_order(PastUse{.sequence = segment.reads[queue], .queue = queue}, now);
    }
  }

  // Reports `later`, a use of the launch at hand, where nothing orders it behind `earlier`.
  void check_order(const PastUse& earlier, const PastUse& later) {
    if (earlier.sequence < 0 || (*known_)[earlier.queue] > earlier.sequence) return;
    if (earlier.is_of_launch(later)) return;
    report(fmt::format("{} uses bytes of {} that {} uses{}, and nothing orders them", text(later),
                       register_text(later), text(earlier),
                       earlier.reg < 0 ? "" : " as " + register_text(earlier)));
  }

  // State lies in its own bytes before the first write; anything else is read as it was written.
  void check_content(const PastUse& written, const PastUse& now) {
    const bool same = written.frame == now.frame && written.reg == now.reg;
    if (same && written.content == now.content) return;
    const FrameQuota& frame = tables_.frames[at(now.frame)];
    const bool initial = written.sequence < 0 && frame.initially_full;
    const bool host = written.sequence < 0 && written_by_host(now);
    if (initial || host || (same && frame.initially_full)) return;
    if (written.sequence < 0) {
      report(fmt::format("{} reads {}, which nobody has written", text(now), register_text(now)));
      return;
    }
    report(fmt::format("{} reads {}, but {} has written {} there", text(now), register_text(now),
                       text(written), register_text(written)));
  }

  // Host actors are not in the issue order: what they write shows as never written.
  bool written_by_host(const PastUse& use) const {
    for (const SiteId site : tables_.host_sites) {
      for (const SiteUse& other : uses_.of_site(site)) {
        if (other.writes && other.frame == use.frame && other.reg == use.reg) return true;
      }
    }
    return false;
  }

  std::string text(const PastUse& use) const {
    const Noted& launch = launches_[at(launch_at_[use.queue][at(use.sequence)])];
    return fmt::format("{} (step {})", run_to_text(graph_, program_, launch.run), launch.step);
  }

  std::string register_text(const PastUse& use) const {
    const FrameQuota& frame = tables_.frames[at(use.frame)];
    const Instance& instance = graph_.programs[program_].instances[frame.instance];
    return fmt::format("'{}' of '{}' content {}", graph_.register_name(instance, use.reg),
                       instance.name, use.content);
  }

  void report(std::string message) {
    if (messages_.size() >= kMostMessages) return;
    if (std::find(messages_.begin(), messages_.end(), message) == messages_.end()) {
      messages_.push_back(std::move(message));
    }
  }

  const PhysicalGraph& graph_;
  ProgramId program_;
  const ProgramTables& tables_;
  ByteUses uses_;
  SegmentRuns<Segment> segments_;
  std::vector<Noted> launches_;
  FixedTable<QueueRole, std::vector<std::int32_t>, kNumQueueRoles> launch_at_;  // by sequence
  FixedTable<QueueRole, Known, kNumQueueRoles> queue_;  // when the last launch of a queue is over
  std::vector<Known> before_, after_;                   // by launch
  std::size_t checked_ = 0;                             // launches
  std::vector<FirstUse> first_uses_;                    // in the order of the first step
  bool is_second_proven_ = false;                       // though not all of it was checked
  const Known* known_ = nullptr;                        // to the launch at hand
  std::vector<std::string> messages_;
};

}  // namespace

std::vector<NotedLaunch> note_launches(const PhysicalGraph& graph, ProgramId program,
                                       std::shared_ptr<const ProgramTables> tables) {
  std::vector<NotedLaunch> launches;
  std::int64_t calls = 0;
  run_steps(
      graph, program, std::move(tables),
      [&](std::span<const Launch> call, std::span<const Fence> fences) {
        for (std::size_t i = 0; i < call.size(); ++i)
          launches.push_back({call[i].run,
                              call[i].step,
                              calls,
                              fences[i],
                              {call[i].waits.begin(), call[i].waits.end()}});
        ++calls;
      },
      [] { return false; });
  return launches;
}

std::vector<std::string> check_noted_order(const PhysicalGraph& graph, ProgramId program,
                                           const ProgramTables& tables,
                                           std::vector<NotedLaunch> launches) {
  Checker checker(graph, program, tables);
  std::vector<Launch> call;
  std::vector<Fence> fences;
  for (std::size_t first = 0; first < launches.size(); first += call.size()) {
    call.clear();
    fences.clear();
    for (std::size_t i = first; i < launches.size() && launches[i].call == launches[first].call;
         ++i) {
      call.push_back({launches[i].run, launches[i].step, launches[i].waits});
      fences.push_back(launches[i].fence);
    }
    checker.take(call, fences);
  }
  return std::move(checker).messages();
}

std::vector<std::string> check_byte_order(const PhysicalGraph& graph, ProgramId program,
                                          std::shared_ptr<const ProgramTables> tables) {
  Checker checker(graph, program, *tables);
  run_steps(
      graph, program, tables,
      [&](std::span<const Launch> call, std::span<const Fence> fences) {
        checker.take(call, fences);
      },
      [&] { return checker.proves_next_step(); });
  return std::move(checker).messages();
}

std::vector<std::string> check_byte_order(const PhysicalGraph& graph, ProgramId program) {
  return check_byte_order(graph, program, std::make_shared<const ProgramTables>(graph, program));
}

}  // namespace sextant
