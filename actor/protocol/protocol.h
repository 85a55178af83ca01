// The counters of one rank: credits, Req and Ack, and the fences each launch waits for. Knows no
// device and no thread; the dry run, the runtime and the byte checks all drive this one class.
#pragma once

#include "actor/protocol/device.h"
#include "actor/protocol/program_tables.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sextant {

// Which sites' counters an object keeps. Messages to the other side are put in its outbox.
enum class SiteOwner : std::uint8_t { kAll, kLaunchThread, kHostThread };

// Posted to the site at the other end of a channel.
struct Message {
  enum class Kind : std::uint8_t { kReq, kAck };
  Kind kind = Kind::kReq;
  std::int32_t channel = 0;
  Fence fence;  // sequence -1: nothing to wait for
};

// Why a site cannot act.
struct Blocker {
  enum class Kind : std::uint8_t { kContent, kCredit };
  Kind kind = Kind::kContent;
  std::int32_t run = 0;      // that is blocked
  SiteId site;               // that is blocked
  std::int32_t channel = 0;  // that has not been Req'ed (kContent) or acked (kCredit)
  SiteId owing_site;
  bool owed_by_host = false;
};

// Sequence of the fences posted in either direction of a channel.
struct ChannelHash {
  std::uint64_t req = 0, ack = 0;
  bool operator==(const ChannelHash&) const = default;
};

class Protocol {
 public:
  explicit Protocol(const ProgramTables& tables, SiteOwner owner = SiteOwner::kAll);

  // Takes the inputs and credits of the launch that begins with `run`, collects its waits, posts
  // its Reqs and Acks with the fences it will have. On a blocker nothing is launched; call again
  // with the same arguments once a message came. Runs must be issued in order.
  std::optional<Blocker> issue(std::int32_t run, std::int64_t step);
  // Of member `member` of the last launch: at most one per queue, never of its own queue, nothing
  // that its queue has waited for before.
  std::span<const Fence> waits(std::int32_t member = 0) const;
  Fence fence_of(std::int32_t run, std::int64_t step) const {
    const RunEntry& entry = of(tables_->runs, run);
    return {entry.queue, step * tables_->runs_per_step[entry.queue] + entry.position};
  }

  // Host actors. `enabled` says whether the next act may take place; `begin` takes its inputs and
  // credits and appends the fences it must wait for; `finish` posts.
  bool host_act_enabled(SiteId site) const;
  void begin_host_act(SiteId site, std::vector<Fence>& waits);
  void finish_host_act(SiteId site);
  std::int64_t acts_of(SiteId site) const { return sites_[site].acts; }
  // True once after a message went to a host actor.
  bool take_host_touched() { return std::exchange(host_touched_, false); }
  // Lets every host actor act whenever it is enabled, through step `steps` - 1.
  void run_host_actors_freely(std::int64_t steps);

  // Messages for the sites of the other owner, in the order they were posted.
  std::span<const Message> outbox() const { return outbox_; }
  void clear_outbox() { outbox_.clear(); }
  void receive(const Message& message);

  // Every counter is where it was before the first step (invariant 6). Else the text names one that
  // is not.
  std::optional<std::string> not_returned(const PhysicalGraph& graph, ProgramId program) const;
  // Between two steps: whether all is as it was in `earlier`, one step before, with every fence a
  // step later. From then on every step posts and takes what the one before did, a step later. What
  // queues have waited for is left out: it says which waits need not be issued again.
  bool repeats(const Protocol& earlier) const;
  // Of everything posted by sites of the launch thread, over all channels and both directions.
  std::uint64_t message_hash() const;
  // Reqs and Acks that were handled where they were posted, without the outbox.
  std::int64_t direct_messages() const;

 private:
  struct SiteState {
    std::int64_t acts = 0;
  };
  struct ChannelState {
    std::int64_t reqs = 0, consumed = 0, acks = 0;
    std::int32_t acts_of_content = 0;                  // consumer: acts served by its content
    std::int32_t req_at = 0, read_at = 0, ack_at = 0;  // positions in the rings
    std::int32_t registers = 1;                        // of its frame: the length of the rings
    ChannelHash hash;
  };
  struct FrameState {
    std::int64_t taken = 0, released = 0;
    std::int32_t take_at = 0;
  };
  struct WriteState {
    std::int64_t contents = 0;  // number of the content being written
    std::int32_t acts_of_content = 0;
  };

