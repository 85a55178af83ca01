// A kernel that sums over rows (column_sums.cuh): its arguments, and the counts of its tiles.
#pragma once

#include "backends/cuda/cuda_context.h"
#include "backends/cuda/kernels/shared/column_sums.h"
#include "backends/cuda/kernels/shared/device_table.h"
#include "backends/cuda/kernels/shared/launch.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace sextant {

// Calls `enqueue` of a .cu file with the arguments and their `finished`.
template <typename Arguments>
class ColumnSumsLaunch final : public CudaKernel {
 public:
  using Enqueue = cudaError_t (*)(const Arguments&, cudaStream_t);
  ColumnSumsLaunch(Enqueue enqueue, const Arguments& arguments, const ColumnSums& plan)
      : enqueue_(enqueue),
        arguments_(arguments),
        finished_(std::vector<std::uint32_t>(static_cast<std::size_t>(plan.tiles))) {
    arguments_.finished = finished_.rows();
  }
  void enqueue(cudaStream_t stream) override { SEXTANT_CUDA(enqueue_(arguments_, stream)); }

 private:
  Enqueue enqueue_;
  Arguments arguments_;
  DeviceTable<std::uint32_t> finished_;
};

// `plan` as the .cu file makes it: of the same rows, columns and pack.
template <typename Arguments>
std::unique_ptr<CudaKernel> cuda_column_sums(cudaError_t (*enqueue)(const Arguments&, cudaStream_t),
                                             Arguments arguments, CudaContext& device,
                                             const ColumnSums& plan) {
  static_assert(ColumnSums::kScratchBytes <= CudaContext::kWorkspaceBytes);
  arguments.scratch = device.workspace();
  return std::make_unique<ColumnSumsLaunch<Arguments>>(enqueue, arguments, plan);
}

// Neighbouring columns of a lane: as many as 16 bytes hold where the rows of `x` are aligned,
// else 1.
inline std::int64_t column_pack(const KernelOperand& x, std::int64_t columns) {
  const std::int64_t pack = 16 / size_of(x.local.dtype).value;
  return has_aligned_data(x) && columns % pack == 0 ? pack : 1;
}

}  // namespace sextant
