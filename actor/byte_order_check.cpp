// Invariant 7 from what the runtime really waits for: three steps on a device that notes launches,
// register by register, with the content that every byte holds.
#include "actor/byte_order.h"
#include "actor/byte_uses.h"
#include "actor/device.h"
#include "actor/runtime.h"
#include "core/at.h"
#include "core/check.h"

#include <algorithm>
#include <array>

namespace sextant {
namespace {

constexpr std::int64_t kStepsToCheck = 3;
constexpr std::size_t kMostMessages = 20;

class NotingDevice final : public Device {
 public:
  explicit NotingDevice(const ProgramTables& tables) : tables_(tables) {}
  const DeviceSpec& spec() const override { return spec_; }
  void prepare(const PhysicalGraph&, Rank) override {}
  void launch(std::span<const Launch> group, std::span<Fence> done) override {
    for (std::size_t i = 0; i < group.size(); ++i) {
      done[i] = {tables_.runs[group[i].run.index()].queue,
                 tables_.sequence_of(group[i].run.value, group[i].step)};
      launches.push_back({group[i].run,
                          group[i].step,
                          calls_,
                          done[i],
                          {group[i].waits.begin(), group[i].waits.end()}});
    }
    ++calls_;
  }
  FenceState state(Fence) override { return FenceState::kDone; }
  void wait(Fence) override {}
  std::span<std::byte> host_view(InstanceId, std::int32_t, std::int32_t) override { return {}; }
  std::span<const Stamp> stamps() override { return {}; }

  std::vector<NotedLaunch> launches;

 private:
  const ProgramTables& tables_;
  DeviceSpec spec_;
  std::int64_t calls_ = 0;
};

// By queue: how many launches are known to be complete.
using Known = std::array<std::int64_t, kNumQueueRoles>;

void join(Known& into, const Known& other) {
  for (std::size_t q = 0; q < kNumQueueRoles; ++q) into[q] = std::max(into[q], other[q]);
}

// A use as the check remembers it: index of the launch and the register.
struct PastUse {
  std::int32_t launch = -1;
  std::int32_t frame = -1, reg = -1, content = -1;
};

struct Segment {
  PastUse write;
  // Launches that read since the write: the last one per queue, of the queues in the mask.
  std::array<std::int32_t, kNumQueueRoles> reads;
  std::uint32_t reading_queues = 0;
};

class Checker {
 public:
  Checker(const PhysicalGraph& graph, ProgramId program, const ProgramTables& tables,
          std::vector<NotedLaunch> launches)
      : graph_(graph),
        program_(program),
        tables_(tables),
        uses_(graph, program, tables_, ByteUses::Grain::kPerRegister),
        segments_(at(uses_.num_segments())),
        launches_(std::move(launches)) {}

  std::vector<std::string> check() {
    messages_ = uses_.host_conflicts();
    compute_known();
    for (std::size_t i = 0; i < launches_.size() && messages_.size() < kMostMessages; ++i) {
      check_launch(static_cast<std::int32_t>(i));
    }
    if (messages_.size() > kMostMessages) messages_.resize(kMostMessages);
    return std::move(messages_);
  }

 private:
  // Launches are noted in issue order, and nothing waits for what is issued later.
  void compute_known() {
    before_.resize(launches_.size());
    after_.resize(launches_.size());
    std::array<Known, kNumQueueRoles> queue{};
    for (std::size_t first = 0, end = 0; first < launches_.size(); first = end) {
      Known known{};
      for (end = first; end < launches_.size() && launches_[end].call == launches_[first].call;
           ++end) {
        join(known, queue[static_cast<std::size_t>(launches_[end].fence.queue)]);
        for (const Fence wait : launches_[end].waits) join_wait(known, launches_[end], wait);
      }
      Known done = known;
      for (std::size_t i = first; i < end; ++i) {
        std::int64_t& own = done[static_cast<std::size_t>(launches_[i].fence.queue)];
        own = std::max(own, launches_[i].fence.sequence + 1);
      }
      for (std::size_t i = first; i < end; ++i) {
        before_[i] = known;
        after_[i] = done;
        const auto own = static_cast<std::size_t>(launches_[i].fence.queue);
        queue[own] = done;
        launch_at_[own].push_back(static_cast<std::int32_t>(i));
      }
    }
  }

  void join_wait(Known& known, const NotedLaunch& launch, Fence wait) {
    const std::vector<std::int32_t>& issued = launch_at_[static_cast<std::size_t>(wait.queue)];
    if (wait.sequence < static_cast<std::int64_t>(issued.size())) {
      join(known, after_[at(issued[at(wait.sequence)])]);
    } else {
      report(fmt::format("{} (step {}) waits for launch {} of {}, which is issued later",
                         run_to_text(graph_, program_, launch.run), launch.step, wait.sequence,
                         to_string(wait.queue)));
    }
  }

  void check_launch(std::int32_t launch) {
    const NotedLaunch& noted = launches_[at(launch)];
    const RunEntry& entry = tables_.runs[noted.run.index()];
    const std::int32_t act = graph_.programs[program_.index()].order[noted.run.index()].act;
    for (std::int32_t s = entry.first_site; s < entry.first_site + entry.num_sites; ++s) {
      // Uses come actor by actor, inputs before outputs: the order in which the run makes them.
      if (noted.step == 0) check_operands(s, launch, act);
      for (const SiteUse& use : uses_.of_site(s)) {
        const PastUse now{launch, use.frame, use.reg, uses_.content(use, act)};
        const SegmentRange range = uses_.range(use, act);
        for (std::int32_t i = range.begin; i < range.end; ++i) {
          if (use.writes) {
            const bool updates = use.rate == 0 || act % use.rate != 0;
            if (updates) check_content(segments_[at(i)].write, now);
            write(segments_[at(i)], now);
          } else {
            read(segments_[at(i)], now, entry.queue);
          }
        }
      }
    }
  }

