// Which rank is on which card, and how they exchange: from what the user asked for and the cards
// that each process of the job sees. Without CUDA.
#pragma once

#include "backends/cuda/ranks/collectives.h"
#include "core/base/check.h"
#include "core/text/counted_text.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <set>
#include <string>
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

// What a process of a job has: the cards that it may use, by names that are one in the whole job,
// and a block of ranks.
struct ProcessCards {
  std::vector<std::string> cards;
  std::size_t ranks = 0;
};

// How many ranks stand before those of `process` on the cards that it sees: those of the processes
// before it that see the same ones, in the same order. Processes see the same cards or none in
// common (srun may give each its own); else Error(kUsage).
inline std::size_t ranks_before_on_cards(const std::vector<ProcessCards>& processes,
                                         std::size_t process) {
  const std::vector<std::string>& own = processes[process].cards;
  const std::set<std::string> cards(own.begin(), own.end());
  std::size_t before = 0;
  for (std::size_t other = 0; other < processes.size(); ++other) {
    const std::vector<std::string>& theirs = processes[other].cards;
    if (theirs == own) {
      if (other < process) before += processes[other].ranks;
      continue;
    }
    for (const std::string& card : theirs)
      require(!cards.contains(card), ErrorCode::kUsage,
              "processes {} and {} both use GPU {}, and not the same GPUs in the same order: give "
              "all processes of a machine the same --gpus, or each its own",
              std::min(process, other), std::max(process, other), card);
  }
  return before;
}

// A card of each rank of the job, by name: neighbours fill the cards that their processes see.
inline std::vector<std::string> cards_of_job(const std::vector<ProcessCards>& processes,
                                             int ranks_per_gpu) {
  std::vector<std::string> of_rank;
  for (std::size_t process = 0; process < processes.size(); ++process) {
    const auto& [cards, ranks] = processes[process];
    std::vector<int> numbers(cards.size());
    std::iota(numbers.begin(), numbers.end(), 0);
    const std::size_t before = ranks_before_on_cards(processes, process);
    const std::vector<int> filled = gpus_of_ranks(before + ranks, numbers, ranks_per_gpu);
    for (std::size_t rank = before; rank < filled.size(); ++rank)
      of_rank.push_back(cards[static_cast<std::size_t>(filled[rank])]);
  }
  return of_rank;
}

// NCCL where each rank has a card to itself and the build has it, else local; what is asked for
// otherwise must be possible.
inline CudaCollectives collectives_for(CudaCollectives asked, const std::vector<int>& card_of_rank,
                                       bool has_nccl) {
  const std::set<int> cards(card_of_rank.begin(), card_of_rank.end());
  const bool shares = cards.size() < card_of_rank.size();
  if (asked == CudaCollectives::kAutomatic)
    return has_nccl && !shares ? CudaCollectives::kNccl : CudaCollectives::kLocal;
  if (asked == CudaCollectives::kLocal) return asked;
  require(!shares, ErrorCode::kUsage,
          "--collectives nccl: {} ranks share {}, and NCCL wants a card for each: "
          "--collectives local, or more cards",
          card_of_rank.size(), counted(static_cast<std::int64_t>(cards.size()), "GPU"));
  require(has_nccl, ErrorCode::kDevice,
          "--collectives nccl: this build has no NCCL (nccl.h and libnccl.so of one version were "
          "not found when it was configured)");
  return asked;
}

[[noreturn]] inline void refuse_local_over_processes() {
  fail(ErrorCode::kUsage,
       "--collectives local: ranks pull from each other inside one process, and these are in "
       "several: --collectives nccl");
}

// Ranks of several processes cannot pull from each other.
inline CudaCollectives collectives_over_processes(CudaCollectives asked,
                                                  const std::vector<std::string>& card_of_rank,
                                                  bool has_nccl) {
  if (asked == CudaCollectives::kLocal) refuse_local_over_processes();
  std::map<std::string, int> numbers;
  std::vector<int> number_of_rank;
  for (const std::string& card : card_of_rank)
    number_of_rank.push_back(numbers.emplace(card, static_cast<int>(numbers.size())).first->second);
  return collectives_for(CudaCollectives::kNccl, number_of_rank, has_nccl);
}

}  // namespace sextant
