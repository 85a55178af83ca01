// What the members of a job tell each other on the host, before and beside the work of their
// devices. Members are the ranks of one process, a thread each (ThreadHostGroups), or the processes
// over which ranks are spread (backends/hosts). No clock: who watches for silence aborts the group.
#pragma once

#include "actor/hosts/host_mailbox.h"
#include "core/base/error.h"
#include "core/base/ids.h"

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

// What all members decide together, as one of them sees it. Once it is aborted every call throws
// Error(kRankFailed).
class HostAgreement {
 public:
  virtual ~HostAgreement() = default;
  virtual Rank rank() const = 0;  // the number of this member
  virtual std::size_t size() const = 0;
  // Who a member is, for an error: "process 1 on host b".
  virtual std::string name_of(Rank member) const = 0;
  // Ends the calls of all members, now and later, with this reason; the first counts. Any thread.
  virtual void abort(const std::string& reason) = 0;

  // Calls of all: every member makes the same ones in the same order, on one thread at a time; each
  // returns when all have made it. What each member brought, by member:
  virtual std::vector<HostBytes> all_gather(std::span<const std::byte> own) = 0;

  // All go on, or none: throws on every member the error of the first one, by number, that brings
  // one.
  void agree(const std::optional<Error>& own);
  // What `root` brought; the others bring nothing.
  HostBytes broadcast(std::span<const std::byte> own, Rank root);
  // `act` on every member, and agree on what became of it.
  void agree_after(const std::function<void()>& act);
};

// An agreement whose members also send each other messages.
class HostGroup : public HostAgreement {
 public:
  // Messages of two: any thread. A message goes out at once, to oneself too; those of one sender
  // and one tag arrive in the order in which they were sent.
  virtual void send(Rank to, HostTag tag, HostBytes bytes) = 0;
  virtual HostBytes receive(Rank from, HostTag tag) = 0;
  virtual HostMessage receive_any(HostTag tag) = 0;
  // As `receive_any`, but waits for none; nothing where none has come.
  virtual std::optional<HostMessage> try_receive_any(HostTag tag) = 0;
};

// `all_gather` by messages of two, of a group whose members share nothing. `round`: how often this
// member has called it before.
std::vector<HostBytes> gather_by_messages(HostGroup& group, std::span<const std::byte> own,
                                          std::uint64_t round);

// The reason that `abort` was given, from the error that calls throw afterwards.
std::string reason_of_abort(const Error& error);

// Gives `take` the messages of a tag as they come, until an empty one. Why it ended otherwise: the
// reason of an abort, or what `take` threw.
std::optional<std::string> hear_messages(HostGroup& group, HostTag tag,
                                         const std::function<void(const HostMessage&)>& take);

HostBytes host_bytes(std::string_view text);
std::string host_text(std::span<const std::byte> bytes);

// The ranks of one process, a thread each.
class ThreadHostGroups {
 public:
  explicit ThreadHostGroups(std::size_t ranks);
  ~ThreadHostGroups();
  ThreadHostGroups(const ThreadHostGroups&) = delete;
  ThreadHostGroups& operator=(const ThreadHostGroups&) = delete;

  HostGroup& of(Rank rank);
  void abort(const std::string& reason);

 private:
  class Member;
  std::vector<HostBytes> gather(std::size_t rank, std::span<const std::byte> own);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<HostBytes> brought_;   // in this round
  std::vector<HostBytes> gathered_;  // in the last one
  std::size_t arrived_ = 0;
  std::uint64_t rounds_ = 0;  // that are complete
  std::optional<std::string> abort_reason_;
  std::vector<std::unique_ptr<Member>> members_;
};

}  // namespace sextant