  // A kernel may read its inputs until its last output is written, so what an actor writes shares
  // no byte with what it reads, unless it is said to work in place.
  void check_operands(std::int32_t site, std::int32_t launch, std::int32_t act) {
    const std::span<const SiteUse> uses = uses_.of_site(site);
    for (const SiteUse& out : uses) {
      if (!out.writes) continue;
      const SegmentRange written = uses_.range(out, act);
      for (const SiteUse& in : uses) {
        if (in.writes || in.actor != out.actor || is_in_place(site, in, out)) continue;
        const SegmentRange range = uses_.range(in, act);
        if (range.begin >= written.end || written.begin >= range.end) continue;
        const PastUse now{launch, out.frame, out.reg, uses_.content(out, act)};
        report(fmt::format("{} writes {} over its own input", text(now), register_text(now)));
      }
    }
  }

  // `out` is said to lie in the bytes of `in`, a register of the same block.
  bool is_in_place(std::int32_t site, const SiteUse& in, const SiteUse& out) const {
    const Block& block = graph_.block_of(
        graph_.programs[program_.index()].instances[tables_.sites[at(site)].instance.index()]);
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
    segment.reads[static_cast<std::size_t>(queue)] = now.launch;
    segment.reading_queues |= 1U << static_cast<unsigned>(queue);
  }

  void write(Segment& segment, const PastUse& now) {
    check_order(segment.write, now);
    for (std::size_t queue = 0; segment.reading_queues != 0; ++queue) {
      if ((segment.reading_queues & 1U) != 0)
        check_order(PastUse{segment.reads[queue], -1, -1, -1}, now);
      segment.reading_queues >>= 1U;
    }
    segment.write = now;
  }

  void check_order(const PastUse& earlier, const PastUse& later) {
    if (earlier.launch < 0 || earlier.launch == later.launch) return;
    const Fence fence = launches_[at(earlier.launch)].fence;
    const Known& known = before_[at(later.launch)];
    if (known[static_cast<std::size_t>(fence.queue)] > fence.sequence) return;
    report(fmt::format("{} uses bytes of {} that {} uses{}, and nothing orders them", text(later),
                       register_text(later), text(earlier),
                       earlier.reg < 0 ? "" : " as " + register_text(earlier)));
  }

  // State lies in its own bytes before the first write; anything else is read as it was written.
  void check_content(const PastUse& written, const PastUse& now) {
    const FrameQuota& frame = tables_.frames[at(now.frame)];
    const bool initial = written.launch < 0 && frame.initially_full;
    const bool host = written.launch < 0 && written_by_host(now);
    const bool same = written.frame == now.frame && written.reg == now.reg &&
                      (written.content == now.content || frame.initially_full);
    if (initial || host || same) return;
    if (written.launch < 0) {
      report(fmt::format("{} reads {}, which nobody has written", text(now), register_text(now)));
      return;
    }
    report(fmt::format("{} reads {}, but {} has written {} there", text(now), register_text(now),
                       text(written), register_text(written)));
  }

  // Host actors are not in the issue order: what they write shows as never written.
  bool written_by_host(const PastUse& use) const {
    for (const std::int32_t site : tables_.host_sites) {
      for (const SiteUse& other : uses_.of_site(site)) {
        if (other.writes && other.frame == use.frame && other.reg == use.reg) return true;
      }
    }
    return false;
  }

  std::string text(const PastUse& use) const {
    const NotedLaunch& launch = launches_[at(use.launch)];
    return fmt::format("{} (step {})", run_to_text(graph_, program_, launch.run), launch.step);
  }

  std::string register_text(const PastUse& use) const {
    const FrameQuota& frame = tables_.frames[at(use.frame)];
    const Instance& instance = graph_.programs[program_.index()].instances[frame.instance.index()];
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
  std::vector<Segment> segments_;
  std::vector<NotedLaunch> launches_;
  std::array<std::vector<std::int32_t>, kNumQueueRoles> launch_at_;  // by sequence
  std::vector<Known> before_, after_;                                // by launch
  std::vector<std::string> messages_;
};

}  // namespace

std::vector<NotedLaunch> note_launches(const PhysicalGraph& graph, ProgramId program,
                                       std::shared_ptr<const ProgramTables> tables) {
  const auto rank =
      std::find_if(graph.ranks.begin(), graph.ranks.end(),
                   [&](const RankBinding& binding) { return binding.program == program; });
  require(rank != graph.ranks.end(), ErrorCode::kBadInput, "no rank runs program '{}'",
          graph.programs[program.index()].name);
  NotingDevice device(*tables);
  IdleHostActors host;
  RankRuntime runtime(graph, Rank(static_cast<std::size_t>(rank - graph.ranks.begin())), tables,
                      device, host);
  runtime.run(kStepsToCheck);
  return std::move(device.launches);
}

std::vector<std::string> check_noted_order(const PhysicalGraph& graph, ProgramId program,
                                           const ProgramTables& tables,
                                           std::vector<NotedLaunch> launches) {
  return Checker(graph, program, tables, std::move(launches)).check();
}

std::vector<std::string> check_byte_order(const PhysicalGraph& graph, ProgramId program) {
  const auto tables = std::make_shared<const ProgramTables>(graph, program);
  return check_noted_order(graph, program, *tables, note_launches(graph, program, tables));
}

}  // namespace sextant
