// One mutex, one condition: those who wait for messages are few.
#include "actor/hosts/host_mailbox.h"

#include "core/base/check.h"

#include <algorithm>
#include <utility>

namespace sextant {

void HostMailbox::put(HostTag tag, HostMessage message) {
  const std::lock_guard lock(mutex_);
  if (closed_) return;
  messages_[tag].push_back(std::move(message));
  changed_.notify_all();
}

std::optional<HostMessage> HostMailbox::find_locked(HostTag tag, std::optional<Rank> from) {
  require_open_locked();
  const auto entry = messages_.find(tag);
  if (entry == messages_.end()) return std::nullopt;
  std::deque<HostMessage>& list = entry->second;
  const auto message = std::find_if(list.begin(), list.end(), [&](const HostMessage& other) {
    return !from || other.from == *from;
  });
  if (message == list.end()) return std::nullopt;
  HostMessage taken = std::move(*message);
  list.erase(message);
  if (list.empty()) messages_.erase(entry);
  return taken;
}

HostMessage HostMailbox::take_from(HostTag tag, std::optional<Rank> from) {
  std::unique_lock lock(mutex_);
  while (true) {
    if (std::optional<HostMessage> message = find_locked(tag, from)) return std::move(*message);
    changed_.wait(lock);
  }
}

std::optional<HostMessage> HostMailbox::try_take(HostTag tag, std::optional<Rank> from) {
  const std::lock_guard lock(mutex_);
  return find_locked(tag, from);
}

HostBytes HostMailbox::take(Rank from, HostTag tag) { return take_from(tag, from).bytes; }
HostMessage HostMailbox::take_any(HostTag tag) { return take_from(tag, std::nullopt); }

void HostMailbox::close(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (!closed_) closed_ = reason;
  changed_.notify_all();
}

void HostMailbox::require_open_locked() const {
  if (closed_) fail(ErrorCode::kRankFailed, "stopped: {}", *closed_);
}

void HostMailbox::require_open() const {
  const std::lock_guard lock(mutex_);
  require_open_locked();
}

}  // namespace sextant
