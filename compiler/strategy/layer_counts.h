// How many blocks every virtual stage has: what layers= of a strategy says, and what balance makes
// of the rest. Virtual stages count in the order in which a micro-batch passes them, so with
// several chunks per stage the list goes round the stages (zb-v: down and up again).
#pragma once

#include "compiler/strategy/strategy.h"

#include <string>
#include <string_view>
#include <vector>

namespace sextant {

// `count` over `parts`; earlier ones get the remainder.
std::vector<int> spread_evenly(int count, int parts);

// "7,8,*,8", '*' being an even share of what the numbers leave; "balanced" is no list. Throws
// Error(kUsage) for anything else, zero and negative numbers included.
std::vector<int> parse_layers(std::string_view text);
std::string layers_to_text(const std::vector<int>& layers);

// The list that first_layers and last_layers stand for: the blocks of whole stages, whose chunks
// share them evenly, and even shares between. Throws Error(kUsage) for fewer blocks than chunks and
// for two different counts of one stage.
std::vector<int> layers_of_outer_stages(const Strategy& strategy, int first, int last);

// Throws Error(kUsage) unless the list has one number for every virtual stage.
void require_layer_list(const Strategy& strategy);

// Blocks of every virtual stage of a model. Throws Error(kInfeasible): more virtual stages than
// blocks, and a list whose sum is another number, saying what would do.
std::vector<int> layers_of_virtual_stages(int blocks, const Strategy& strategy);

}  // namespace sextant
