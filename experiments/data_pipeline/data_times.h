// How long the actors that make the samples of a run take, and whether it waits for one of them.
#pragma once

#include "core/graphs/host_actors.h"
#include "core/graphs/physical_graph.h"

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace sextant {

// One actor of the chain before an input; the last is the input itself.
struct DataActorTime {
  std::string name;
  double act_s = 0;  // mean over its acts
  double busy = 0;   // share of the time, mean over ranks
  bool operator==(const DataActorTime&) const = default;
};

struct DataVerdict {
  std::optional<std::size_t> limiting;  // actor; nothing: the step itself is slower
  std::string text;                     // for people
};

// With one register an actor and its reader take turns, so two neighbours count together. Whoever
// has no time left limits the run.
DataVerdict verdict_of(const std::vector<DataActorTime>& actors, std::int64_t num_registers);

// Host actors that do what `host` does and are timed. `host` outlives it.
class DataTimes final : public HostActors {
 public:
  // Acts before step `first_counted` are warm-up.
  DataTimes(HostActors& host, std::int64_t first_counted)
      : host_(host), first_counted_(first_counted) {}
  void act(const HostAct& act) override;

  // In the order of the chain; empty without data actors, or where nothing was counted.
  std::vector<DataActorTime> actors(const PhysicalGraph& graph) const;

 private:
  struct Sum {
    std::int64_t acts = 0;
    double seconds = 0;
  };
  HostActors& host_;
  const std::int64_t first_counted_;
  mutable std::mutex mutex_;  // of what is below
  std::map<std::string, Sum> sums_;
  std::map<Rank, double> begins_, ends_;  // of what was counted
};

nlohmann::ordered_json to_json(const std::vector<DataActorTime>& actors,
                               const DataVerdict& verdict);

}  // namespace sextant
