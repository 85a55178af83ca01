// Where the members of a communication meet: key (group, occurrence), fingerprints compared, the
// last to arrive moves the data of all. Posting and waiting are apart, so that a launch group can
// post all its halves before it waits for any.
//
// Where ranks are in several processes, each member's process tells those of the others that it has
// arrived. A meeting that is complete has a thread of its own in each process, which moves what the
// members there move: a rank may wait for one meeting of a launch group, another rank for the next.
#pragma once

#include "actor/hosts/reused_thread.h"
#include "backends/cpu/collectives.h"
#include "backends/cpu/cpu_backend.h"
#include "core/graphs/physical_graph.h"

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sextant {

// One member's part of one occurrence of a communication.
struct Half {
  Rank rank;
  GroupId group;
  std::int64_t occurrence = 0;  // of this group's communications, from 0, over all steps
  const Communication* communication = nullptr;
  std::string_view name;  // of the actor, for messages; outlives the meeting
  MemberBuffers buffers;
};

class Rendezvous {
 public:
  class Meeting;
  using Ticket = std::shared_ptr<Meeting>;

  Rendezvous(const PhysicalGraph& graph, std::chrono::milliseconds timeout,
             CpuCollectives collectives = CpuCollectives::kDirect,
             const std::optional<RankProcesses>& processes = std::nullopt);
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  // With several processes: hears from now on who arrives in the others, until `disconnect`. Calls
  // `lost` once, on another thread, where the group is aborted from outside: whoever waits here or
  // comes later has got the reason by then.
  void connect(const std::function<void(const std::string&)>& lost);
  // Ends what is under way. After it no buffer of a member is touched.
  void disconnect();

  // Throws Error(kRankFailed) when the half does not fit those that are there, naming both ranks,
  // or when the job was aborted.
  Ticket post(const Half& half);
  // Blocks until the data has moved. Throws Error(kRankFailed): aborted, or timed out with the
  // ranks that arrived and those that did not.
  void wait(const Ticket& ticket);
  // Everyone who waits or comes later gets Error(kRankFailed) with this reason, in other processes
  // too while they are connected. The first counts.
  void abort(const std::string& reason);
  Traffic traffic() const;

 private:
  using Key = std::pair<GroupId, std::int64_t>;

  Ticket meeting_of(GroupId group, std::int64_t occurrence);
  // Enters a half that came; true: the meeting is complete.
  bool enter(Meeting& meeting, std::size_t position, const Half& half);
  std::size_t home_of(Rank rank) const;  // its process
  bool is_here(Rank rank) const;
  void announce(const Half& half, std::size_t position);
  void hear(const HostMessage& message);
  void hear_all(const std::function<void(const std::string&)>& lost);
  void move(Meeting& meeting);
  [[noreturn]] void fail_aborted(const Meeting* meeting) const;
  void check_fingerprint(const Meeting& meeting, const Half& half) const;
  void run(Meeting& meeting);
  // Whether, in a job of several processes, only ranks of this one have not come: they may be
  // waiting for another process, and know more of it.
  bool misses_ranks_here_alone(const Meeting& meeting) const;
  std::string missing_text(const Meeting& meeting) const;

  const PhysicalGraph& graph_;
  const std::chrono::milliseconds timeout_;
  const CpuCollectives collectives_;
  const std::optional<RankProcesses> processes_;
  std::int64_t num_running_ = 0;  // meetings of several processes that move data
  ReusedThread hearing_;
  mutable std::mutex mutex_;
  bool is_connected_ = false;
  std::map<Key, Ticket> meetings_;  // those that somebody may still wait for
  std::optional<std::string> abort_reason_;
  Traffic traffic_;
};

}  // namespace sextant
