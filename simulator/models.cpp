// The choice of models.

#include "simulator/models.h"

namespace sextant {

TimingModels make_timing_models(const Cluster& cluster, DType compute_dtype) {
  return {make_cost_model(cluster, compute_dtype), make_network_model(cluster)};
}

}  // namespace sextant