  // A sequence that stands for none: less than all.
  static constexpr std::int64_t kNothing = -1;
  // Numbers in tables are those of tables: their bounds hold since these were built. Looking at
  // them in every act, and walking what it reads and writes three times, took 40 % more.
  template <typename T>
  static T& of(std::vector<T>& all, std::int32_t i) {
    return all.data()[i];
  }
  template <typename T>
  static const T& of(const std::vector<T>& all, std::int32_t i) {
    return all.data()[i];
  }
  template <typename Key, typename T>
  static T& of(Table<Key, T>& all, Key key) {
    return of(all.values(), key.value);
  }
  template <typename Key, typename T>
  static const T& of(const Table<Key, T>& all, Key key) {
    return of(all.values(), key.value);
  }
  bool keeps(bool host_site) const {
    return owner_ == SiteOwner::kAll || host_site == (owner_ == SiteOwner::kHostThread);
  }
  // In line where they are called: 6 % of an act.
  [[gnu::always_inline]] inline bool is_credit_missing(std::int32_t write) const;
  [[gnu::always_inline]] inline bool may_act(const Site& site) const;
  [[gnu::always_inline]] inline void take_input(std::int32_t channel);
  [[gnu::always_inline]] inline void take_write(std::int32_t write);
  [[gnu::always_inline]] inline void post_input(std::int32_t channel, Fence fence);
  [[gnu::always_inline]] inline void post_write(std::int32_t write, Fence fence);
  [[gnu::always_inline]] inline void take_and_post(SiteId site, Fence fence);
  // What keeps the site from acting; it may not act now.
  Blocker missing(SiteId site) const;
  Blocker missing_credit(const FrameQuota& frame, const FrameState& state) const;
  void take(SiteId site);
  void post(SiteId site, Fence fence);
  [[gnu::always_inline]] inline void send(Message::Kind kind, std::int32_t channel, Fence fence);
  void apply_req(std::int32_t channel, Fence fence);
  void apply_ack(std::int32_t channel, Fence fence);
  void wait_for(Fence fence) {
    if (fence.sequence < 0) return;
    std::int64_t& pending = pending_[fence.queue];
    if (pending < fence.sequence) pending = fence.sequence;
    pending_queues_ |= 1U << static_cast<unsigned>(fence.queue);
  }
  void wait_for_guards(const RunEntry& run, std::int64_t step);
  void settle_waits(const RunEntry& run);
  bool channel_repeats(const Protocol& earlier, std::int32_t channel) const;
  bool frame_repeats(const Protocol& earlier, std::int32_t frame) const;
  bool is_step_later(Fence fence, Fence earlier) const {
    if (fence.sequence < 0 || earlier.sequence < 0) return fence.sequence == earlier.sequence;
    return fence.queue == earlier.queue &&
           fence.sequence == earlier.sequence + tables_->runs_per_step[fence.queue];
  }
  void advance(std::int32_t& position, std::int32_t num_registers) const {
    if (++position == num_registers) position = 0;
  }
  std::int32_t registers_of(std::int32_t channel) const { return of(channels_, channel).registers; }

  const ProgramTables* tables_;
  SiteOwner owner_;
  Table<SiteId, SiteState> sites_;
  std::vector<ChannelState> channels_;
  std::vector<FrameState> frames_;
  std::vector<WriteState> writes_;
  std::vector<Fence> req_fences_, ack_fences_;
  std::vector<std::int32_t> references_;  // channels that have not acked, by frame and content
  std::vector<Message> outbox_;
  bool host_touched_ = false;

  // The launch being put together.
  std::int32_t member_ = 0, site_of_member_ = 0;  // where it goes on after a blocker
  FixedTable<QueueRole, std::int64_t, kNumQueueRoles> pending_;
  std::uint32_t pending_queues_ = 0;
  std::vector<Fence> waits_;
  std::vector<std::int32_t> waits_end_;  // by member
  // By the queue that has waited: what for.
  FixedTable<QueueRole, FixedTable<QueueRole, std::int64_t, kNumQueueRoles>, kNumQueueRoles>
      waited_;
};

// "run 5: ... needs a credit of frame 0 of layer0.forward: content not acked by layer1.backward".
std::string to_text(const Blocker& blocker, const ProgramTables& tables, const PhysicalGraph& graph,
                    ProgramId program);

}  // namespace sextant
