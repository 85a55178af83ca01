// The sizes of reduce_to_bias. (bias_add is an element-wise function.)
#include "backends/cuda/kernels/bias.h"

#include "backends/cuda/cuda_context.h"
#include "backends/cuda/cuda_kernel.h"
#include "backends/cuda/kernels/device_table.h"
#include "backends/cuda/kernels/families.h"
#include "backends/cuda/kernels/launch.h"

#include <vector>

namespace sextant {
namespace {

static_assert(BiasTiles::kScratchBytes <= CudaContext::kWorkspaceBytes);

ReduceToBiasArguments arguments_of(const KernelContext& call, const CudaContext& device) {
  ReduceToBiasArguments arguments;
  arguments.dtype = call.in[0].local.dtype;
  arguments.out_dtype = call.out[0].local.dtype;
  arguments.dy = call.in[0].data;
  arguments.bias = call.out[0].data;
  arguments.scratch = device.workspace();
  arguments.accumulate = call.accumulate[0];
  arguments.columns = call.out[0].local.shape.elements();
  if (arguments.columns > 0) arguments.rows = call.in[0].local.shape.elements() / arguments.columns;
  const std::int64_t pack = 16 / size_of(arguments.dtype).value;
  if (has_aligned_data(call.in[0]) && arguments.columns % pack == 0) arguments.pack = pack;
  return arguments;
}

// Owns the counts of its tiles.
class ReduceToBias final : public CudaKernel {
 public:
  explicit ReduceToBias(const ReduceToBiasArguments& arguments)
      : arguments_(arguments),
        finished_(std::vector<std::uint32_t>(static_cast<std::size_t>(
            BiasTiles(arguments.rows, arguments.columns, arguments.pack).tiles))) {
    arguments_.finished = finished_.rows();
  }
  void enqueue(cudaStream_t stream) override {
    SEXTANT_CUDA(enqueue_reduce_to_bias(arguments_, stream));
  }

 private:
  ReduceToBiasArguments arguments_;
  DeviceTable<std::uint32_t> finished_;
};

std::unique_ptr<CudaKernel> make_reduce_to_bias(const KernelContext& call, CudaContext& device) {
  return std::make_unique<ReduceToBias>(arguments_of(call, device));
}

}  // namespace

void add_cuda_bias(CudaKernelTable& table) { table.add("reduce_to_bias", make_reduce_to_bias); }

}  // namespace sextant
