// The sum and its words.
#include "backends/cuda/cuda_memory.h"

#include "core/check.h"

#include <cstddef>

namespace sextant {
namespace {

// Code and work areas that libraries load when a kernel first runs, and kernels' scratch: on an
// H200 cuBLASLt and cuDNN take less together.
constexpr Bytes kLibraries{std::int64_t{256} << 20};

std::string class_text(const ArenaPlan& arena) {
  std::string text;
  for (std::size_t c = 0; c < arena.peak_by_class.size(); ++c)
    if (arena.peak_by_class[c] > Bytes(0))
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ",
                          to_string(static_cast<MemoryClass>(c)), to_text(arena.peak_by_class[c]));
  return text;
}

}  // namespace

void require_room(const RankProgram& program, Rank rank, const CudaExtraMemory& extra,
                  const std::string& device, Bytes free, Bytes total) {
  const Bytes needed = program.arena.size + extra.inner + extra.workspace + kLibraries;
  if (needed <= free) return;
  throw Error(
      ErrorCode::kInfeasible,
      fmt::format("rank {} ('{}') needs {}, but {} of {}'s {} are free: {} too much. Arena {} "
                  "(at its peak {}), inside fused operators {}, workspace {}, libraries {}",
                  rank.value, program.name, to_text(needed), to_text(free), device, to_text(total),
                  to_text(needed - free), to_text(program.arena.size), class_text(program.arena),
                  to_text(extra.inner), to_text(extra.workspace), to_text(kLibraries)),
      {"another program may hold memory of this card: nvidia-smi shows it",
       "a smaller micro_batch, or recompute=full, needs less memory for activations"});
}

}  // namespace sextant
