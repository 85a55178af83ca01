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
#include <tuple>
#include <vector>

namespace sextant {

// One actor of the chain before an input; the last is the input itself.
struct DataActorTime {
  std::string name;
  double act_s = 0;  // mean over its acts
  double busy = 0;   // share of the time, mean over ranks
  bool operator==(const DataActorTime&) const = default;
};

struct DataTimes {
  std::vector<DataActorTime> actors;  // in the order of the chain; empty without data actors
  // How long samples that are made wait until the input takes them, mean, as a share of the time
  // from batch to batch: hardly any where the step waits for them.
  double wait = 0;
};

struct DataVerdict {
  std::optional<std::size_t> limiting;  // actor; nothing: the step itself is slower
  std::string text;                     // for people
};

// Where the step waits for samples, the busiest actor limits.
DataVerdict verdict_of(const DataTimes& times);

// Host actors that do what `host` does and are timed. `host` outlives it.
class TimedHostActors final : public HostActors {
 public:
  // Acts before step `first_counted` are warm-up.
  TimedHostActors(HostActors& host, std::int64_t first_counted)
      : host_(host), first_counted_(first_counted) {}
  void act(const HostAct& act) override;

  DataTimes times(const PhysicalGraph& graph) const;

 private:
  struct Sum {
    std::int64_t acts = 0;
    double seconds = 0;
  };
  // A batch of a rank, by step and act.
  using Batch = std::tuple<Rank, std::int64_t, std::int64_t>;

  void count(const HostAct& act, double begin, double end);

  HostActors& host_;
  const std::int64_t first_counted_;
  mutable std::mutex mutex_;  // of what is below
  std::map<std::string, Sum> sums_;
  std::map<Rank, double> begins_, ends_;  // of what was counted
  std::map<Batch, double> made_;          // when the last stage so far was done with it
  Sum waits_;                             // from there to the begin of the input's act
};

nlohmann::ordered_json to_json(const DataTimes& times);

}  // namespace sextant
