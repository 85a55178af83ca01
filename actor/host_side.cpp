// The loop of the host thread and the messages that cross.
#include "actor/host_side.h"

#include "core/base/check.h"

#include <algorithm>
#include <array>
#include <utility>

namespace sextant {
namespace {

constexpr ActorThread kLaunchThread{0, 0, false}, kHostThread{0, 0, true};
constexpr std::array<ActorThread, 2> kThreads{kLaunchThread, kHostThread};

// A Req and an Ack for each register of each channel are on their way at most.
std::size_t most_messages(const ProgramTables& tables) {
  return 2 * static_cast<std::size_t>(tables.num_channel_fences);
}

ActorId id_of(const ProgramTables& tables, std::int32_t site) {
  return {0, 0, tables.sites[static_cast<std::size_t>(site)].queue, site};
}

}  // namespace

HostCaller::HostCaller(const PhysicalGraph& graph, Rank rank, const ProgramTables& tables,
                       Device& device, HostActors& host, std::int64_t first_step)
    : graph_(&graph),
      rank_(rank),
      tables_(&tables),
      device_(&device),
      host_(&host),
      first_step_(first_step),
      actors_(graph, graph.ranks[rank.index()].program),
      calls_(tables.sites.size()) {
  if (tables.host_sites.empty()) return;
  const OperandResolver resolver(graph, graph.ranks[rank.index()].program);
  for (const std::int32_t s : tables.host_sites) {
    const Site& site = tables.sites[static_cast<std::size_t>(s)];
    for (std::int32_t act = 0; act < site.acts_per_step; ++act) {
      ActorCall call = resolver.call(site.instance, site.first_actor, act);
      call.actor = &actors_.of(site.instance, *call.actor);
      calls_[static_cast<std::size_t>(s)].push_back(std::move(call));
    }
  }
}

void HostCaller::call(std::int32_t s, std::int64_t act) {
  const Site& site = tables_->sites[static_cast<std::size_t>(s)];
  const std::int64_t step_of_runtime = act / site.acts_per_step;
  const std::int64_t act_of_step = act - step_of_runtime * site.acts_per_step;
  const std::int64_t step = first_step_ + step_of_runtime;
  const ActorCall& call =
      calls_[static_cast<std::size_t>(s)][static_cast<std::size_t>(act_of_step)];
  inputs_.clear();
  outputs_.clear();
  for (const BufferRef& in : call.in) {
    inputs_.push_back(device_->host_view_of_step(in.instance, in.reg, in.content, step));
  }
  for (const BufferRef& out : call.out) {
    outputs_.push_back(device_->host_view_of_step(out.instance, out.reg, out.content, step));
  }
  HostAct host_act;
  host_act.rank = rank_;
  host_act.graph = graph_;
  host_act.instance = &graph_->program_of(rank_).instances[site.instance.index()];
  host_act.actor = call.actor;
  host_act.step = step;
  host_act.act = act_of_step;
  host_act.inputs = inputs_;
  host_act.outputs = outputs_;
  const std::int32_t kept = device_->spec().host_steps;
  if (kept > 1 && step_of_runtime >= kept) host_act.kept_steps = kept;
  host_->act(host_act);
}

HostThread::HostThread(const PhysicalGraph& graph, Rank rank, const ProgramTables& tables,
                       Device& device, HostActors& host, std::int64_t first_step)
    : tables_(tables),
      device_(device),
      host_steps_(device.spec().host_steps),
      caller_(graph, rank, tables, device, host, first_step),
      late_caller_(graph, rank, tables, device, host, first_step),
      protocol_(tables, SiteOwner::kHostThread),
      bus_(kThreads, most_messages(tables)),
      launch_end_(bus_.end(kLaunchThread)),
      host_end_(bus_.end(kHostThread)),
      late_reads_done_(tables.sites.size(), 0) {
  for (const std::int32_t site : tables.host_sites)
    if (tables.sites[static_cast<std::size_t>(site)].is_beside)
      own_threads_.push_back(std::make_unique<OwnThread>(
          OwnThread{.site = site,
                    .caller = HostCaller(graph, rank, tables, device, host, first_step),
                    .thread = {}}));
  for (const auto& own : own_threads_)
    own->thread = ReusedThread([this, &own = *own] { own_loop(own); });
  thread_ = ReusedThread([this] { loop(); });
  if (host_steps_ > 1) reader_ = ReusedThread([this] { read_loop(); });
}

HostThread::~HostThread() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
  reader_.join();
  for (const auto& own : own_threads_) own->thread.join();
}

