// Contents, not messages, are followed: content k of a frame is made by known acts of its writer,
// read by known acts of its readers, and replaces content k - num_registers.
#include "actor/protocol/program_waits.h"

#include "actor/protocol/launch_queues.h"
#include "actor/protocol/protocol.h"
#include "core/base/at.h"
#include "core/base/check.h"

#include <algorithm>
#include <bit>

namespace sextant {
namespace {

constexpr std::int64_t kRecordedStep = 2;

using ByQueue = ByLaunchQueue<std::int32_t>;
constexpr std::int32_t kNever = -(std::int32_t{1} << 30);  // before any position

// Where a run stands: positions of the step before are negative.
struct RunsByPosition {
  explicit RunsByPosition(const ProgramTables& tables) : per_step(tables.runs_per_step) {
    for (std::size_t r = 0; r < tables.runs.size(); ++r)
      runs[tables.runs[r].queue].push_back(static_cast<std::int32_t>(r));
  }
  ProgramWait wait(QueueRole queue, std::int64_t position) const {
    const std::int32_t lag = position < 0 ? 1 : 0;
    return {runs[queue][at(position + lag * per_step[queue])], lag};
  }

  FixedTable<QueueRole, std::int32_t, kNumQueueRoles> per_step;
  FixedTable<QueueRole, std::vector<std::int32_t>, kNumQueueRoles> runs;
};

// The queues, as bits, whose pending position is some and behind the one waited for.
std::uint32_t needed_queues(const ByQueue& pending, const ByQueue& waited) {
  std::uint32_t needed = 0;
  for (const QueueRole queue : kLaunchQueues) {
    const bool is_needed = pending[queue] != kNever && pending[queue] > waited[queue];
    needed |= (is_needed ? 1U : 0U) << static_cast<unsigned>(queue);
  }
  return needed;
}

// `pending` has the latest positions that each run waits for; what its queue has waited for before
// is left out.
ProgramWaits needed_waits(const ProgramTables& tables, const std::vector<ByQueue>& pending) {
  // What a queue has waited for when a step begins, from the step before.
  ByLaunchQueue<ByQueue> waited;
  for (ByQueue& queues : waited) queues.fill(kNever);
  for (std::size_t r = 0; r < pending.size(); ++r)
    join_largest(waited[tables.runs[r].queue], pending[r]);
  for (ByQueue& queues : waited)
    for (const QueueRole queue : kLaunchQueues) queues[queue] -= tables.runs_per_step[queue];
  const RunsByPosition positions(tables);
  ProgramWaits result;
  result.end.reserve(pending.size());
  result.waits.reserve(pending.size());
  for (std::size_t r = 0; r < pending.size(); ++r) {
    const QueueRole own = tables.runs[r].queue;
    std::uint32_t needed = needed_queues(pending[r], waited[own]);
    needed &= ~(1U << static_cast<unsigned>(own));
    for (; needed != 0; needed &= needed - 1) {
      const auto queue = key_at<QueueRole>(static_cast<std::size_t>(std::countr_zero(needed)));
      const std::int32_t position = pending[r][queue];
      waited[own][queue] = position;
      result.waits.push_back(positions.wait(queue, position));
    }
    result.end.push_back(static_cast<std::int32_t>(result.waits.size()));
  }
  return result;
}

class Contents {
 public:
  explicit Contents(const ProgramTables& tables)
      : tables_(tables), taken_(tables.frames.size()), pending_(tables.runs.size()) {
    first_act_.reserve(tables.sites.size());
    std::int32_t acts = 0;
    for (const Site& site : tables.sites) {
      first_act_.push_back(acts);
      acts += site.is_host() ? 0 : site.acts_per_step;
    }
    run_of_act_.resize(at(acts));
    act_of_site_.resize(tables.sites.size());
    for (std::size_t r = 0; r < tables.runs.size(); ++r) {
      const RunEntry& run = tables.runs[r];
      for (const SiteId s : run.sites())
        run_of_act_[at(first_act_[s] + act_of_site_[s]++)] = static_cast<std::int32_t>(r);
    }
    std::fill(act_of_site_.begin(), act_of_site_.end(), 0);
    for (ByQueue& queues : pending_) queues.fill(kNever);
  }

  // Whether every run is enabled in its turn.
  bool follow() {
    if (!host_actors_are_simple()) return false;
    const auto runs = static_cast<std::int32_t>(tables_.runs.size());
    for (std::int32_t first = 0; first < runs;) {
      launch_ = first;
      launch_size_ = tables_.runs[at(first)].group_size;
      for (run_ = first; run_ < first + launch_size_; ++run_) {
        const RunEntry& run = tables_.runs[at(run_)];
        for (const SiteId site : run.sites()) {
          site_ = site;
          if (!act()) return false;
        }
        for (std::int32_t g = run.first_guard; g < run.first_guard + run.num_guards; ++g) {
          const GuardWait& guard = tables_.guards[at(g)];
          note(guard.queue, guard.position, guard.lag);
        }
      }
      first += launch_size_;
    }
    return true;
  }

