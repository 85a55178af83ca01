// Small plans of many strategies, compiled: what laws of virtual time are tested on.
#pragma once

#include "core/costs/cluster.h"
#include "core/costs/cost_model.h"
#include "core/graphs/physical_graph.h"
#include "simulator/costs/models.h"

#include <memory>
#include <string>
#include <vector>

namespace sextant {

// Cheap launches, so that what devices do decides.
class CheapLaunches : public CostModel {
 public:
  explicit CheapLaunches(const Cluster& cluster) : base_(make_roofline(cluster, DType::kBF16)) {}
  Duration duration(const Work& work) const override { return base_->duration(work); }
  Duration launch_cost() const override { return Duration(50'000); }

 private:
  std::unique_ptr<CostModel> base_;
};

struct PlanCase {
  std::string strategy;
  std::string model = "gpt:layers=8,hidden=64,heads=4,vocab=130,seq=16";
};

// On 8 to 64 ranks: all schedules, ZeRO, context and expert parallelism.
std::vector<PlanCase> plan_cases();

// Six micro-batches, or as many as told.
PhysicalGraph compiled(const PlanCase& one, const CostModel& cost, const NetworkModel& network,
                       int micro_batches = 6);

}  // namespace sextant