void HostThread::announce(std::int64_t steps) {
  {
    const std::lock_guard lock(mutex_);
    if (steps <= steps_) return;
    steps_ = steps;
    idle_ = false;
  }
  changed_.notify_all();
}

void HostThread::put(ActorBus::End& from, const Message& message) const {
  const Channel& channel = tables_.channels[static_cast<std::size_t>(message.channel)];
  const ActorId producer = id_of(tables_, channel.producer);
  const ActorId consumer = id_of(tables_, channel.consumer);
  const bool is_req = message.kind == Message::Kind::kReq;
  from.post({is_req ? producer : consumer, is_req ? consumer : producer, message});
}

void HostThread::post(std::span<const Message> messages) {
  for (const Message& message : messages) put(launch_end_, message);
  // The host thread looks for messages under the lock: it has seen these, or is told now. Whether
  // it is idle follows from its acts alone; it may have done them before this thread is here.
  { const std::lock_guard lock(mutex_); }
  changed_.notify_all();
}

void HostThread::receive(std::vector<Message>& messages) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock,
                [&] { return launch_end_.has_messages() || error_ || !stop_reason_.empty(); });
  throw_if_broken();
  launch_end_.take([&](const ActorMessage& came) { messages.push_back(came.message); });
}

void HostThread::wait_until_idle() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] {
    const bool has_done_all = idle_ && late_reads_.empty() && !host_end_.has_messages();
    return has_done_all || error_ || !stop_reason_.empty();
  });
  throw_if_broken();
}

bool HostThread::is_read_through(std::int64_t steps) const {
  return std::all_of(
      tables_.host_sites.begin(), tables_.host_sites.end(), [&](const std::int32_t s) {
        const Site& site = tables_.sites[static_cast<std::size_t>(s)];
        return site.num_writes > 0 ||
               late_reads_done_[static_cast<std::size_t>(s)] >= steps * site.acts_per_step;
      });
}

void HostThread::wait_until_read(std::int64_t steps) {
  if (host_steps_ == 1 || steps <= 0) return;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return is_read_through(steps) || error_ || !stop_reason_.empty(); });
  throw_if_broken();
}

void HostThread::stop(const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    if (stop_reason_.empty()) stop_reason_ = reason;
  }
  changed_.notify_all();
}

void HostThread::throw_if_broken() {
  if (error_) std::rethrow_exception(error_);
  if (!stop_reason_.empty()) throw Error(ErrorCode::kRankFailed, stop_reason_);
}

// The first host site that may act; its credits bound how long the others wait. -1: none may.
std::int32_t HostThread::next_enabled() const {
  for (const std::int32_t s : tables_.host_sites) {
    const Site& site = tables_.sites[static_cast<std::size_t>(s)];
    const OwnThread* const own = own_thread_of(s);
    if (own != nullptr && own->state != OwnThread::State::kIdle) continue;
    const bool announced = protocol_.acts_of(s) < steps_ * site.acts_per_step;
    if (announced && protocol_.host_act_enabled(s)) return s;
  }
  return -1;
}

bool HostThread::is_idle() const {
  return std::all_of(tables_.host_sites.begin(), tables_.host_sites.end(),
                     [&](const std::int32_t s) {
                       const Site& site = tables_.sites[static_cast<std::size_t>(s)];
                       return protocol_.acts_of(s) >= steps_ * site.acts_per_step;
                     });
}