  ProgramWaits waits() const { return needed_waits(tables_, pending_); }

 private:
  // Loaders, which only feed, one content per act; and readers, which nothing waits for.
  bool host_actors_are_simple() const {
    return std::all_of(tables_.host_sites.begin(), tables_.host_sites.end(), [&](SiteId host) {
      const Site& site = tables_.sites[host];
      bool feeds = false;
      for (std::int32_t w = site.first_write; w < site.first_write + site.num_writes; ++w) {
        const SiteWrite& write = tables_.writes[at(w)];
        const FrameQuota& frame = tables_.frames[at(write.frame)];
        if (frame.acts_per_content != 1 || frame.initially_full) return false;
        for (std::int32_t c = frame.first_channel; c < frame.first_channel + frame.num_channels;
             ++c) {
          const Channel& channel = tables_.channels[at(c)];
          if (channel.producer != host || (channel.to_host && !channel.acks_itself())) return false;
          feeds = feeds || !channel.acks_itself();
        }
      }
      for (std::int32_t i = site.first_input; i < site.first_input + site.num_inputs; ++i)
        if (tables_.channels[at(tables_.inputs[at(i)])].from_host) return false;
      return !feeds || site.num_inputs == 0;
    });
  }

  std::int32_t run_of(SiteId site, std::int32_t act) const {
    return run_of_act_[at(first_act_[site] + act)];
  }

  void note(QueueRole queue, std::int32_t position, std::int32_t lag) {
    std::int32_t& pending = pending_[at(run_)][queue];
    pending = std::max(pending, position - lag * tables_.runs_per_step[queue]);
  }
  void note(std::int32_t run, std::int32_t lag) {
    note(tables_.runs[at(run)].queue, tables_.runs[at(run)].position, lag);
  }

  // What this run waits for in the same step must have been posted: by an earlier launch or, in a
  // launch of one run, by an earlier site of it.
  bool has_posted(std::int32_t run, SiteId site) const {
    return run < launch_ || (run == run_ && launch_size_ == 1 && site < site_);
  }
  bool await(std::int32_t run, SiteId site, std::int32_t lag) {
    if (lag == 0 && !has_posted(run, site)) return false;
    note(run, lag);
    return true;
  }

  // The content that begins with an act, or -1. Most rates are 1, and a division takes as long as
  // the rest.
  static std::int32_t content_begun(std::int32_t act, std::int32_t rate) {
    if (rate == 1) return act;
    return act % rate == 0 ? act / rate : -1;
  }

  bool act() {
    const Site& site = tables_.sites[site_];
    const std::int32_t act = act_of_site_[site_]++;
    for (std::int32_t i = site.first_input; i < site.first_input + site.num_inputs; ++i) {
      const Channel& channel = tables_.channels[at(tables_.inputs[at(i)])];
      const std::int32_t content = content_begun(act, channel.consume_for);
      if (content >= 0 && !await_content(channel, content)) return false;
    }
    for (std::int32_t w = site.first_write; w < site.first_write + site.num_writes; ++w) {
      const std::int32_t f = tables_.writes[at(w)].frame;
      const FrameQuota& frame = tables_.frames[at(f)];
      const std::int32_t content = content_begun(act, frame.acts_per_content);
      // A frame of several writers takes its credit once.
      if (content != taken_[at(f)]) continue;
      ++taken_[at(f)];
      if (!await_credit(frame, content)) return false;
    }
    return true;
  }

  // The run that makes a content of this step; of state, content 0 is from the step before.
  bool await_made(const FrameQuota& frame, SiteId producer, std::int32_t content) {
    const std::int32_t act =
        (frame.initially_full ? content : content + 1) * frame.acts_per_content;
    if (act == 0)
      return await(run_of(producer, tables_.sites[producer].acts_per_step - 1), producer, 1);
    return await(run_of(producer, act - 1), producer, 0);
  }

  bool await_content(const Channel& channel, std::int32_t content) {
    const FrameQuota& frame = tables_.frames[at(channel.frame)];
    if (!channel.from_host) return await_made(frame, channel.producer, content);
    // A loader makes it as soon as its registers are free, all of them; nothing waits for it.
    const Site& loader = tables_.sites[channel.producer];
    for (std::int32_t w = loader.first_write; w < loader.first_write + loader.num_writes; ++w)
      if (!is_released(tables_.frames[at(tables_.writes[at(w)].frame)], content)) return false;
    return true;
  }

  // Of a frame that a loader fills: whether content `content` has found a free register.
  bool is_released(const FrameQuota& frame, std::int32_t content) const {
    const std::int32_t freed = content - frame.num_registers;
    for (std::int32_t c = frame.first_channel;
         freed >= 0 && c < frame.first_channel + frame.num_channels; ++c) {
      const Channel& channel = tables_.channels[at(c)];
      if (channel.acks_itself()) continue;
      if (run_of(channel.consumer, (freed + 1) * channel.consume_for - 1) >= launch_) return false;
    }
    return true;
  }

