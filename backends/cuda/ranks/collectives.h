// How ranks on GPUs may exchange bytes. Without CUDA.
#pragma once

#include <cstdint>

namespace sextant {

// Local: launch threads of one process meet on the host and pull from each other by kernels; ranks
// may share a card. NCCL: its collectives, a card per rank, and no host waits. Automatic: NCCL
// where that is so and the build has it; always over processes.
enum class CudaCollectives : std::uint8_t { kAutomatic, kNccl, kLocal };

}  // namespace sextant
