// Where the SimDevices of one run meet: matches the members of each communication and asks the
// network model when it is over. Knows no queue and no host. Members may arrive from several
// threads: matching is by count, so the order in which they do changes nothing.
#pragma once

#include "actor/protocol/rank_classes.h"
#include "core/costs/communication_volume.h"
#include "core/costs/cost_model.h"
#include "core/graphs/physical_graph.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

namespace sextant {

// Told when a communication that it arrived at is over.
class Arrival {
 public:
  virtual ~Arrival() = default;
  virtual void completed(std::int64_t ticket, Time all_arrived, Time end) = 0;
};

class Fabric {
 public:
  // Under `classes` that fold, only representatives arrive, each for all members of its class.
  // `group_colours` are those the classes were made with, empty if they do not fold.
  Fabric(const PhysicalGraph& graph, const NetworkModel& network, RankClasses classes,
         std::span<const std::int32_t> group_colours = {});

  // The n-th call of a rank for a role is the n-th occurrence of that group's communications. Once
  // every member is there, `completed` is called for each, in the order they arrived. Throws
  // Error(kInternal) when members disagree on what they issue (actor invariant 8).
  void arrive(Arrival& arrival, std::int64_t ticket, Rank rank, RunId run,
              const Communication& communication, Time at);

  // From now on each communication that is over adds what it sent. Without folding: a member that
  // stands for others arrives once for all of them.
  void count_traffic() { counts_traffic_ = true; }
  const Traffic& traffic() const { return traffic_; }

 private:
  // Who a member is, up to what folding may exchange.
  struct MemberKey {
    std::int32_t rank_class = 0;
    GroupRole role = 0;
    auto operator<=>(const MemberKey&) const = default;
  };
  struct Participant {
    MemberKey key;
    Arrival* arrival = nullptr;
    std::int64_t ticket = 0;
    Time at;
  };
  struct Meeting {
    GroupId group;  // of the first to arrive, like its program and run
    ProgramId program;
    RunId run;
    const Communication* communication = nullptr;
    std::vector<Participant> participants;
  };
  struct Group {
    std::int32_t number = 0;          // of groups that stand for each other
    std::vector<MemberKey> in_order;  // of the group's ranks
    std::size_t distinct = 0;
  };

  void complete(const Meeting& meeting);

  const PhysicalGraph& graph_;
  const NetworkModel& network_;
  RankClasses classes_;
  std::mutex mutex_;
  std::vector<Group> groups_;
  std::map<std::pair<std::int32_t, GroupRole>, std::int64_t> occurrences_;  // by rank and role
  std::map<std::pair<std::int32_t, std::int64_t>, Meeting>
      meetings_;  // by group number, occurrence
  bool counts_traffic_ = false;
  Traffic traffic_;
};

}  // namespace sextant
