// A recorded step beside the predicted one: what each kind of launch takes, and the first launch
// that leaves the plan's times, with the reason.
#pragma once

#include "core/graphs/physical_graph.h"
#include "simulator/recordings/replay.h"
#include "simulator/steps/timeline.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

// Launches of one name, of one step: means over ranks.
struct LaunchTimes {
  std::string name;
  std::int64_t launches = 0;  // over all ranks; those that start together are one
  // From the begin to the end; of communications, from the last arrival.
  Duration predicted, recorded;
  // Of communications, from the begin to the last arrival.
  Duration predicted_wait, recorded_wait;
};

using LaunchName = std::function<std::string(Rank, RunId)>;

// The longest recorded first. Both timelines are of all ranks of `plan`.
std::vector<LaunchTimes> launch_times(const PhysicalGraph& plan, const Timeline& predicted,
                                      const Timeline& recorded, const LaunchName& name);
// Kind of the operator; of a launch of several operators, its phase.
std::string kind_of_launch(const PhysicalGraph& plan, Rank rank, RunId run);

// What a launch waited for last.
enum class DelayCause : std::uint8_t {
  kItself,  // it takes longer than predicted, or was slow to begin
  kHost,    // it was issued late
  kWaits,   // its queue or a message
  kPeers,   // a communication: its last member
};

std::string_view to_string(DelayCause cause);

struct Divergence {
  Rank rank;
  RunId run;
  DelayCause cause = DelayCause::kItself;
  // Since the end of the step before: negative where steps overlap.
  Time predicted_begin, predicted_end, recorded_begin, recorded_end;
  Duration late() const { return recorded_end - predicted_end; }
};

// The first launch, in the order of predicted ends, whose end is off by more than `tolerance` of
// the predicted step, either way; nothing where all are within it.
std::optional<Divergence> first_divergence(const Timeline& predicted, const Timeline& recorded,
                                           double tolerance);

}  // namespace sextant
