// The choice of models.

#include "simulator/costs/models.h"

#include "simulator/costs/ranked_costs.h"

#include <utility>

namespace sextant {

TimingModels make_timing_models(const Cluster& cluster, DType compute_dtype) {
  // Where devices differ, each rank has its own.
  auto cost = cluster.other_devices.empty() ? make_cost_model(cluster, compute_dtype)
                                            : make_ranked_costs(cluster, compute_dtype);
  return {std::move(cost), make_network_model(cluster)};
}

}  // namespace sextant
