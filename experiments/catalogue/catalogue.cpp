// The list, in the order of the paper; today's models last.
#include "experiments/catalogue/catalogue.h"

#include "experiments/ablations/ablations.h"
#include "experiments/boxing_volumes/boxing_volumes.h"
#include "experiments/class_split/class_split.h"
#include "experiments/data_parallel/data_parallel.h"
#include "experiments/data_pipeline/data_pipeline.h"
#include "experiments/hybrid_gpt/hybrid_gpt.h"
#include "experiments/optimizer_sharding/optimizer_sharding.h"
#include "experiments/questions/questions.h"
#include "experiments/signatures/signatures.h"
#include "experiments/todays_models/todays_models.h"
#include "experiments/wide_deep/wide_deep.h"

namespace sextant {

std::vector<Experiment> all_experiments() {
  return {
      signatures::experiment(),         boxing_volumes::experiment(), data_pipeline::experiment(),
      data_parallel::experiment(),      class_split::experiment(),    wide_deep::experiment(),
      optimizer_sharding::experiment(), hybrid_gpt::experiment(),     ablations::experiment(),
      todays_models::experiment(),      questions::experiment()};
}

}  // namespace sextant
