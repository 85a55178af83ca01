// How much of a step's communication nothing computes beside, and what it does to what does: of a
// simulated step and of a measured one alike.
#pragma once

#include "core/graphs/physical_graph.h"
#include "simulator/steps/timeline.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sextant {

// Per step, means over ranks. A communication is in progress from the arrival of its last member to
// its end; what several have in common counts once.
struct CommunicationTimes {
  double launches = 0;
  double in_progress_s = 0;
  double exposed_s = 0;  // of `in_progress_s`: the rank computes nothing
  double waiting_s = 0;  // from the begin of a launch to the last arrival: a sum over launches
  bool operator==(const CommunicationTimes&) const = default;
};

struct CommunicationUse {
  // Of one queue and kind ("all_reduce"): what other rows do meanwhile does not count.
  struct Row {
    QueueRole queue = QueueRole::kCollective;
    std::string kind;
    CommunicationTimes times;
    bool operator==(const Row&) const = default;
  };
  CommunicationTimes all;
  std::vector<Row> rows;  // the longest in progress first
  // Computation while a communication of the rank is in progress, and the part of it that launches
  // take which have their like where nothing is in progress: those tell `slowdown`.
  double beside_s = 0, compared_s = 0;
  // Time of computation beside communications / time of the same work alone; nothing where no
  // launches can tell.
  std::optional<double> slowdown;
  bool operator==(const CommunicationUse&) const = default;
};

// Launches with one name do the same work.
using WorkName = std::function<std::string(Rank, RunId)>;

// Means over `steps`, each of which has all runs of a step for every rank that it tells of.
CommunicationUse communication_use(const PhysicalGraph& graph, std::span<const Timeline> steps,
                                   const WorkName& name);

}  // namespace sextant
