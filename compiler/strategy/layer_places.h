// Where the layers of a model live: their stages, chunks and virtual stages.
#pragma once

#include "compiler/strategy/strategy.h"

#include <vector>

namespace sextant {

struct LayerPlace {
  int stage = 0;
  int chunk = 0;          // of the stage's layers
  int virtual_stage = 0;  // of the chunk in model order (compiler/strategy/schedule.h)
  bool operator==(const LayerPlace&) const = default;
};

// Place of every layer: the layers between the first and the last are the model's blocks, counted
// out over the virtual stages (layer_counts.h); the first layer (embedding) joins the first virtual
// stage, the last (head) the last one. Throws Error(kInfeasible) for counts that the model does not
// have.
std::vector<LayerPlace> place_layers(int num_layers, const Strategy& strategy);
std::vector<int> stage_of_layers(int num_layers, const Strategy& strategy);

}  // namespace sextant
