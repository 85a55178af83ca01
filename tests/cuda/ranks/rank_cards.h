// Where the ranks of a test are, and how they exchange.
#pragma once

#include "backends/cuda/cuda_backend.h"
#include "tests/conformance/operators/boxing_runner.h"
#include "tests/conformance/training/training_runs.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace sextant {

struct RankCards {
  int cards = 1;
  CudaCollectives collectives = CudaCollectives::kLocal;

  std::string text() const;
  // Neighbouring ranks share a card where there are more ranks than cards.
  CudaWorldOptions options(std::size_t ranks) const;
  BoxingBackend boxing() const;
};
inline constexpr RankCards kOneCard{1, CudaCollectives::kLocal};
inline constexpr RankCards kTwoCards{2, CudaCollectives::kLocal};
inline constexpr RankCards kTwoCardsNccl{2, CudaCollectives::kNccl};

struct RankTraining {
  std::uint64_t seed = 17;  // of weights
  bool deterministic = false;
  bool graphs = false;
};
// With its state and what it moved.
TrainingResult train_on_cards(const RankCards& cards, const TrainingCase& training,
                              const PhysicalGraph& graph, const RankTraining& options = {});

}  // namespace sextant
