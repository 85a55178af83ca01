// Messages that have come for one member of a host group and wait to be taken. No network: whoever
// brings them puts them in.
#pragma once

#include "core/base/ids.h"

#include <compare>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace sextant {

using HostBytes = std::vector<std::byte>;

// Who a message is for within a member: each subject has one user, who tells by the key apart what
// is under way at once.
enum class HostSubject : std::uint8_t {
  kGather,
  kArrival,
  kData,
  kMetrics,
  kActors,
  kWork,
  kCheckpoint,
  kRanks,
  kProgress,
  kTest,
};

struct HostTag {
  HostSubject subject = HostSubject::kGather;
  std::uint64_t key = 0;
  auto operator<=>(const HostTag&) const = default;
};

struct HostMessage {
  Rank from;
  HostBytes bytes;
};

class HostMailbox {
 public:
  // Kept until it is taken; dropped where the mailbox is closed.
  void put(HostTag tag, HostMessage message);
  // The oldest message of this tag, from one sender or from any. Blocks until there is one; throws
  // Error(kRankFailed) once the mailbox is closed.
  HostBytes take(Rank from, HostTag tag);
  HostMessage take_any(HostTag tag);
  HostMessage take_from(HostTag tag, std::optional<Rank> from);
  // As `take_from`, but waits for none; nothing where none has come.
  std::optional<HostMessage> try_take(HostTag tag, std::optional<Rank> from);

  // Ends present and future calls with this reason; the first counts.
  void close(const std::string& reason);
  void require_open() const;

 private:
  std::optional<HostMessage> find_locked(HostTag tag, std::optional<Rank> from);
  void require_open_locked() const;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<HostTag, std::deque<HostMessage>> messages_;  // no empty lists
  std::optional<std::string> closed_;
};

}  // namespace sextant
