// Worlds of GPU ranks for tests; arenas lie in host memory where states are read.
#include "tests/cuda/ranks/rank_cards.h"

#include <fmt/format.h>

#include <memory>
#include <vector>

namespace sextant {
std::string RankCards::text() const {
  return fmt::format("{} card(s), {}", cards,
                     collectives == CudaCollectives::kNccl ? "nccl" : "local");
}

CudaWorldOptions RankCards::options(std::size_t ranks) const {
  CudaWorldOptions options;
  for (int card = 0; card < cards; ++card) options.gpus.push_back(card);
  const auto count = static_cast<std::size_t>(cards);
  options.ranks_per_gpu = static_cast<int>((ranks + count - 1) / count);
  options.collectives = collectives;
  options.timeout_ms = 20'000;
  return options;
}

BoxingBackend RankCards::boxing() const {
  return {[cards = *this](const PhysicalGraph& graph) {
            return std::make_unique<BoxingWorld<CudaWorld>>(graph,
                                                            cards.options(graph.ranks.size()));
          },
          true};
}

TrainingResult train_on_cards(const RankCards& cards, const TrainingCase& training,
                              const PhysicalGraph& graph, const RankTraining& wanted) {
  CudaWorldOptions options = cards.options(graph.ranks.size());
  options.each.seed = wanted.seed;
  options.each.host_visible = true;
  options.each.deterministic = wanted.deterministic;
  options.graphs_of_several = wanted.graphs;
  CudaWorld world(graph, options);
  return train_in(world, training, graph);
}

}  // namespace sextant
