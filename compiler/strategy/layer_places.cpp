// Layers counted out over virtual stages.
#include "compiler/strategy/layer_places.h"

#include "compiler/strategy/layer_counts.h"
#include "compiler/strategy/schedule.h"
#include "core/base/check.h"

#include <cstddef>

namespace sextant {

std::vector<LayerPlace> place_layers(int num_layers, const Strategy& strategy) {
  require(num_layers >= 1, ErrorCode::kInfeasible, "a model without layers");
  const auto stages = static_cast<int>(strategy.pp);
  const int blocks = num_layers > 2 ? num_layers - 2 : 0;
  const std::vector<int> layers = layers_of_virtual_stages(blocks, strategy);
  const auto virtual_stages = static_cast<int>(layers.size());
  std::vector<LayerPlace> places;
  for (int number = 0; number < virtual_stages; ++number) {
    const StageChunk at = stage_of_virtual(strategy.schedule, stages, number);
    const LayerPlace place{at.stage, at.chunk, number};
    if (number == 0) places.push_back(place);
    places.insert(places.end(), static_cast<std::size_t>(layers[static_cast<std::size_t>(number)]),
                  place);
    if (number == virtual_stages - 1 && num_layers > 1) places.push_back(place);
  }
  SEXTANT_INVARIANT(static_cast<int>(places.size()) == num_layers, "{} layers got a stage, of {}",
                    places.size(), num_layers);
  return places;
}

std::vector<int> stage_of_layers(int num_layers, const Strategy& strategy) {
  std::vector<int> stages;
  for (const LayerPlace& place : place_layers(num_layers, strategy)) stages.push_back(place.stage);
  return stages;
}

}  // namespace sextant
