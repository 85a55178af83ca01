// take -> collect waits -> post, on flat counters; nothing here allocates after the constructor.
#include "actor/protocol/protocol.h"

#include "actor/protocol/mix.h"
#include "core/base/check.h"

#include <algorithm>

namespace sextant {
namespace {

std::uint64_t key_of(Fence fence) {
  return static_cast<std::uint64_t>(fence.sequence + 1) * kNumQueueRoles +
         static_cast<std::uint64_t>(fence.queue);
}

}  // namespace

Protocol::Protocol(const ProgramTables& tables, SiteOwner owner)
    : tables_(&tables),
      owner_(owner),
      sites_(tables.sites.size()),
      channels_(tables.channels.size()),
      frames_(tables.frames.size()),
      writes_(tables.writes.size()),
      req_fences_(at(tables.num_channel_fences)),
      ack_fences_(at(tables.num_channel_fences)),
      references_(at(tables.num_frame_counters)) {
  outbox_.reserve(tables.channels.size());
  waits_.reserve(at(tables.max_group_size) * kNumQueueRoles);
  waits_end_.reserve(at(tables.max_group_size));
  pending_.fill(kNothing);
  for (auto& queue : waited_) queue.fill(kNothing);
  for (const FrameQuota& frame : tables.frames) {
    std::fill_n(references_.begin() + frame.ring, frame.num_registers, frame.num_channels);
  }
  for (std::size_t c = 0; c < channels_.size(); ++c)
    channels_[c].registers = tables.frames[at(tables.channels[c].frame)].num_registers;
  for (std::size_t w = 0; w < tables.writes.size(); ++w) {
    if (tables.frames[at(tables.writes[w].frame)].initially_full) writes_[w].contents = 1;
  }
  // Content 0 of state exists: taken, Req'ed to all readers, acked where nobody reads.
  for (std::size_t f = 0; f < tables.frames.size(); ++f) {
    const FrameQuota& frame = tables.frames[f];
    if (!frame.initially_full) continue;
    frames_[f].taken = 1;
    for (std::int32_t c = frame.first_channel; c < frame.first_channel + frame.num_channels; ++c) {
      apply_req(c, Fence{});
      if (tables.channels[at(c)].acks_itself()) apply_ack(c, Fence{});
    }
  }
}

bool Protocol::is_credit_missing(std::int32_t w) const {
  const WriteState& write = of(writes_, w);
  const std::int32_t f = of(tables_->writes, w).frame;
  const FrameState& frame = of(frames_, f);
  const bool takes = write.acts_of_content == 0 && write.contents == frame.taken;
  return takes && frame.taken - frame.released >= of(tables_->frames, f).num_registers;
}

bool Protocol::may_act(const Site& site) const {
  for (std::int32_t i = 0; i < site.num_inputs; ++i) {
    const ChannelState& channel = of(channels_, of(tables_->inputs, site.first_input + i));
    if (channel.reqs <= channel.consumed) return false;
  }
  for (std::int32_t w = 0; w < site.num_writes; ++w)
    if (is_credit_missing(site.first_write + w)) return false;
  return true;
}

Blocker Protocol::missing(SiteId site) const {
  const Site& entry = of(tables_->sites, site);
  for (std::int32_t i = entry.first_input; i < entry.first_input + entry.num_inputs; ++i) {
    const std::int32_t c = of(tables_->inputs, i);
    const ChannelState& channel = of(channels_, c);
    if (channel.reqs > channel.consumed) continue;
    Blocker blocker;
    blocker.kind = Blocker::Kind::kContent;
    blocker.channel = c;
    blocker.owing_site = of(tables_->channels, c).producer;
    blocker.owed_by_host = of(tables_->sites, blocker.owing_site).is_host();
    return blocker;
  }
  for (std::int32_t w = entry.first_write; w < entry.first_write + entry.num_writes; ++w) {
    if (!is_credit_missing(w)) continue;
    const std::int32_t f = of(tables_->writes, w).frame;
    return missing_credit(of(tables_->frames, f), of(frames_, f));
  }
  fail(ErrorCode::kInternal, "site {} waits for nothing", site);
}

// A device site that owes is named before a host actor: only host actors are worth waiting for.
Blocker Protocol::missing_credit(const FrameQuota& frame, const FrameState& state) const {
  Blocker blocker;
  blocker.kind = Blocker::Kind::kCredit;
  bool found = false;
  for (std::int32_t c = frame.first_channel; c < frame.first_channel + frame.num_channels; ++c) {
    if (of(channels_, c).acks > state.released) continue;
    const Channel& channel = of(tables_->channels, c);
    const SiteId owing = channel.acks_itself() ? channel.producer : channel.consumer;
    const bool host = of(tables_->sites, owing).is_host();
    if (found && host) continue;
    found = true;
    blocker.channel = c;
    blocker.owing_site = owing;
    blocker.owed_by_host = host;
  }
  return blocker;
}

void Protocol::send(Message::Kind kind, std::int32_t c, Fence fence) {
  const Channel& channel = of(tables_->channels, c);
  ChannelHash& hash = of(channels_, c).hash;
  host_touched_ = host_touched_ || channel.from_host || channel.to_host;
  if (kind == Message::Kind::kReq) {
    mix(hash.req, key_of(fence));
    if (channel.acks_itself()) {
      apply_req(c, fence);
      mix(hash.ack, key_of(fence));
      apply_ack(c, fence);
    } else if (keeps(channel.to_host)) {
      apply_req(c, fence);
    } else {
      outbox_.push_back({kind, c, fence});
    }
  } else {
    mix(hash.ack, key_of(fence));
    if (keeps(channel.from_host)) {
      apply_ack(c, fence);
    } else {
      outbox_.push_back({kind, c, fence});
    }
  }
}

void Protocol::take_input(std::int32_t c) {
  const ChannelState& channel = of(channels_, c);
  // Later acts on the same content are on the same queue, behind the one that waited.
  if (channel.acts_of_content > 0) return;
  wait_for(of(req_fences_, of(tables_->channels, c).ring + channel.read_at));
}

void Protocol::take_write(std::int32_t w) {
  const WriteState& write = of(writes_, w);
  const std::int32_t f = of(tables_->writes, w).frame;
  FrameState& frame = of(frames_, f);
  if (write.acts_of_content > 0 || write.contents != frame.taken) return;
  const FrameQuota& quota = of(tables_->frames, f);
  for (std::int32_t c = quota.first_channel; c < quota.first_channel + quota.num_channels; ++c) {
    wait_for(of(ack_fences_, of(tables_->channels, c).ring + frame.take_at));
  }
  ++frame.taken;
  advance(frame.take_at, quota.num_registers);
  SEXTANT_INVARIANT(frame.taken - frame.released <= quota.num_registers,
                    "invariant 1: frame {} of instance {}: content {} taken with {} released of {}",
                    quota.frame, quota.instance.value, frame.taken - 1, frame.released,
                    quota.num_registers);
}

void Protocol::post_input(std::int32_t c, Fence fence) {
  ChannelState& state = of(channels_, c);
  if (++state.acts_of_content < of(tables_->channels, c).consume_for) return;
  state.acts_of_content = 0;
  ++state.consumed;
  advance(state.read_at, registers_of(c));
  send(Message::Kind::kAck, c, fence);
}

void Protocol::post_write(std::int32_t w, Fence fence) {
  const SiteWrite& write = of(tables_->writes, w);
  WriteState& state = of(writes_, w);
  if (++state.acts_of_content < of(tables_->frames, write.frame).acts_per_content) return;
  state.acts_of_content = 0;
  ++state.contents;
  for (std::int32_t c = write.first_channel; c < write.first_channel + write.num_channels; ++c) {
    send(Message::Kind::kReq, c, fence);
  }
}

void Protocol::take(SiteId site) {
  const Site& entry = of(tables_->sites, site);
  for (std::int32_t i = 0; i < entry.num_inputs; ++i)
    take_input(of(tables_->inputs, entry.first_input + i));
  for (std::int32_t w = 0; w < entry.num_writes; ++w) take_write(entry.first_write + w);
}

void Protocol::post(SiteId site, Fence fence) {
  const Site& entry = of(tables_->sites, site);
  for (std::int32_t i = 0; i < entry.num_inputs; ++i)
    post_input(of(tables_->inputs, entry.first_input + i), fence);
  for (std::int32_t w = 0; w < entry.num_writes; ++w) post_write(entry.first_write + w, fence);
  ++of(sites_, site).acts;
}

// As take() and then post(), in one pass: a site that acts alone reads no frame that it writes.
void Protocol::take_and_post(SiteId site, Fence fence) {
  const Site& entry = of(tables_->sites, site);
  for (std::int32_t i = 0; i < entry.num_inputs; ++i) {
    const std::int32_t c = of(tables_->inputs, entry.first_input + i);
    take_input(c);
    post_input(c, fence);
  }
  for (std::int32_t w = 0; w < entry.num_writes; ++w) {
    take_write(entry.first_write + w);
    post_write(entry.first_write + w, fence);
  }
  ++of(sites_, site).acts;
}

void Protocol::receive(const Message& message) {
  SEXTANT_INVARIANT(message.channel >= 0 && at(message.channel) < channels_.size(),
                    "a message for channel {} of {}", message.channel, channels_.size());
  if (message.kind == Message::Kind::kReq) {
    apply_req(message.channel, message.fence);
  } else {
    apply_ack(message.channel, message.fence);
  }
}

void Protocol::apply_req(std::int32_t c, Fence fence) {
  const Channel& channel = of(tables_->channels, c);
  ChannelState& state = of(channels_, c);
  SEXTANT_INVARIANT(
      state.reqs - (channel.acks_itself() ? state.acks : state.consumed) < registers_of(c),
      "invariant 1: channel {}: Req {} with {} consumed of {} registers", c, state.reqs,
      state.consumed, registers_of(c));
  of(req_fences_, channel.ring + state.req_at) = fence;
  advance(state.req_at, registers_of(c));
  ++state.reqs;
}

void Protocol::apply_ack(std::int32_t c, Fence fence) {
  const Channel& channel = of(tables_->channels, c);
  const FrameQuota& quota = of(tables_->frames, channel.frame);
  FrameState& frame = of(frames_, channel.frame);
  ChannelState& state = of(channels_, c);
  SEXTANT_INVARIANT(state.acks < frame.taken, "invariant 4: channel {}: Ack {} of {} contents", c,
                    state.acks, frame.taken);
  of(ack_fences_, channel.ring + state.ack_at) = fence;
  std::int32_t& references = of(references_, quota.ring + state.ack_at);
  SEXTANT_INVARIANT(references > 0, "invariant 1: channel {}: Ack {} of a free content", c,
                    state.acks);
  if (--references == 0) {
    references = quota.num_channels;
    SEXTANT_INVARIANT(state.acks == frame.released,
                      "invariant 4: channel {}: content {} released before content {}", c,
                      state.acks, frame.released);
    ++frame.released;
  }
  advance(state.ack_at, quota.num_registers);
  ++state.acks;
}

void Protocol::wait_for_guards(const RunEntry& run, std::int64_t step) {
  for (std::int32_t g = run.first_guard; g < run.first_guard + run.num_guards; ++g) {
    const GuardWait& guard = of(tables_->guards, g);
    if (guard.lag > step) continue;
    const std::int64_t per_step = tables_->runs_per_step[guard.queue];
    wait_for({guard.queue, (step - guard.lag) * per_step + guard.position});
  }
}

void Protocol::settle_waits(const RunEntry& run) {
  auto& waited = waited_[run.queue];
  for (std::size_t place = 0; pending_queues_ != 0; ++place, pending_queues_ >>= 1U) {
    if ((pending_queues_ & 1U) == 0) continue;
    const auto queue = key_at<QueueRole>(place);
    const std::int64_t sequence = pending_[queue];
    pending_[queue] = kNothing;
    if (queue == run.queue || sequence <= waited[queue]) continue;
    waited[queue] = sequence;
    waits_.push_back({queue, sequence});
  }
  waits_end_.push_back(static_cast<std::int32_t>(waits_.size()));
}

std::optional<Blocker> Protocol::issue(std::int32_t run, std::int64_t step) {
  const std::int32_t members = of(tables_->runs, run).group_size;
  SEXTANT_INVARIANT(members >= 1, "run {} is inside a launch group", run);
  if (member_ == 0 && site_of_member_ == 0) {
    waits_.clear();
    waits_end_.clear();
  }
  for (; member_ < members; ++member_) {
    const RunEntry& entry = of(tables_->runs, run + member_);
    for (; site_of_member_ < entry.num_sites; ++site_of_member_) {
      const SiteId site = entry.first_site.plus(site_of_member_);
      if (!may_act(of(tables_->sites, site))) [[unlikely]] {
        Blocker blocker = missing(site);
        blocker.run = run + member_;
        blocker.site = site;
        return blocker;
      }
      // A run of several sites may feed itself. Members of a group may not: all of them take before
      // any posts, so that the group is enabled as one.
      if (members == 1)
        take_and_post(site, fence_of(run, step));
      else
        take(site);
    }
    site_of_member_ = 0;
    wait_for_guards(entry, step);
    settle_waits(entry);
  }
  member_ = 0;
  for (std::int32_t m = 0; members > 1 && m < members; ++m) {
    post(of(tables_->runs, run + m).first_site, fence_of(run + m, step));
  }
  return std::nullopt;
}

std::span<const Fence> Protocol::waits(std::int32_t member) const {
  const std::int32_t begin = member == 0 ? 0 : waits_end_[at(member - 1)];
  return std::span(waits_).subspan(at(begin), at(waits_end_[at(member)] - begin));
}

bool Protocol::host_act_enabled(SiteId site) const { return may_act(of(tables_->sites, site)); }

void Protocol::begin_host_act(SiteId site, std::vector<Fence>& waits) {
  take(site);
  for (const QueueRole queue : pending_.keys()) {
    if (pending_[queue] >= 0) waits.push_back({queue, pending_[queue]});
  }
  pending_.fill(kNothing);
  pending_queues_ = 0;
}

void Protocol::finish_host_act(SiteId site) { post(site, Fence{QueueRole::kHost, -1}); }

void Protocol::run_host_actors_freely(std::int64_t steps) {
  std::vector<Fence> waits;
  for (bool acted = true; acted;) {
    acted = false;
    for (const SiteId site : tables_->host_sites) {
      while (acts_of(site) < steps * of(tables_->sites, site).acts_per_step &&
             host_act_enabled(site)) {
        waits.clear();
        begin_host_act(site, waits);
        finish_host_act(site);
        acted = true;
      }
    }
  }
}

std::optional<std::string> Protocol::not_returned(const PhysicalGraph& graph,
                                                  ProgramId program) const {
  for (std::size_t f = 0; f < frames_.size(); ++f) {
    const FrameQuota& quota = tables_->frames[f];
    if (quota.num_channels == 0) continue;
    bool all_read = true;
    for (std::int32_t c = quota.first_channel; c < quota.first_channel + quota.num_channels; ++c) {
      all_read = all_read && tables_->channels[at(c)].acks_itself();
    }
    // State that somebody reads is waiting to be read: one content is out, as at the start.
    const std::int64_t out = quota.initially_full && !all_read ? 1 : 0;
    if (frames_[f].taken - frames_[f].released == out) continue;
    const std::string& instance = graph.programs[program].instances[quota.instance].name;
    return fmt::format("frame {} of '{}': {} contents are out, {} at the start", quota.frame,
                       instance, frames_[f].taken - frames_[f].released, out);
  }
  return std::nullopt;
}

bool Protocol::repeats(const Protocol& earlier) const {
  for (const SiteId s : sites_.keys())
    if (sites_[s].acts - earlier.sites_[s].acts != tables_->sites[s].acts_per_step) return false;
  for (std::size_t w = 0; w < writes_.size(); ++w) {
    const auto ahead = [&](const Protocol& of) {
      return of.writes_[w].contents - of.frames_[at(tables_->writes[w].frame)].taken;
    };
    if (writes_[w].acts_of_content != earlier.writes_[w].acts_of_content ||
        ahead(*this) != ahead(earlier))
      return false;
  }
  for (std::int32_t f = 0; at(f) < frames_.size(); ++f)
    if (!frame_repeats(earlier, f)) return false;
  for (std::int32_t c = 0; at(c) < channels_.size(); ++c)
    if (!channel_repeats(earlier, c)) return false;
  return outbox_.empty() && earlier.outbox_.empty();
}

// Counters of contents in flight, from where the next content is taken.
bool Protocol::frame_repeats(const Protocol& earlier, std::int32_t f) const {
  const FrameQuota& quota = tables_->frames[at(f)];
  const FrameState &now = frames_[at(f)], &then = earlier.frames_[at(f)];
  if (now.taken - now.released != then.taken - then.released) return false;
  std::int32_t place = now.take_at, like = then.take_at;
  for (std::int32_t i = 0; i < quota.num_registers; ++i) {
    if (references_[at(quota.ring + place)] != earlier.references_[at(quota.ring + like)])
      return false;
    advance(place, quota.num_registers);
    advance(like, quota.num_registers);
  }
  return true;
}

// Rings from where the next content comes, the oldest fences first.
bool Protocol::channel_repeats(const Protocol& earlier, std::int32_t c) const {
  const Channel& channel = tables_->channels[at(c)];
  const ChannelState &now = channels_[at(c)], &then = earlier.channels_[at(c)];
  const std::int32_t registers = registers_of(c);
  const auto before = [&](std::int32_t a, std::int32_t b) {
    return (a - b + registers) % registers;
  };
  const auto take_at = [&](const Protocol& of) { return of.frames_[at(channel.frame)].take_at; };
  // Nobody consumes what acks itself.
  if (!channel.acks_itself() &&
      (now.reqs - now.consumed != then.reqs - then.consumed ||
       now.acts_of_content != then.acts_of_content ||
       before(now.req_at, now.read_at) != before(then.req_at, then.read_at)))
    return false;
  if (now.reqs - now.acks != then.reqs - then.acks ||
      before(take_at(*this), now.ack_at) != before(take_at(earlier), then.ack_at))
    return false;
  for (std::int32_t i = 0; i < registers; ++i) {
    const auto fence = [&](const std::vector<Fence>& fences, std::int32_t from) {
      return fences[at(channel.ring + (from + i) % registers)];
    };
    if (!is_step_later(fence(req_fences_, now.req_at), fence(earlier.req_fences_, then.req_at)) ||
        !is_step_later(fence(ack_fences_, now.ack_at), fence(earlier.ack_fences_, then.ack_at)))
      return false;
  }
  return true;
}

std::uint64_t Protocol::message_hash() const {
  std::uint64_t hash = 0;
  for (std::size_t c = 0; c < channels_.size(); ++c) {
    const Channel& channel = tables_->channels[c];
    if (channel.from_host && channel.to_host) continue;
    mix(hash, channel.from_host ? 0 : channels_[c].hash.req);
    mix(hash, channel.to_host ? 0 : channels_[c].hash.ack);
  }
  return hash;
}

std::int64_t Protocol::direct_messages() const {
  std::int64_t messages = 0;
  for (std::size_t c = 0; c < channels_.size(); ++c) {
    const Channel& channel = tables_->channels[c];
    if (!keeps(channel.from_host) || !keeps(channel.to_host)) continue;
    const ChannelState& state = channels_[c];
    messages += state.reqs + state.acks;
    if (!tables_->frames[at(channel.frame)].initially_full) continue;
    messages -= channel.acks_itself() ? 2 : 1;  // there from the start
  }
  return messages;
}

std::string to_text(const Blocker& blocker, const ProgramTables& tables, const PhysicalGraph& graph,
                    ProgramId program) {
  const auto site_text = [&](SiteId s) {
    const Site& site = tables.sites[s];
    return actors_to_text(graph, program, site.instance, site.first_actor, site.num_actors);
  };
  const Channel& channel = tables.channels[static_cast<std::size_t>(blocker.channel)];
  const FrameQuota& frame = tables.frames[static_cast<std::size_t>(channel.frame)];
  const std::string& owner = graph.programs[program].instances[frame.instance].name;
  const std::string run = run_to_text(graph, program, RunId(blocker.run));
  if (blocker.kind == Blocker::Kind::kContent) {
    return fmt::format("{} needs the next content of frame {} of '{}', which {} has not produced",
                       run, frame.frame, owner, site_text(blocker.owing_site));
  }
  return fmt::format("{} needs a credit of frame {} of '{}' ({} registers), which {} has not acked",
                     run, frame.frame, owner, frame.num_registers, site_text(blocker.owing_site));
}

}  // namespace sextant
