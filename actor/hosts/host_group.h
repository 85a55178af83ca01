// What the ranks of a job tell each other on the host, before and beside the work of their devices:
// few bytes, seldom. Ranks may be threads of one process (ThreadHostGroups) or processes.
#pragma once

#include "core/base/error.h"
#include "core/base/ids.h"

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sextant {

using HostBytes = std::vector<std::byte>;

// As one rank sees it. All ranks make the same calls in the same order; each call returns when all
// have made it, or throws Error(kRankFailed) once the group is aborted.
class HostGroup {
 public:
  virtual ~HostGroup() = default;
  virtual Rank rank() const = 0;
  virtual std::size_t size() const = 0;
  // What each rank brought, by rank.
  virtual std::vector<HostBytes> all_gather(std::span<const std::byte> own) = 0;
  // Ends the calls of all ranks, now and later, with this reason; the first counts. Any thread.
  virtual void abort(const std::string& reason) = 0;

  // All go on, or none: throws on every rank the error of the first one, by number, that brings
  // one.
  void agree(const std::optional<Error>& own);
  // What `root` brought; the others bring nothing.
  HostBytes broadcast(std::span<const std::byte> own, Rank root);
};

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
