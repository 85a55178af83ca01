// Which rank is on which card, and how they exchange: from what the user asked for and how many
// cards there are. Without CUDA.
#pragma once

#include "backends/cuda/cuda_backend.h"
#include "core/base/check.h"
#include "core/text/counted_text.h"

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

namespace sextant {

// The cards that are asked for, or all.
inline std::vector<int> usable_gpus(const std::vector<int>& asked, int count) {
  std::vector<int> gpus = asked;
  for (int gpu = 0; asked.empty() && gpu < count; ++gpu) gpus.push_back(gpu);
  std::set<int> seen;
  for (const int gpu : gpus) {
    require(seen.insert(gpu).second, ErrorCode::kUsage, "GPU {} is named twice", gpu);
    require(gpu >= 0 && gpu < count, ErrorCode::kDevice, "GPU {} of {} does not exist", gpu, count);
  }
  return gpus;
}

// A card of each rank: rank r is on gpus[r / ranks_per_gpu].
inline std::vector<int> gpus_of_ranks(std::size_t ranks, const std::vector<int>& gpus,
                                      int ranks_per_gpu) {
  require(ranks_per_gpu >= 1, ErrorCode::kUsage, "--ranks-per-gpu {}: a card has at least one rank",
          ranks_per_gpu);
  const auto each = static_cast<std::size_t>(ranks_per_gpu);
  require(ranks <= gpus.size() * each, ErrorCode::kInfeasible,
          "the plan has {} ranks, and {} x {} per GPU are fewer: --ranks-per-gpu {} would do, and "
          "--backend cpu runs all of them too",
          ranks, counted(static_cast<std::int64_t>(gpus.size()), "GPU"), each,
          (ranks + gpus.size() - 1) / gpus.size());
  std::vector<int> of_rank;
  for (std::size_t rank = 0; rank < ranks; ++rank) of_rank.push_back(gpus[rank / each]);
  return of_rank;
}

// NCCL where each rank has a card to itself and the build has it, else local; what is asked for
// otherwise must be possible.
inline CudaCollectives collectives_for(CudaCollectives asked, const std::vector<int>& gpu_of_rank,
                                       bool has_nccl) {
  const std::set<int> cards(gpu_of_rank.begin(), gpu_of_rank.end());
  const bool shares = cards.size() < gpu_of_rank.size();
  if (asked == CudaCollectives::kAutomatic)
    return has_nccl && !shares ? CudaCollectives::kNccl : CudaCollectives::kLocal;
  if (asked == CudaCollectives::kLocal) return asked;
  require(!shares, ErrorCode::kUsage,
          "--collectives nccl: {} ranks share {}, and NCCL wants a card for each: "
          "--collectives local, or more cards",
          gpu_of_rank.size(), counted(static_cast<std::int64_t>(cards.size()), "GPU"));
  require(has_nccl, ErrorCode::kDevice,
          "--collectives nccl: this build has no NCCL (nccl.h and libnccl.so of one version were "
          "not found when it was configured)");
  return asked;
}

}  // namespace sextant
