// Durations are differences of neighbours, not of times since the epoch: those have less than a
// microsecond left after a minute.
#include "backends/cuda/devices/launch_stamps.h"

#include "backends/cuda/cuda_check.h"

#include <algorithm>
#include <cstdint>

namespace sextant {
namespace {

double seconds_between(cudaEvent_t begin, cudaEvent_t end) {
  float milliseconds = 0;
  SEXTANT_CUDA(cudaEventElapsedTime(&milliseconds, begin, end));
  return static_cast<double>(milliseconds) * 1e-3;
}

}  // namespace

LaunchStamps::LaunchStamps(const CudaProgram& program) : program_(program) {
  SEXTANT_CUDA(cudaEventCreate(&epoch_));
  SEXTANT_CUDA(cudaEventRecord(epoch_, nullptr));
}

LaunchStamps::~LaunchStamps() {
  if (epoch_ != nullptr) cudaEventDestroy(epoch_);
}

void LaunchStamps::mark(LaunchFences::Entry& launch, std::size_t index, cudaStream_t stream) {
  if (launch.marks.size() <= index) SEXTANT_CUDA(cudaEventCreate(&launch.marks.emplace_back()));
  SEXTANT_CUDA(cudaEventRecord(launch.marks[index], stream));
}

Duration LaunchStamps::since_epoch(cudaEvent_t event) const {
  return duration_from_seconds(std::max(0.0, seconds_between(epoch_, event)));
}

void LaunchStamps::note(const LaunchFences::Entry& launch) {
  if (!launch.run.is_valid()) return;
  const CudaRun& run = program_.run(launch.run);
  Duration begin = since_epoch(launch.marks[0]);
  for (std::size_t k = 0; k < run.kernels.size(); ++k) {
    const CudaKernelOfRun& kernel = run.kernels[k];
    // Joined actors are alike: each has as much of the time.
    const auto shares = static_cast<double>(kernel.joined.size() + 1);
    const Duration share =
        duration_from_seconds(seconds_between(launch.marks[k], launch.marks[k + 1]) / shares);
    const auto stamp = [&](std::int32_t first_actor, std::int32_t num_actors) {
      stamps_.push_back({launch.run, launch.step, begin, begin + share, first_actor, num_actors});
      begin += share;
    };
    stamp(kernel.first_actor, kernel.num_actors);
    for (const std::int32_t actor : kernel.joined) stamp(actor, 1);
  }
  if (run.communications.empty()) return;
  stamps_.push_back(
      {launch.run, launch.step, begin,
       begin + duration_from_seconds(seconds_between(launch.marks[0], launch.marks[1]))});
}

}  // namespace sextant