HostThread::OwnThread* HostThread::own_thread_of(std::int32_t site) const {
  for (const auto& own : own_threads_)
    if (own->site == site) return own.get();
  return nullptr;
}

void HostThread::finish_own_acts() {
  for (const auto& own : own_threads_) {
    if (own->state != OwnThread::State::kDone) continue;
    own->state = OwnThread::State::kIdle;
    protocol_.finish_host_act(own->site);
  }
}

void HostThread::own_loop(OwnThread& own) {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return is_over() || own.state == OwnThread::State::kActing; });
    if (is_over()) return;
    lock.unlock();
    std::exception_ptr error;
    try {
      own.caller.call(own.site, own.act);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (!error_) error_ = error;
    own.state = OwnThread::State::kDone;
    changed_.notify_all();
  }
}

void HostThread::loop() {
  std::unique_lock lock(mutex_);
  const auto is_done = [](const auto& own) { return own->state == OwnThread::State::kDone; };
  while (!is_over()) {
    host_end_.take([&](const ActorMessage& came) { protocol_.receive(came.message); });
    finish_own_acts();
    const std::int32_t site = next_enabled();
    if (site < 0) {
      idle_ = is_idle();
      changed_.notify_all();
      changed_.wait(lock, [&] {
        return is_over() || host_end_.has_messages() || next_enabled() >= 0 ||
               std::any_of(own_threads_.begin(), own_threads_.end(), is_done);
      });
      continue;
    }
    if (OwnThread* const own = own_thread_of(site)) {
      own->act = protocol_.acts_of(site);
      waits_.clear();
      protocol_.begin_host_act(site, waits_);
      own->state = OwnThread::State::kActing;
      changed_.notify_all();
      continue;
    }
    lock.unlock();
    std::exception_ptr error;
    try {
      act(site);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (!error_) error_ = error;
    for (const Message& message : protocol_.outbox()) put(host_end_, message);
    protocol_.clear_outbox();
    changed_.notify_all();
  }
}

// The launches of the step, on every queue, are done.
void HostThread::wait_for_step(std::int64_t step) {
  for (std::size_t queue = 0; step >= 0 && queue < kNumQueueRoles; ++queue) {
    const std::int64_t runs = tables_.runs_per_step[queue];
    if (runs > 0) device_.wait({static_cast<QueueRole>(queue), (step + 1) * runs - 1});
  }
}

void HostThread::act(std::int32_t s) {
  const Site& site = tables_.sites[static_cast<std::size_t>(s)];
  waits_.clear();
  const std::int64_t act = protocol_.acts_of(s);
  protocol_.begin_host_act(s, waits_);
  if (host_steps_ > 1 && site.num_writes == 0) {
    protocol_.finish_host_act(s);
    const std::lock_guard lock(mutex_);
    late_reads_.push_back({s, act, waits_});
    return;  // the loop notifies
  }
  if (host_steps_ > 1 && site.num_inputs == 0)
    wait_for_step(act / site.acts_per_step - host_steps_);
  else
    for (const Fence fence : waits_) device_.wait(fence);
  caller_.call(s, act);
  protocol_.finish_host_act(s);
}

void HostThread::hold_reads_from(std::int64_t step) {
  {
    const std::lock_guard lock(mutex_);
    held_from_ = step;
  }
  changed_.notify_all();
}

bool HostThread::may_read() const {
  if (late_reads_.empty()) return false;
  const LateRead& read = late_reads_.front();
  const Site& site = tables_.sites[static_cast<std::size_t>(read.site)];
  return !held_from_ || read.act / site.acts_per_step < *held_from_;
}

void HostThread::read_loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return is_over() || may_read(); });
    if (is_over()) return;
    const LateRead read = late_reads_.front();
    lock.unlock();
    std::exception_ptr error;
    try {
      for (const Fence fence : read.waits) device_.wait(fence);
      late_caller_.call(read.site, read.act);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (!error_) error_ = error;
    late_reads_.pop_front();
    ++late_reads_done_[static_cast<std::size_t>(read.site)];
    changed_.notify_all();
  }
}

}  // namespace sextant
