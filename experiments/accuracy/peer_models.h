// Cost and network as other programs have them: launches from an interpreter, and reductions of
// gradients that start when backward is over.
#pragma once

#include "core/cost_model.h"
#include "core/physical_graph.h"
#include "experiments/accuracy/software.h"
#include "simulator/timeline.h"

#include <set>

namespace sextant {

// The cost of a device as a program uses it.
class PeerCosts final : public CostModel {
 public:
  PeerCosts(const CostModel& base, const Software& software, Duration launch_cost)
      : base_(base), software_(software), launch_cost_(launch_cost) {}

  Duration duration(const Work& work) const override {
    return is_attention(work) ? base_.duration(as_attention(work)) : base_.duration(work);
  }
  Duration duration_on(Rank rank, const Work& work) const override {
    return is_attention(work) ? base_.duration_on(rank, as_attention(work))
                              : base_.duration_on(rank, work);
  }
  std::int32_t colour_of(Rank rank) const override { return base_.colour_of(rank); }
  Duration launch_cost() const override { return launch_cost_; }
  bool fuses(std::string_view kind) const override {
    return software_.fuses_kernels && base_.fuses(kind);
  }

 private:
  static bool is_attention(const Work& work) { return work.kernel == "attention"; }
  Work as_attention(Work work) const {
    work.flops /= software_.attention_share;
    return work;
  }

  const CostModel& base_;
  const Software& software_;
  Duration launch_cost_;
};

// Communications of the optimizer phase: sums of gradients, gathers of updated parameters.
std::set<const Communication*> once_per_step(const PhysicalGraph& graph);

// Another model in which some communications take no time.
class WithFree final : public NetworkModel {
 public:
  WithFree(const NetworkModel& base, std::set<const Communication*> free)
      : base_(base), free_(std::move(free)) {}

  void complete(const CollectiveCost& cost, std::span<const Time> arrivals,
                std::span<Time> done) const override;
  Duration duration(const CollectiveCost& cost) const override {
    return free_.contains(cost.communication) ? Duration() : base_.duration(cost);
  }
  bool completes_together() const override { return base_.completes_together(); }

 private:
  const NetworkModel& base_;
  std::set<const Communication*> free_;
};

// Longest time that a rank spends in `communications` during the step, each from the arrival of its
// last member.
Duration busiest(const PhysicalGraph& graph, const Timeline& timeline,
                 const std::set<const Communication*>& communications);

// Operators that the hosts launch in a step, per run of the issue order: runs of several operators
// are one launch for our devices and one per operator elsewhere.
double operators_per_run(const PhysicalGraph& graph);

}  // namespace sextant
