// Mixture of experts for model builders: routing, and the way of tokens to experts and back.
#pragma once

#include "core/graphs/logical_graph.h"

#include <cstdint>
#include <string>

namespace sextant {

// Room per expert and group for `tokens` that go to `k` experts each: factor times the even share,
// rounded up. Throws Error(kBadInput) for a factor that is not positive or a capacity beyond 2^31.
std::int64_t expert_capacity(std::int64_t tokens, std::int64_t k, std::int64_t experts,
                             double factor);

// Of tokens [G, T, h]: what each of their k choices weighs, its expert, and the place there.
struct Routing {
  TensorId weights, experts, positions;  // [G, T, k]
  std::int64_t num_experts = 0;
};

// The k largest of the probabilities [G, T, E] of each token. Operators are named `name`.top_k and
// `name`.position.
Routing route_top_k(LogicalGraph& graph, TensorId probabilities, std::int64_t k,
                    const std::string& name, int layer);

// x [G, T, h] -> [E, G, capacity, h]: choices beyond the capacity are dropped, free places are
// zero.
TensorId dispatch_tokens(LogicalGraph& graph, TensorId x, const Routing& routing,
                         std::int64_t capacity, const std::string& name, int layer);
// y [E, G, capacity, h] -> [G, T, h]: the weighted sum over the choices that were not dropped.
TensorId combine_tokens(LogicalGraph& graph, TensorId y, const Routing& routing,
                        const std::string& name, int layer);

}  // namespace sextant
