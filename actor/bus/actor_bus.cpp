// A FIFO for each ordered pair of threads; messages of other processes wait in the group, under a
// tag of the thread that they are for.
#include "actor/bus/actor_bus.h"

#include "core/base/check.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace sextant {
namespace {

HostTag tag_of(const ActorThread& thread) {
  return {HostSubject::kActors,
          static_cast<std::uint64_t>(thread.device) << 1U | (thread.is_host ? 1U : 0U)};
}

std::string to_text(const ActorThread& thread) {
  return fmt::format("the {} thread of device {} of node {}", thread.is_host ? "host" : "launch",
                     thread.device, thread.node);
}

static_assert(std::is_trivially_copyable_v<ActorMessage>);

}  // namespace

ActorBus::ActorBus(std::span<const ActorThread> threads, std::size_t capacity, HostGroup* group) {
  for (const ActorThread& thread : threads) {
    require(thread.node == threads.front().node, ErrorCode::kUsage,
            "a bus of one process has {} and {}", to_text(threads.front()), to_text(thread));
    for (const auto& end : ends_)
      require(end->thread() != thread, ErrorCode::kUsage, "{} is named twice", to_text(thread));
    ends_.push_back(std::unique_ptr<End>(new End(thread, group)));
    ends_.back()->own_.reserve(capacity);
  }
  for (const auto& from : ends_)
    for (const auto& to : ends_) {
      if (from == to) continue;
      auto fifo = std::make_unique<ThreadFifo<ActorMessage>>(capacity);
      from->outgoing_.emplace_back(to->thread(), fifo.get());
      to->incoming_.push_back(std::move(fifo));
    }
}

ActorBus::~ActorBus() = default;

ActorBus::End& ActorBus::end(const ActorThread& thread) {
  const auto found = std::find_if(ends_.begin(), ends_.end(),
                                  [&](const auto& end) { return end->thread() == thread; });
  require(found != ends_.end(), ErrorCode::kUsage, "there is no {}", to_text(thread));
  return **found;
}

bool ActorBus::End::try_post(const ActorMessage& message) {
  const ActorThread to = message.to.thread();
  const Route route = route_of(thread_, to);
  switch (route) {
    case Route::kSameThread:
      own_.push_back(message);
      break;
    case Route::kOtherThread:
      if (!fifo_to(to).try_put(message)) return false;
      break;
    case Route::kOtherProcess:
      send_to_process(message);
      break;
  }
  ++counts_.of(route);
  return true;
}

ThreadFifo<ActorMessage>& ActorBus::End::fifo_to(const ActorThread& thread) {
  for (const auto& [to, fifo] : outgoing_)
    if (to == thread) return *fifo;
  fail(ErrorCode::kUsage, "there is no {}", to_text(thread));
}

void ActorBus::End::send_to_process(const ActorMessage& message) {
  const std::size_t node = message.to.node();
  require(group_ != nullptr && node < group_->size(), ErrorCode::kUsage,
          "there is no node {} in a job of {}", node, group_ == nullptr ? 1 : group_->size());
  HostBytes bytes(sizeof(message));
  std::memcpy(bytes.data(), &message, sizeof(message));
  group_->send(Rank(node), tag_of(message.to.thread()), std::move(bytes));
}

std::optional<ActorMessage> ActorBus::End::take_from_group() {
  if (group_ == nullptr) return std::nullopt;
  const std::optional<HostMessage> came = group_->try_receive_any(tag_of(thread_));
  if (!came) return std::nullopt;
  ActorMessage message;
  require(came->bytes.size() == sizeof(message), ErrorCode::kRankFailed,
          "{} sent {} bytes to an actor", group_->name_of(came->from), came->bytes.size());
  std::memcpy(&message, came->bytes.data(), sizeof(message));
  return message;
}

bool ActorBus::End::has_messages() const {
  return own_begin_ < own_.size() ||
         std::any_of(incoming_.begin(), incoming_.end(),
                     [](const auto& fifo) { return !fifo->is_empty(); });
}

void ActorBus::End::fail_full(const ActorMessage& message) const {
  fail(ErrorCode::kInternal, "more messages from {} to {} are on their way than there is room for",
       to_text(thread_), to_text(message.to.thread()));
}

}  // namespace sextant
