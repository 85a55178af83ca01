// The sizes of reduce_to_bias, of one call or of several. (bias_add is an element-wise function.)
#include "backends/cuda/kernels/pointwise/bias.h"

#include "backends/cuda/cuda_kernel.h"
#include "backends/cuda/kernels/shared/column_sums_launch.h"
#include "backends/cuda/kernels/shared/device_table.h"
#include "backends/cuda/kernels/shared/families.h"

#include <fmt/core.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace sextant {
namespace {

ReduceToBiasArguments arguments_of_sums(const KernelContext& call) {
  ReduceToBiasArguments arguments;
  arguments.dtype = call.in[0].local.dtype;
  arguments.out_dtype = call.out[0].local.dtype;
  arguments.dy = call.in[0].data;
  arguments.bias = call.out[0].data;
  arguments.accumulate = call.accumulate[0];
  arguments.columns = call.out[0].local.shape.elements();
  if (arguments.columns > 0) arguments.rows = call.in[0].local.shape.elements() / arguments.columns;
  arguments.pack = column_pack(call.in[0], arguments.columns);
  return arguments;
}

std::unique_ptr<CudaKernel> launch_sums(const ReduceToBiasArguments& arguments,
                                        CudaContext& device) {
  return cuda_column_sums(
      enqueue_reduce_to_bias, arguments, device,
      ColumnSums(arguments.rows, arguments.columns, arguments.pack, 1, arguments.matrices));
}

std::unique_ptr<CudaKernel> make_reduce_to_bias(const KernelContext& call, CudaContext& device) {
  return launch_sums(arguments_of_sums(call), device);
}

std::string key_of_sums(const KernelContext& call) {
  const ReduceToBiasArguments x = arguments_of_sums(call);
  return fmt::format("sums {}x{} {}->{} by {}{}", x.rows, x.columns, to_string(x.dtype),
                     to_string(x.out_dtype), x.pack, x.accumulate ? " added" : "");
}

// The arrays of pointers, and the launch that reads them.
class BiasSums final : public CudaKernel {
 public:
  BiasSums(std::span<const KernelContext> calls, CudaContext& device) {
    std::vector<const void*> dy;
    std::vector<void*> bias;
    for (const KernelContext& call : calls) {
      dy.push_back(call.in[0].data);
      bias.push_back(call.out[0].data);
    }
    dy_ = DeviceTable<const void*>(dy);
    bias_ = DeviceTable<void*>(bias);
    ReduceToBiasArguments arguments = arguments_of_sums(calls[0]);
    arguments.all_dy = dy_.rows();
    arguments.all_bias = bias_.rows();
    arguments.matrices = static_cast<std::int64_t>(calls.size());
    launch_ = launch_sums(arguments, device);
  }
  void enqueue(cudaStream_t stream) override { launch_->enqueue(stream); }

 private:
  DeviceTable<const void*> dy_;
  DeviceTable<void*> bias_;
  std::unique_ptr<CudaKernel> launch_;
};

std::unique_ptr<CudaKernel> make_sums_together(std::span<const KernelContext> calls,
                                               const CudaKernelTable& /*table*/,
                                               CudaContext& device) {
  return std::make_unique<BiasSums>(calls, device);
}

}  // namespace

void add_cuda_bias(CudaKernelTable& table) {
  table.add("reduce_to_bias", make_reduce_to_bias);
  table.add_together("reduce_to_bias", key_of_sums, make_sums_together);
}

}  // namespace sextant
