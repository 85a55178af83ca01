// Where the members of a communication meet: key (group, occurrence), fingerprints compared, the
// last to arrive moves the data of all. Posting and waiting are apart, so that a launch group can
// post all its halves before it waits for any.
#pragma once

#include "backends/cpu/collectives.h"
#include "backends/cpu/cpu_backend.h"
#include "core/graphs/physical_graph.h"

#include <chrono>
#include <condition_variable>
#include <cstdint>
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
             CpuCollectives collectives = CpuCollectives::kDirect);

  // Throws Error(kRankFailed) when the half does not fit those that are there, naming both ranks,
  // or when the job was aborted.
  Ticket post(const Half& half);
  // Blocks until the data has moved. Throws Error(kRankFailed): aborted, or timed out with the
  // ranks that arrived and those that did not.
  void wait(const Ticket& ticket);
  // Everyone who waits or comes later gets Error(kRankFailed) with this reason. The first counts.
  void abort(const std::string& reason);
  Traffic traffic() const;

 private:
  using Key = std::pair<GroupId, std::int64_t>;

  Ticket meeting_of(const Half& half);
  void check_not_aborted() const;
  void check_fingerprint(const Meeting& meeting, const Half& half) const;
  void run(Meeting& meeting);
  std::string missing_text(const Meeting& meeting) const;

  const PhysicalGraph& graph_;
  const std::chrono::milliseconds timeout_;
  const CpuCollectives collectives_;
  mutable std::mutex mutex_;
  std::map<Key, Ticket> meetings_;  // those that somebody may still wait for
  std::optional<std::string> abort_reason_;
  Traffic traffic_;
};

}  // namespace sextant
