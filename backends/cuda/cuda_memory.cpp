// The sum and its words.
#include "backends/cuda/cuda_memory.h"

#include "core/base/check.h"

#include <cstddef>
#include <utility>
#include <vector>

namespace sextant {
namespace {

// Code and work areas that libraries load when a kernel first runs, and kernels' scratch: on an
// H200 cuBLASLt and cuDNN take less together.
constexpr Bytes kLibraries{std::int64_t{256} << 20};

std::string class_text(std::span<const Bytes> by_class) {
  std::string text;
  for (std::size_t c = 0; c < by_class.size(); ++c)
    if (by_class[c] > Bytes(0))
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ",
                          to_string(static_cast<MemoryClass>(c)), to_text(by_class[c]));
  return text;
}

}  // namespace

void require_room(const RankProgram& program, Rank rank, const CudaExtraMemory& extra,
                  const std::string& device, Bytes free, Bytes total) {
  const CudaRankMemory alone{&program, rank, extra};
  require_room(std::span(&alone, 1), device, free, total);
}

void require_room(std::span<const CudaRankMemory> ranks, const std::string& device, Bytes free,
                  Bytes total) {
  Bytes needed = kLibraries, arenas, inner, workspace, staging, communicators, loading;
  std::vector<Bytes> classes(kNumMemoryClasses);
  std::string names;
  for (const CudaRankMemory& of : ranks) {
    const ArenaPlan& arena = of.program->arena;
    arenas += arena.size;
    inner += of.extra.inner;
    workspace += of.extra.workspace;
    staging += of.extra.staging;
    communicators += of.extra.communicators;
    loading += of.extra.loading;
    for (std::size_t c = 0; c < arena.peak_by_class.size(); ++c)
      classes[c] += arena.peak_by_class[c];
    names += fmt::format("{}{} ('{}')", names.empty() ? "" : ", ", of.rank.value, of.program->name);
  }
  needed += arenas + inner + workspace + staging + communicators + loading;
  if (needed <= free) return;
  std::vector<std::string> hints{
      "another program may hold memory of this card: nvidia-smi shows it",
      "a smaller micro_batch, or recompute=full, needs less memory for activations"};
  if (ranks.size() > 1) hints.emplace_back("fewer --ranks-per-gpu on more cards");
  std::string others;
  if (staging > Bytes(0)) others = ", staging of communications " + to_text(staging);
  if (communicators > Bytes(0)) others += ", communicators " + to_text(communicators);
  if (loading > Bytes(0)) others += ", inputs of the next step " + to_text(loading);
  throw Error(ErrorCode::kInfeasible,
              fmt::format("{} {} {} {}, but {} of {}'s {} are free: {} too much. {} {} "
                          "(at {} {}), inside fused operators {}, workspace {}{}, libraries {}",
                          ranks.size() == 1 ? "rank" : "ranks", names,
                          ranks.size() == 1 ? "needs" : "together need", to_text(needed),
                          to_text(free), device, to_text(total), to_text(needed - free),
                          ranks.size() == 1 ? "Arena" : "Arenas", to_text(arenas),
                          ranks.size() == 1 ? "its peak" : "their peaks", class_text(classes),
                          to_text(inner), to_text(workspace), others, to_text(kLibraries)),
              std::move(hints));
}

}  // namespace sextant
