// The sizes of reduce_to_bias. (bias_add is an element-wise function.)
#include "backends/cuda/kernels/pointwise/bias.h"

#include "backends/cuda/cuda_kernel.h"
#include "backends/cuda/kernels/shared/column_sums_launch.h"
#include "backends/cuda/kernels/shared/families.h"

namespace sextant {
namespace {

std::unique_ptr<CudaKernel> make_reduce_to_bias(const KernelContext& call, CudaContext& device) {
  ReduceToBiasArguments arguments;
  arguments.dtype = call.in[0].local.dtype;
  arguments.out_dtype = call.out[0].local.dtype;
  arguments.dy = call.in[0].data;
  arguments.bias = call.out[0].data;
  arguments.accumulate = call.accumulate[0];
  arguments.columns = call.out[0].local.shape.elements();
  if (arguments.columns > 0) arguments.rows = call.in[0].local.shape.elements() / arguments.columns;
  arguments.pack = column_pack(call.in[0], arguments.columns);
  return cuda_column_sums(enqueue_reduce_to_bias, arguments, device,
                          ColumnSums(arguments.rows, arguments.columns, arguments.pack, 1));
}

}  // namespace

void add_cuda_bias(CudaKernelTable& table) { table.add("reduce_to_bias", make_reduce_to_bias); }

}  // namespace sextant