  // For content `content` to be written: the one whose place it takes is acked by all readers. Of
  // state that is the content before, which is read in this step.
  bool await_credit(const FrameQuota& frame, std::int32_t content) {
    std::int32_t freed = frame.initially_full ? content : content - frame.num_registers;
    const std::int32_t lag = freed < 0 ? 1 : 0;
    if (lag == 1) freed += frame.contents_per_step;
    for (std::int32_t c = frame.first_channel; c < frame.first_channel + frame.num_channels; ++c)
      if (!await_ack(frame, tables_.channels[at(c)], freed, lag)) return false;
    return true;
  }

  bool await_ack(const FrameQuota& frame, const Channel& channel, std::int32_t content,
                 std::int32_t lag) {
    if (channel.acks_itself()) {
      if (lag == 0) return await_made(frame, channel.producer, content);
      return await(run_of(channel.producer, (content + 1) * frame.acts_per_content - 1),
                   channel.producer, 1);
    }
    if (channel.to_host) return lag == 1 || is_read(channel.consumer, content, channel.consume_for);
    return await(run_of(channel.consumer, (content + 1) * channel.consume_for - 1),
                 channel.consumer, lag);
  }

  // Whether a reader on the host has all that its acts on a content need; nothing waits for it.
  bool is_read(SiteId reader, std::int32_t content, std::int32_t consume_for) const {
    const std::int32_t act = (content + 1) * consume_for - 1;
    const Site& site = tables_.sites[reader];
    for (std::int32_t i = site.first_input; i < site.first_input + site.num_inputs; ++i) {
      const Channel& channel = tables_.channels[at(tables_.inputs[at(i)])];
      const FrameQuota& frame = tables_.frames[at(channel.frame)];
      const std::int32_t wanted = act / channel.consume_for;
      const std::int32_t made =
          (frame.initially_full ? wanted : wanted + 1) * frame.acts_per_content;
      if (made > 0 && run_of(channel.producer, made - 1) >= launch_) return false;
    }
    return true;
  }

  const ProgramTables& tables_;
  Table<SiteId, std::int32_t> first_act_, act_of_site_;
  std::vector<std::int32_t> run_of_act_;  // by first_act_ of the site and act
  std::vector<std::int32_t> taken_;       // contents of this step, by frame
  std::vector<ByQueue> pending_;          // by run: the latest positions it waits for
  std::int32_t launch_ = 0, launch_size_ = 1, run_ = 0;
  SiteId site_;
};

}  // namespace

ProgramWaits stepped_waits(const ProgramTables& tables) {
  Protocol protocol(tables);
  const RunsByPosition positions(tables);
  ProgramWaits result;
  const auto runs = static_cast<std::int32_t>(tables.runs.size());
  for (std::int64_t step = 0; step <= kRecordedStep; ++step) {
    protocol.run_host_actors_freely(step + 1);
    for (std::int32_t run = 0; run < runs; run += tables.runs[at(run)].group_size) {
      [[maybe_unused]] const std::optional<Blocker> blocker = protocol.issue(run, step);
      SEXTANT_INVARIANT(!blocker.has_value(), "run {} of an accepted order is not enabled", run);
      protocol.run_host_actors_freely(step + 1);
      for (std::int32_t m = 0; step == kRecordedStep && m < tables.runs[at(run)].group_size; ++m) {
        for (const Fence fence : protocol.waits(m)) {
          const std::int32_t per_step = tables.runs_per_step[fence.queue];
          const std::int64_t position = fence.sequence - step * per_step;
          // No frame has more registers than contents per step, so a credit is at most one step
          // old.
          SEXTANT_INVARIANT(position >= -per_step, "run {} waits more than one step back", run);
          result.waits.push_back(positions.wait(fence.queue, position));
        }
        result.end.push_back(static_cast<std::int32_t>(result.waits.size()));
      }
    }
  }
  return result;
}

// What messages make a run wait for and was left out, its queue has waited for before: with guards
// it is left out too.
ProgramWaits with_guards(const ProgramWaits& unguarded, const ProgramTables& guarded) {
  std::vector<ByQueue> pending(guarded.runs.size());
  for (std::int32_t r = 0; r < size_of(guarded.runs); ++r) {
    ByQueue& latest = at(pending, r);
    latest.fill(kNever);
    const auto note = [&](QueueRole queue, std::int32_t position, std::int32_t lag) {
      latest[queue] = std::max(latest[queue], position - lag * guarded.runs_per_step[queue]);
    };
    for (const ProgramWait& wait : unguarded.of(r)) {
      const RunEntry& awaited = at(guarded.runs, wait.run);
      note(awaited.queue, awaited.position, wait.lag);
    }
    const RunEntry& run = at(guarded.runs, r);
    for (std::int32_t g = run.first_guard; g < run.first_guard + run.num_guards; ++g) {
      const GuardWait& guard = at(guarded.guards, g);
      note(guard.queue, guard.position, guard.lag);
    }
  }
  return needed_waits(guarded, pending);
}

std::optional<ProgramWaits> direct_waits(const ProgramTables& tables) {
  Contents contents(tables);
  if (!contents.follow()) return std::nullopt;
  return contents.waits();
}

}  // namespace sextant
