// Order of instances that act together, and of their operators: what runs when nothing but
// dependence and a wish decides.
#pragma once

#include "compiler/order/partition.h"

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace sextant {

// An instance with what decides between it and others that are ready: the smallest goes first.
struct KeyedInstance {
  std::array<std::int64_t, 2> key = {0, 0};
  StagedInstanceId instance;
  auto operator<=>(const KeyedInstance&) const = default;
};

// Operators of the instances, each instance in its own order and as a whole where dependences
// allow. Where instances feed each other both ways, operators of several take turns: those of the
// late part by generation, others as they come in the staged graph.
std::vector<StagedOpId> ops_in_order(const Partition& partition,
                                     std::vector<KeyedInstance> members);

}  // namespace sextant
